//! Vectors of entries: storing them, finding the entries that lack one, and their indexes.

pub(crate) mod embed;
pub(crate) mod index;
mod missing;
pub(crate) mod numbers;
