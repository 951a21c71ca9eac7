//! Operations on whole scopes: export, import, snapshots, uses, eviction, erasure; and background work.

pub(crate) mod background;
pub(crate) mod erase;
pub(crate) mod eviction;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod snapshot;
pub(crate) mod tombstones;
pub(crate) mod uses;
