//! Where copies of what a store holds lie.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::audit::Auditor;
use crate::snapshot::Ledger;

/// Where copies of what a store holds lie.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Places {
    /// The folder of backups that drift left.
    pub drift_backups: Option<PathBuf>,
    /// The ledger of its snapshots.
    pub ledger: Option<Ledger>,
    /// Folders of backups that drift of a fallback left.
    pub fallback_backups: Vec<PathBuf>,
    /// Ledgers of snapshots of a fallback.
    pub fallback_ledgers: Vec<Ledger>,
    /// Journals of fallbacks.
    pub journals: Vec<PathBuf>,
    /// Audit files, without their rotated siblings.
    pub audit_files: Vec<PathBuf>,
    /// Files of definitions of backends, which name tenants and are left.
    pub definitions: Vec<PathBuf>,
    /// The folder that records what was begun; `None`: none, so that after a crash the caller has to start again.
    pub intents: Option<PathBuf>,
    /// Gets a record of what was done.
    pub auditor: Option<Arc<Auditor>>,
}

impl Places {
    /// Those beside the file of a SQLite store, where they are by default.
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

    /// Adds what lies beside the fallback of a pair.
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
