//! `[audit]` of `memory.toml`.

use std::path::PathBuf;

use memory_core::{Error, Result};
use serde::Deserialize;

use crate::audit::{AuditMode, Redactor};

/// `[audit]`: where the records of operations go. Without a sink nothing is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditSection {
    /// The file to append lines of JSON to; relative to the folder of `memory.toml`.
    pub file: Option<PathBuf>,
    /// Whether to emit each record as a `tracing` event too.
    pub tracing: bool,
    /// How much a record contains.
    pub mode: AuditMode,
    /// Patterns to redact, besides the well-known ones.
    pub redact: Vec<String>,
}

impl AuditSection {
    pub(in crate::config) fn check(&self) -> Result<()> {
        if self.file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            return Err(Error::invalid("`file` under [audit] is empty; name a file or leave it out"));
        }
        Redactor::with_patterns(&self.redact).map(drop).map_err(|error| {
            Error::invalid(format!("`redact` under [audit]: {}", error.message())).with_source(error)
        })
    }
}
