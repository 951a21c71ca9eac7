//! `[snapshot]` of `memory.toml`.

use memory_core::{Error, Result};
use serde::Deserialize;

/// `[snapshot]`: what `memory snapshot` leaves out unless its options say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SnapshotSection {
    /// Leave out scopes larger than this, in bytes, and name them: 1 or more. Default: none is left out.
    pub max_scope_bytes: Option<u64>,
}

impl SnapshotSection {
    pub(in crate::config) fn check(self) -> Result<()> {
        match self.max_scope_bytes {
            Some(0) => Err(Error::invalid(
                "[snapshot] max_scope_bytes is 0, which would leave out everything; it must be 1 or more, or left out",
            )),
            _ => Ok(()),
        }
    }
}
