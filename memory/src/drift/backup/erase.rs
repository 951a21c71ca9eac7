//! Forgetting: backups are copies of forgotten data.

use std::fs;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, ErrorKind, Key, Result, Scope, TenantId};

use super::backups::Backups;
use super::error::io_error;
use super::file::{Folder, TEMPORARY, database_of, marker_of, open_plain};
use super::format::{Occasion, header};
use super::read::{Backup, Entries, parse};
use super::write::text_of;

/// Prefix of a folder that is being removed; from then on its files need not name an owner.
const GONE: &str = ".gone-";

/// The backups that contain data of a target.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// Files and folders to remove.
    pub(crate) going: Vec<PathBuf>,
    /// Backups of which the rest is kept.
    pub(crate) smaller: Vec<PathBuf>,
    /// Folders whose owner is unknown.
    pub(crate) unknown: Vec<PathBuf>,
}

/// How much of a backup is about a key.
enum Of {
    Nothing,
    /// The key and these others.
    Some(Box<Backup>),
    /// Only the key, or unknown.
    All,
}

impl Backups {
    /// The backups that contain data of a target.
    pub(crate) fn holding(&self, target: &EraseTarget) -> Result<Holding> {
        let mut holding = Holding::default();
        match target {
            EraseTarget::Tenant(tenant) => self.of_tenant(tenant, &mut holding)?,
            EraseTarget::Scope(scope) => {
                let folder = self.folder_of(scope);
                holding.going.extend([gone_of(&folder), folder].into_iter().filter(|path| is_folder(path)));
            }
            EraseTarget::Key { scope, key } => {
                for path in items(&self.folder_of(scope))? {
                    let name =
                        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                    let is_alone = name.ends_with(".db") && !path.with_extension("json").exists();
                    if name.contains(TEMPORARY) || is_alone {
                        // From a dead process; a live one will just refuse its write.
                        holding.going.push(path);
                    } else if name.ends_with(".json") {
                        match of_key(&path, key)? {
                            Of::Nothing => {}
                            Of::Some(_) => holding.smaller.push(path),
                            // The marker of a resolved drift goes last.
                            Of::All => holding.going.extend(
                                [database_of(&path), path.clone(), marker_of(&path)]
                                    .into_iter()
                                    .filter(|path| path.exists()),
                            ),
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(holding)
    }

    /// Replaces a backup found by [`Backups::holding`] with one that lacks the key.
    pub(crate) fn without(&self, path: &Path, target: &EraseTarget) -> Result<()> {
        let EraseTarget::Key { scope, key } = target else { return Ok(()) };
        let (Some(folder), Some(name)) =
            (Folder::find(self.root(), &scope.digest())?, path.file_name().and_then(|name| name.to_str()))
        else {
            return Ok(());
        };
        let Of::Some(left) = of_key(path, key)? else { return Ok(()) };
        let occasion = Occasion {
            timestamp: left.timestamp,
            observed: left.generation_observed,
            actual: left.generation_actual,
            snapshot: left.generation_snapshot,
        };
        let text = text_of(&left.scope, &occasion, &left.records)?;
        folder.replace(name, &text, "a backup cannot be written without what is forgotten")
    }

    /// Removes a file found by [`Backups::holding`].
    pub(crate) fn remove(path: &Path) -> Result<()> {
        let removed = if is_folder(path) { remove_folder(path) } else { fs::remove_file(path) };
        match removed {
            Err(error) if error.kind() != IoErrorKind::NotFound => {
                Err(io_error("a backup cannot be removed")(error))
            }
            _ => Ok(()),
        }
    }

    fn folder_of(&self, scope: &Scope) -> PathBuf {
        self.root().join(scope.digest().to_hex())
    }

    fn of_tenant(&self, tenant: &TenantId, holding: &mut Holding) -> Result<()> {
        for folder in items(self.root())? {
            if !is_folder(&folder) {
                continue;
            }
            if is_gone(&folder) {
                holding.going.push(folder);
                continue;
            }
            let files = items(&folder)?;
            let owner = files.iter().find_map(|path| header(path).ok()).map(|header| header.scope);
            match owner {
                Some(scope) if scope.tenant == *tenant => holding.going.push(folder),
                Some(_) => {}
                None if files
                    .iter()
                    .all(|path| path.file_name().is_some_and(|name| name == "acknowledged")) => {}
                None => holding.unknown.push(folder),
            }
        }
        Ok(())
    }
}

/// Neither a separate database nor a damaged backup is opened. The database is assumed to contain only the key; so is
/// the damaged backup, if the key's text appears anywhere in the file.
fn of_key(path: &Path, key: &Key) -> Result<Of> {
    let parsed = match parse(path) {
        Ok(parsed) => parsed,
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::TooLarge) => {
            return Ok(if holds(path, key)? { Of::All } else { Of::Nothing });
        }
        // Another process removed it.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Of::Nothing),
        Err(error) => return Err(error),
    };
    let Entries::Here(mut records) = parsed.entries else { return Ok(Of::All) };
    let all = records.len();
    records.retain(|record| record.entry.key != *key);
    Ok(match records.len() {
        left if left == all => Of::Nothing,
        0 => Of::All,
        _ => Of::Some(Box::new(Backup::of(parsed.header, records))),
    })
}

/// Whether a file contains the quoted key.
fn holds(path: &Path, key: &Key) -> Result<bool> {
    let text = serde_json::to_string(key)
        .map_err(|error| Error::internal("a key has no JSON form").with_source(error))?;
    let failed = io_error("a backup cannot be read");
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut open_plain(path).map_err(&failed)?, &mut content).map_err(&failed)?;
    Ok(content.windows(text.len().max(1)).any(|window| window == text.as_bytes()))
}

fn gone_of(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{GONE}{name}"))
}

fn is_gone(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(GONE))
}

/// If the process dies here, the next one finds the folder.
fn remove_folder(path: &Path) -> std::io::Result<()> {
    if is_gone(path) {
        return fs::remove_dir_all(path);
    }
    let gone = gone_of(path);
    if is_folder(&gone) {
        fs::remove_dir_all(&gone)?;
    }
    fs::rename(path, &gone)?;
    fs::remove_dir_all(gone)
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn items(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = io_error("the folder of backups cannot be read");
    let found = match fs::read_dir(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    found.map(|item| item.map(|item| item.path()).map_err(&failed)).collect()
}
