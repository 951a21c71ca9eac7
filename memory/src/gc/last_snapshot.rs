//! The last snapshot of a scope before eviction.

use std::fs;
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, Provider, Result, Scope, Timestamp};

use super::policy::GcOptions;
use crate::private;
use crate::snapshot::{Control, FileOptions, Holding, SnapshotOptions, clean_last, last_name, to_file};

/// A last snapshot that was written.
pub(super) struct LastSnapshot {
    /// Its absolute path.
    pub(super) path: PathBuf,
    /// Which facets the scope had.
    holding: Holding,
}

/// Removes unfinished files of sweeps that were killed.
pub(super) fn clean(options: &GcOptions) {
    if let Some(folder) = options.snapshot_to.as_ref().filter(|folder| folder.is_dir())
        && let Err(error) = clean_last(folder)
    {
        tracing::warn!(folder = %folder.display(), %error, "unfinished last snapshots could not be searched for");
    }
}

/// Creates the folder for last snapshots; returns its absolute path.
fn made(folder: &Path) -> Result<PathBuf> {
    let made = private::folder(folder, true).and_then(|()| folder.canonicalize());
    made.map_err(|error| {
        let message = format!(
            "the folder for last snapshots, {}, cannot be created: {error}; choose another place",
            folder.display()
        );
        Error::unavailable(message).with_source(error)
    })
}

/// Writes a scope's last snapshot, completely or not at all. `None` if it was not requested or the scope is a run's,
/// which no snapshot contains. `is_first`: the first of the sweep, so the folder may have to be recorded.
///
/// The file name reveals neither tenant nor id; they are in the file, which is as private as the store.
pub(super) async fn snapshot(
    provider: &dyn Provider,
    scope: &Scope,
    is_first: bool,
    options: &GcOptions,
    now: Timestamp,
    control: &Control,
) -> Result<Option<LastSnapshot>> {
    let Some(folder) = options.snapshot_to.as_ref().filter(|_| scope.kind.is_durable()) else {
        return Ok(None);
    };
    let path = made(folder)?.join(last_name(scope, now));
    let of = SnapshotOptions::default().with_scope(Some(scope.clone())).with_taken_at(Some(now));
    if let Some(ledger) = options.ledger.as_ref().filter(|_| is_first) {
        ledger.note_folder(&path, &of)?;
    }
    let file = FileOptions { is_begun: true, is_whole: true, ..FileOptions::default() }
        .with_ledger(options.ledger.clone());
    let report = to_file(provider, &path, &of, &file, control).await?;
    let holding = Holding { entries: report.entries > 0, database: report.databases > 0 };
    Ok(Some(LastSnapshot { path, holding }))
}

/// Whether the store still holds what was saved, after the eviction failed: each facet is there as a whole or not at
/// all.
pub(super) async fn is_still_there(
    provider: &dyn Provider,
    scope: &Scope,
    last: &LastSnapshot,
    error: &Error,
) -> bool {
    error.kind() != ErrorKind::OutcomeUnknown
        && Holding::of(provider, scope).await.is_ok_and(|held| held == last.holding)
}

/// Removes the last snapshot of a scope that the store still has, then its line.
pub(super) fn discard(last: &LastSnapshot, options: &GcOptions) {
    let removed = fs::remove_file(&last.path);
    let noted = match &options.ledger {
        Some(ledger) if removed.is_ok() => ledger.drop_lines(&last.path),
        _ => Ok(()),
    };
    if let Err(error) = removed {
        tracing::warn!(file = %last.path.display(), %error, "a last snapshot could not be removed although its scope was kept");
    }
    if let Err(error) = noted {
        tracing::warn!(%error, "the ledger still lists a snapshot that was removed");
    }
}
