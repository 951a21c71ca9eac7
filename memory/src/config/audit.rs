//! The auditor of `[audit]`, and the folder of `[gc]`.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::{Clock, Result};

use super::Config;
use crate::audit::{Auditor, JsonLines, Redactor, TracingSink};

impl Config {
    /// Starts the auditor described in `[audit]`; `None` if there is no sink.
    ///
    /// # Errors
    /// `unavailable` or `forbidden` if the file cannot be opened.
    pub fn auditor(&self, clock: Arc<dyn Clock>) -> Result<Option<Arc<Auditor>>> {
        let section = &self.file().audit;
        if section.file.is_none() && !section.tracing {
            return Ok(None);
        }
        let mut builder =
            Auditor::builder(clock).mode(section.mode).redactor(Redactor::with_patterns(&section.redact)?);
        if let Some(file) = self.audit_file() {
            builder = builder.sink(JsonLines::open(file)?);
        }
        if section.tracing {
            builder = builder.sink(TracingSink);
        }
        builder.start().map(Arc::new).map(Some)
    }

    /// The folder for last snapshots from `[gc]`.
    #[must_use]
    pub fn gc_snapshots(&self) -> Option<PathBuf> {
        let folder = self.file().gc.snapshot_to.as_ref()?;
        Some(self.base_dir().unwrap_or_default().join(folder))
    }
}
