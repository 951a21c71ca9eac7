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

/// What of a scope was not copied.
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

/// A list with the first thousand items and the count of all.
#[derive(Clone, Debug)]
pub(super) struct Notes<T> {
    pub(super) first: Vec<T>,
    pub(super) count: u64,
}

impl<T> Default for Notes<T> {
    fn default() -> Self {
        Self { first: Vec::new(), count: 0 }
    }
}

impl<T> Notes<T> {
    pub(super) fn add(&mut self, note: T) {
        self.count += 1;
        if self.first.len() < MAX_NAMED {
            self.first.push(note);
        }
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

impl NotCarried {
    pub(super) fn new(scope: &Scope, what: Vec<String>) -> Self {
        Self { scope: scope.clone(), what }
    }
}
