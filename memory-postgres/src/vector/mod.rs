//! Vectors of entries: making them, storing them, moving to another model, and their indexes.

pub(crate) mod embed;
pub(crate) mod index;
pub(crate) mod numbers;
pub(crate) mod reembed;
