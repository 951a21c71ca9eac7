//! Vectors: stored next to their entries, and cached in memory for search.
//!
//! A vector is a row with an id that is never reused. Whatever replaces or removes an entry removes its vectors in the
//! same transaction. So a stored vector is always right, and so is a vector cached by id as long as its row exists.

pub(crate) mod cache;
pub(crate) mod embed;
mod feed;
mod load;
mod matrix;
mod missing;
pub(crate) mod nearest;
pub(crate) mod numbers;
pub(crate) mod rows;
pub(crate) mod scope_matrix;
pub(crate) mod stats;
