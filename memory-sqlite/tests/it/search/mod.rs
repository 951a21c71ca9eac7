//! Search by meaning: what is held in memory and what is stored agree.

mod nearest;
mod vectors;
