//! `[audit]` of `memory.toml`.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::{Clock, Error, Result};
use serde::Deserialize;

use super::Config;
use crate::audit::{AuditMode, Auditor, JsonLines, Redactor, TracingSink};

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
    pub(super) fn check(&self) -> Result<()> {
        if self.file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            return Err(Error::invalid("`file` under [audit] is empty; name a file or leave it out"));
        }
        Redactor::with_patterns(&self.redact).map(drop).map_err(|error| {
            Error::invalid(format!("`redact` under [audit]: {}", error.message())).with_source(error)
        })
    }
}

impl Config {
    /// Starts the auditor that `[audit]` describes; `None` where it names no sink.
    ///
    /// # Errors
    /// `unavailable` or `forbidden` where the file cannot be opened.
    pub fn auditor(&self, clock: Arc<dyn Clock>) -> Result<Option<Arc<Auditor>>> {
        let section = &self.file().audit;
        if section.file.is_none() && !section.tracing {
            return Ok(None);
        }
        let mut builder =
            Auditor::builder(clock).mode(section.mode).redactor(Redactor::with_patterns(&section.redact)?);
        if let Some(file) = &section.file {
            let folder = self.origin().parent().map(PathBuf::from).unwrap_or_default();
            builder = builder.sink(JsonLines::open(folder.join(file))?);
        }
        if section.tracing {
            builder = builder.sink(TracingSink);
        }
        builder.start().map(Arc::new).map(Some)
    }
}
