//! What an operation says of scopes, bounded whatever there is to say.

use memory_core::{Error, Scope};
use serde::Serialize;

/// Most scopes that a list names.
const MAX_NAMED: usize = 1_000;

/// Something about a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeNote {
    /// Which.
    pub scope: Scope,
    /// An error code.
    pub code: String,
    /// In words.
    pub reason: String,
}

/// What of a scope did not come along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotCarried {
    /// Which.
    pub scope: Scope,
    /// Each thing, with the reason.
    pub what: Vec<String>,
}

/// Scopes by what became of one facet of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FacetReport {
    /// Filled, where there was nothing.
    pub restored: u64,
    /// Put in the place of something else; removed, where the source has nothing.
    pub replaced: u64,
    /// The same already.
    pub unchanged: u64,
    /// Different, and left alone as the caller chose.
    pub kept: u64,
}

/// A list that names the first thousand and counts all.
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
