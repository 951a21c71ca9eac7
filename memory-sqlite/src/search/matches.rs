//! Keys that a search found.

use crate::vector::nearest::Near;

/// A key with its similarities, and what they were computed from.
#[derive(Clone, Debug, Default)]
pub(super) struct Match {
    pub(super) key: String,
    pub(super) lexical: Option<f64>,
    /// The version that the text index had of it.
    pub(super) indexed: Option<u64>,
    pub(super) near: Option<Near>,
}
