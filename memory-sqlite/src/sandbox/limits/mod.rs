//! Limits of a connection and its statements: settings, memory, time, the length of the log.

pub(super) mod handle;
pub(crate) mod heap;
pub(super) mod interrupt;
#[cfg_attr(not(feature = "lab"), allow(dead_code, unreachable_pub))]
mod layers;
pub(super) mod settings;

#[cfg_attr(not(feature = "lab"), allow(unreachable_pub))]
pub use layers::Layers;
pub(crate) use settings::{SandboxConfig, SharedFile};
