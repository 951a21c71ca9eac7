//! What happens to a store's entries beyond reading and writing them: drift, forgetting, eviction, consistent views.

pub(crate) mod drift;
pub mod erase;
pub mod eviction;
pub(crate) mod snapshot;
