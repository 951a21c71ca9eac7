//! Matches of a search.

use crate::vector::nearest::Near;

/// A matching key with its similarities, and what they were computed from.
#[derive(Clone, Debug, Default)]
pub(super) struct Match {
    pub(super) key: String,
    pub(super) lexical: Option<f64>,
    /// Its version in the text index.
    pub(super) indexed: Option<u64>,
    pub(super) near: Option<Near>,
}
