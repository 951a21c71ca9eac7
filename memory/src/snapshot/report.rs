//! Reports about scopes, of bounded size.

use memory_core::{Error, Scope};
use serde::Serialize;

/// Most scopes in a list.
const MAX_NAMED: usize = 1_000;

/// Something about a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeNote {
    /// The scope.
    pub scope: Scope,
    /// An error code.
    pub code: String,
    /// The reason.
    pub reason: String,
}

/// What was not copied of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotCarried {
    /// The scope.
    pub scope: Scope,
    /// Each thing, with the reason.
    pub what: Vec<String>,
}

/// Scopes by the outcome for one of their facets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FacetReport {
    /// Filled, because it was empty.
    pub restored: u64,
    /// Replaced; or removed, because the source has nothing.
    pub replaced: u64,
    /// Equal already.
    pub unchanged: u64,
    /// Different, and kept as requested.
    pub kept: u64,
}

/// Counts a note, and keeps it if it is among the first thousand.
pub(super) fn add<T>(count: &mut u64, first: &mut Vec<T>, note: T) {
    *count += 1;
    if first.len() < MAX_NAMED {
        first.push(note);
    }
}

/// Keeps what was not copied of a scope, if anything, for the first thousand scopes.
pub(super) fn add_lost(lost: &mut Vec<NotCarried>, scope: &Scope, what: Vec<String>) {
    if !what.is_empty() && lost.len() < MAX_NAMED {
        lost.push(NotCarried { scope: scope.clone(), what });
    }
}

impl ScopeNote {
    pub(super) fn new(scope: &Scope, error: &Error) -> Self {
        Self {
            scope: scope.clone(),
            code: error.kind().code().to_owned(),
            reason: error.message().to_owned(),
        }
    }
}
