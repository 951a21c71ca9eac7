//! Operations on entries beyond reading and writing: drift, forgetting, eviction, snapshots.

pub(crate) mod drift;
pub mod erase;
pub mod eviction;
pub(crate) mod snapshot;
