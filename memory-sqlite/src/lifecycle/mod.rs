//! Operations on whole scopes: export, import, snapshots, erasure, eviction; and background upkeep.

pub(crate) mod erase;
pub(crate) mod eviction;
pub(crate) mod export;
pub(crate) mod import;
mod import_step;
mod import_whole;
mod read_transaction;
pub(crate) mod snapshot;
pub(crate) mod tombstones;
pub(crate) mod upkeep;
pub(crate) mod uses;
