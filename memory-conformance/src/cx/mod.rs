//! The context of a case: an open provider, unique names, and shorthands for each facet.

mod context;
pub(crate) mod conversation;
pub(crate) mod database;
pub(crate) mod entries;
#[cfg(feature = "hierarchical")]
pub(crate) mod graph;
#[cfg(feature = "governed")]
pub(crate) mod shared;
mod store;
pub(crate) mod vectors;

pub(crate) use context::Cx;
pub(crate) use context::{hit_keys, json, key, ms, source, tagged};
pub(crate) use store::Store;

use memory_core::Scope;

use crate::check::CaseResult;
use conversation::Conversation;
use database::Database;

/// What a case may start with: each is new, and no other case or repeat uses it.
pub(crate) trait Fresh<'a>: Sized {
    fn fresh(cx: &'a Cx) -> CaseResult<Self>;
}

impl Fresh<'_> for Scope {
    fn fresh(cx: &Cx) -> CaseResult<Self> {
        cx.scope()
    }
}

impl<'a> Fresh<'a> for Database<'a> {
    fn fresh(cx: &'a Cx) -> CaseResult<Self> {
        cx.database()
    }
}

impl<'a> Fresh<'a> for Conversation<'a> {
    fn fresh(cx: &'a Cx) -> CaseResult<Self> {
        cx.conversation()
    }
}
