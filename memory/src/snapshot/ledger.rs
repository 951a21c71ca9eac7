//! Which snapshots of a store were written, and where: whoever is to forget something must find them.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind as IoErrorKind};
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, Result, Retry, Scope, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::file::{append, replace};
use super::format::{Read, read_line};
use super::write::{SnapshotOptions, SnapshotReport};

/// Most snapshots that a ledger tells of, the last ones.
const MAX_TOLD: usize = 10_000;

/// A snapshot that was written, or was about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// When it was taken.
    pub created_at: Timestamp,
    /// Its absolute path.
    pub path: PathBuf,
    /// The digest by which it is known, that of its last line.
    pub sha256: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Whose scopes alone are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Which scope alone is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl LedgerEntry {
    pub(super) fn new(path: &Path, report: &SnapshotReport, options: &SnapshotOptions) -> Self {
        Self {
            created_at: report.created_at,
            path: path.to_owned(),
            sha256: report.sha256.clone(),
            bytes: report.bytes,
            tenant: options.tenant.clone(),
            scope: options.scope.clone(),
        }
    }
}

/// A private file with a line for each snapshot of a store.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger in this file, which need not be there yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Notes a snapshot.
    ///
    /// # Errors
    /// `unavailable` where the file cannot be written; `invalid_argument` for a path that is not UTF-8.
    pub fn note(&self, entry: &LedgerEntry) -> Result<()> {
        let mut line = serde_json::to_vec(entry)
            .map_err(|error| Error::invalid("the path of the snapshot is not UTF-8").with_source(error))?;
        // A line that a dying process left half is ended first.
        line.insert(0, b'\n');
        line.push(b'\n');
        append(&self.path, &line)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes what is noted: `change` answers what becomes of each entry.
    ///
    /// # Errors
    /// `unavailable` where the file cannot be replaced.
    pub(crate) fn edit(&self, mut change: impl FnMut(LedgerEntry) -> Option<LedgerEntry>) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let unread = |error| self.unread(error);
        replace(&self.path, |file| {
            let (mut reader, mut line, mut bytes) = (BufReader::new(file), Vec::new(), Vec::new());
            while let Read::Line = read_line(&mut reader, &mut line).map_err(unread)? {
                let Ok(entry) = serde_json::from_slice::<LedgerEntry>(&line) else { continue };
                let Some(entry) = change(entry) else { continue };
                let encoded = serde_json::to_writer(&mut bytes, &entry);
                encoded.map_err(|error| Error::internal("a note has no JSON form").with_source(error))?;
                bytes.push(b'\n');
            }
            Ok(bytes)
        })
    }

    /// The snapshots noted, oldest first, whether their files are still there or not: the last ten thousand.
    ///
    /// # Errors
    /// `unavailable` where the file cannot be read. A line that is none is passed over.
    pub fn entries(&self) -> Result<Vec<LedgerEntry>> {
        let unread = |error| self.unread(error);
        let file = match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_file() => File::open(&self.path).map_err(unread)?,
            Ok(_) => {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!("the ledger of snapshots, {}, is no file; move it away", self.path.display()),
                ));
            }
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unread(error)),
        };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut entries = std::collections::VecDeque::new();
        while let Read::Line = read_line(&mut reader, &mut line).map_err(unread)? {
            if let Ok(entry) = serde_json::from_slice::<LedgerEntry>(&line) {
                if entries.len() == MAX_TOLD {
                    entries.pop_front();
                }
                entries.push_back(entry);
            }
        }
        Ok(entries.into())
    }

    fn unread(&self, error: std::io::Error) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            format!("the ledger of snapshots, {}, cannot be read: {error}", self.path.display()),
        )
        .with_retry(Retry::Never)
        .with_source(error)
    }
}
