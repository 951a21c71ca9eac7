//! The life of scopes: export and import, snapshots, uses and eviction, erasure, and the work in the background.

pub(crate) mod background;
pub(crate) mod erase;
pub(crate) mod eviction;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod snapshot;
pub(crate) mod tombstones;
pub(crate) mod uses;
