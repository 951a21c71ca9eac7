//! The sections of `memory.toml`, as they are read.

pub(crate) mod audit;
pub(crate) mod definitions;
pub(crate) mod embedders;
pub(crate) mod file;
pub(crate) mod gc;
pub(super) mod rules;
