//! The sections of `memory.toml`.

pub(crate) mod audit;
pub(crate) mod definitions;
pub(crate) mod embedders;
pub(crate) mod file;
pub(crate) mod gc;
pub(crate) mod http;
pub(crate) mod models;
pub(super) mod rules;
pub(crate) mod snapshot;
