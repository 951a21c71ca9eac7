//! The places where copies of a store's data are kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::audit::Auditor;
use crate::snapshot::Ledger;

/// The places where copies of a store's data are kept.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Places {
    /// The folder of drift backups.
    pub drift_backups: Option<PathBuf>,
    /// The ledger of snapshots.
    pub ledger: Option<Ledger>,
    /// Folders of drift backups of a fallback.
    pub fallback_backups: Vec<PathBuf>,
    /// Ledgers of snapshots of a fallback.
    pub fallback_ledgers: Vec<Ledger>,
    /// Journals of fallbacks.
    pub journals: Vec<PathBuf>,
    /// Audit files, without their rotated siblings.
    pub audit_files: Vec<PathBuf>,
    /// Files of backend definitions. They name tenants and are not changed.
    pub definitions: Vec<PathBuf>,
    /// The folder that records started forgets. `None`: nothing is recorded, so after a crash the caller must start
    /// over.
    pub intents: Option<PathBuf>,
    /// Records what was done.
    pub auditor: Option<Arc<Auditor>>,
}

impl Places {
    /// The default places next to the file of a SQLite store.
    #[must_use]
    pub fn beside(file: &Path) -> Self {
        let beside = |ending: &str| {
            let mut name = file.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Self {
            drift_backups: Some(beside(".drift")),
            ledger: Some(Ledger::at(beside(".snapshots"))),
            intents: Some(beside(".forget")),
            ..Self::default()
        }
    }

    /// Adds the journal of a fallback.
    #[must_use]
    pub fn with_journal(mut self, file: Option<PathBuf>) -> Self {
        self.journals.extend(file);
        self
    }

    /// Adds the places next to the fallback of a pair.
    #[must_use]
    pub fn with_fallback(mut self, drift_backups: Option<PathBuf>, ledger: Option<Ledger>) -> Self {
        self.fallback_backups.extend(drift_backups);
        self.fallback_ledgers.extend(ledger);
        self
    }

    /// Adds a file of definitions.
    #[must_use]
    pub fn with_definitions(mut self, file: Option<PathBuf>) -> Self {
        self.definitions.extend(file);
        self
    }

    /// Adds an audit file.
    #[must_use]
    pub fn with_audit_file(mut self, file: Option<PathBuf>) -> Self {
        self.audit_files.extend(file);
        self
    }

    /// Sets the auditor that records what was done.
    #[must_use]
    pub fn with_auditor(mut self, auditor: Option<Arc<Auditor>>) -> Self {
        self.auditor = auditor;
        self
    }
}
