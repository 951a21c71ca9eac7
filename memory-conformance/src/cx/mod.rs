//! The context of a case: an open provider, unique names, and shorthands for each facet.

mod context;
pub(crate) mod conversation;
pub(crate) mod database;
pub(crate) mod entries;
mod store;
pub(crate) mod vectors;

pub(crate) use context::Cx;
pub(crate) use context::{expiring, hit_keys, json, key, ms, source, tagged};
pub(crate) use store::Store;
