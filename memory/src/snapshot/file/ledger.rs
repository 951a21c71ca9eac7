//! The ledger of a store's snapshot files, by which forgetting finds every copy.

use std::fs::{self, File};
use std::io::{BufReader, ErrorKind as IoErrorKind, Write as _};
use std::path::{Path, PathBuf};

use memory_core::{Clock as _, Error, Result, Retry, Scope, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

use super::super::format::lines::{Read, read_line};
use super::super::write::{SnapshotOptions, SnapshotReport};
use super::place::unwritten;
use super::shared::{append, replace};
use crate::system::SystemClock;

/// Most snapshots that a ledger returns: the latest ones.
const MAX_RETURNED: usize = 10_000;

/// A snapshot that was written or was about to be. One that was only started has no digest or size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LedgerEntry {
    /// When it was taken.
    pub created_at: Timestamp,
    /// Its absolute path.
    pub path: PathBuf,
    /// Its digest, as in its last line.
    pub sha256: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// The tenant it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The scope it is limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
}

impl LedgerEntry {
    /// One that is about to be written.
    pub(super) fn begun(path: &Path, options: &SnapshotOptions) -> Self {
        Self {
            created_at: options.taken_at.unwrap_or_else(|| SystemClock.now()),
            path: path.to_owned(),
            sha256: String::new(),
            bytes: 0,
            tenant: options.tenant.clone(),
            scope: options.scope.clone(),
        }
    }

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
    /// The ledger in this file, which need not exist yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Records a snapshot.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be written; `invalid_argument` for a path that is not UTF-8.
    pub fn note(&self, entry: &LedgerEntry) -> Result<()> {
        let mut line = serde_json::to_vec(entry)
            .map_err(|error| Error::invalid("the path of the snapshot is not UTF-8").with_source(error))?;
        // First end the incomplete line that a dead process may have left.
        line.insert(0, b'\n');
        line.push(b'\n');
        append(&self.path, &line)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes entries: `change` returns the new version of each, or `None` to drop it.
    pub(crate) fn edit(&self, mut change: impl FnMut(LedgerEntry) -> Option<LedgerEntry>) -> Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        let unread = |error| self.unread(error);
        replace(&self.path, |file, out| {
            each_line(file, unread, |entry| {
                let Some(entry) = change(entry) else { return Ok(()) };
                serde_json::to_writer(&mut *out, &entry)
                    .map_err(std::io::Error::from)
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(unwritten(&self.path))
            })
        })
    }

    /// Drops the lines about a file.
    pub(crate) fn drop_lines(&self, path: &Path) -> Result<()> {
        self.edit(|entry| (entry.path != path).then_some(entry))
    }

    /// Records a snapshot that is about to be written, unless its folder is already known.
    pub(crate) fn note_folder(&self, path: &Path, options: &SnapshotOptions) -> Result<()> {
        let mut is_known = false;
        self.each(|entry| is_known |= entry.path.parent() == path.parent())?;
        if is_known { Ok(()) } else { self.note(&LedgerEntry::begun(path, options)) }
    }

    /// Drops the record of a planned file that was not written.
    pub(super) fn drop_begun(&self, path: &Path) -> Result<()> {
        self.edit(|entry| (entry.path != path || !entry.sha256.is_empty()).then_some(entry))
    }

    /// Passes every line to `show`, oldest first, whether finished or only started.
    pub(crate) fn each(&self, mut show: impl FnMut(LedgerEntry)) -> Result<()> {
        let unread = |error| self.unread(error);
        let file = match fs::symlink_metadata(&self.path) {
            Ok(found) if found.is_file() => File::open(&self.path).map_err(unread)?,
            Ok(_) => {
                return Err(Error::corrupt(format!(
                    "the ledger of snapshots, {}, is not a file; move it away",
                    self.path.display()
                )));
            }
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unread(error)),
        };
        each_line(file, unread, |entry| {
            show(entry);
            Ok(())
        })
    }

    /// The recorded snapshots, oldest first, whether their files still exist or not: at most the last ten thousand.
    ///
    /// # Errors
    /// `unavailable` if the file cannot be read. Invalid lines are skipped.
    pub fn entries(&self) -> Result<Vec<LedgerEntry>> {
        let mut entries = std::collections::VecDeque::new();
        self.each(|entry| {
            if entry.sha256.is_empty() {
                return;
            }
            if entries.len() == MAX_RETURNED {
                entries.pop_front();
            }
            entries.push_back(entry);
        })?;
        Ok(entries.into())
    }

    fn unread(&self, error: std::io::Error) -> Error {
        Error::unavailable(format!(
            "the ledger of snapshots, {}, cannot be read: {error}",
            self.path.display()
        ))
        .with_retry(Retry::Never)
        .with_source(error)
    }
}

/// Reads entries, skipping invalid lines.
fn each_line(
    file: File,
    unread: impl Fn(std::io::Error) -> Error,
    mut show: impl FnMut(LedgerEntry) -> Result<()>,
) -> Result<()> {
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    while let Read::Line = read_line(&mut reader, &mut line).map_err(&unread)? {
        if let Ok(entry) = serde_json::from_slice::<LedgerEntry>(&line) {
            show(entry)?;
        }
    }
    Ok(())
}
