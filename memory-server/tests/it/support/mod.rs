//! Shared parts of the tests: the command and its stores.

pub(crate) mod described;
#[cfg(target_os = "linux")]
pub(crate) mod many;
pub(crate) mod program;
pub(crate) mod seed;
pub(crate) mod service;
pub(crate) mod store;
pub(crate) mod user;
