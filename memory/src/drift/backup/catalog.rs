//! The backups of a scope: listing them, marking them as resolved, and removing old ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use memory_core::{DriftToken, Result, Timestamp};
use serde::Serialize;

use super::error::io_error;
use super::file::{Folder, TEMPORARY, database_of, marker_of};
use super::format::header;
use crate::private;

/// Most files of a folder that are looked at.
const FILES: usize = 10_000;
/// Older temporary files are leftovers.
const STALE: Duration = Duration::from_secs(86_400);

/// Limits of backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupLimits {
    /// Scopes with more bytes of entries are saved as a database. Default 16 MiB.
    pub json_bytes: u64,
    /// Most backups of a scope. Default 20.
    pub count: usize,
    /// Most bytes of a scope's backups; a larger one is not saved. Default 1 GiB.
    pub bytes: u64,
    /// Oldest backup, in seconds. Default 30 days.
    pub age_seconds: u64,
}

impl Default for BackupLimits {
    fn default() -> Self {
        Self { json_bytes: 16 << 20, count: 20, bytes: 1 << 30, age_seconds: 30 * 86_400 }
    }
}

/// A backup in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BackupInfo {
    /// The file.
    pub path: PathBuf,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The token that the session last saw.
    pub generation_observed: Option<DriftToken>,
    /// The token that the refused write found.
    pub generation_actual: Option<DriftToken>,
    /// Its size in bytes, including its database.
    pub bytes: u64,
    /// Whether the drift was cleared.
    pub resolved: bool,
}

/// A name from [`Folder::publish`]: the second, and a number within that second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    seconds: u64,
    number: u64,
    path: PathBuf,
}

fn name_of(path: PathBuf) -> Option<Name> {
    let stem = path.file_name()?.to_str()?.strip_prefix("memory.bak.")?.strip_suffix(".json")?;
    let (seconds, number) = match stem.split_once('-') {
        Some((seconds, number)) => (seconds, number.parse().ok()?),
        None => (stem, 1),
    };
    Some(Name { seconds: seconds.parse().ok()?, number, path })
}

/// The newest first.
fn names(folder: &Folder) -> Result<Vec<Name>> {
    let failed = io_error("the folder of backups cannot be read");
    let mut names = Vec::new();
    for found in fs::read_dir(folder.path()).map_err(&failed)?.take(FILES) {
        names.extend(name_of(found.map_err(&failed)?.path()));
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

fn bytes_of(path: &Path) -> u64 {
    let of = |path: &Path| fs::symlink_metadata(path).map_or(0, |found| found.len());
    of(path) + of(&database_of(path))
}

/// The backup of this drift.
pub(super) fn of_drift(folder: &Folder, actual: DriftToken) -> Result<Option<PathBuf>> {
    let of_it = |name: &Name| header(&name.path).is_ok_and(|header| header.generation_actual == Some(actual));
    Ok(names(folder)?.into_iter().find(of_it).map(|name| name.path))
}

/// Every readable backup, newest first.
pub(super) fn list(folder: &Folder) -> Result<Vec<BackupInfo>> {
    let info = |name: Name| {
        let header = header(&name.path).ok()?;
        Some(BackupInfo {
            bytes: bytes_of(&name.path),
            resolved: marker_of(&name.path).exists(),
            timestamp: header.timestamp,
            generation_observed: header.generation_observed,
            generation_actual: header.generation_actual,
            path: name.path,
        })
    };
    Ok(names(folder)?.into_iter().filter_map(info).collect())
}

/// Marks the drift as resolved.
pub(super) fn resolve(path: &Path) -> Result<()> {
    // Another process may have removed or marked it.
    if !path.exists() {
        return Ok(());
    }
    match private::create_new(&marker_of(path)) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(io_error("a backup cannot be marked")(error)),
    }
}

/// Removes backups that are too old or over the other limits, first the resolved ones, then the oldest; never the
/// newest, nor the one just `saved`.
pub(super) fn retain(folder: &Folder, saved: &Path, limits: BackupLimits, now: Timestamp) -> Result<()> {
    let now_seconds = u64::try_from(now.as_millis() / 1_000).unwrap_or(0);
    let names = names(folder)?;
    let (mut count, mut bytes) = (names.len(), 0_u64);
    let mut removable = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let size = bytes_of(&name.path);
        bytes = bytes.saturating_add(size);
        if index > 0 && name.path != saved {
            removable.push((!marker_of(&name.path).exists(), name, size));
        }
    }
    removable.sort_unstable();
    for (_, name, size) in removable {
        let is_old = now_seconds.saturating_sub(name.seconds) > limits.age_seconds;
        if is_old || count > limits.count || bytes > limits.bytes {
            remove(&name.path).map_err(io_error("an old backup cannot be removed"))?;
            count -= 1;
            bytes = bytes.saturating_sub(size);
        }
    }
    remove_stale(folder, now_seconds);
    Ok(())
}

/// The marker goes last, so that an interrupted removal is completed next time.
fn remove(path: &Path) -> io::Result<()> {
    for file in [database_of(path), path.to_owned(), marker_of(path)] {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes leftovers of killed processes.
fn remove_stale(folder: &Folder, now_seconds: u64) {
    let Ok(files) = fs::read_dir(folder.path()) else { return };
    for found in files.take(FILES).flatten() {
        let is_temporary = found.file_name().to_string_lossy().contains(TEMPORARY);
        let modified = found.metadata().and_then(|found| found.modified()).ok();
        let age = modified
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .map(|at| Duration::from_secs(now_seconds.saturating_sub(at.as_secs())));
        if is_temporary && age.is_some_and(|age| age > STALE) {
            drop(fs::remove_file(found.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_order_by_the_second_and_then_by_number() {
        let mut names: Vec<Name> = [
            "memory.bak.9.json",
            "memory.bak.10-10.json",
            "memory.bak.10.json",
            "memory.bak.10-9.json",
            "memory.bak.10.db",
            "memory.bak.x.json",
            "acknowledged",
        ]
        .iter()
        .filter_map(|name| name_of(PathBuf::from(name)))
        .collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        let found: Vec<&str> = names.iter().filter_map(|name| name.path.to_str()).collect();
        assert_eq!(
            found,
            ["memory.bak.10-10.json", "memory.bak.10-9.json", "memory.bak.10.json", "memory.bak.9.json"]
        );
    }
}
