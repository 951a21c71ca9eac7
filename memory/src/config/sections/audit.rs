//! `[audit]` of `memory.toml`.

use std::path::PathBuf;

use memory_core::{Error, Result};
use serde::Deserialize;

use crate::audit::{AuditMode, Redactor};

/// `[audit]`: where the record of every operation goes. Nothing is recorded where the section names no sink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AuditSection {
    /// The file that lines of JSON are appended to; relative to the folder of `memory.toml`.
    pub file: Option<PathBuf>,
    /// Whether each record is a `tracing` event too.
    pub tracing: bool,
    /// How much a record says.
    pub mode: AuditMode,
    /// Patterns of what must not be shown, besides the well-known ones.
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
