//! Vectors: stored beside the entries whose texts they stand for, and cached in memory for search.
//!
//! A vector is a row of its own under an id that is never given twice. Whatever replaces or removes an entry removes
//! its vectors in the same transaction, so a vector that is stored is right, and what is held in memory by id is right
//! as long as the row is there.

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
