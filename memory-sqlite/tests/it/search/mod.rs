//! Search by meaning: caches in memory agree with what is stored.

mod nearest;
mod vectors;
