//! Search by meaning: caches in memory agree with what is stored.

mod nearest;
mod together;
mod vectors;
