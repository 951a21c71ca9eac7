//! Forgetting: backups are copies of what was forgotten.

use std::fs;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, Result, Scope, TenantId};

use super::file::{TEMPORARY, open_plain};
use super::kept::{database_of, header};
use super::{Backups, broken};

/// What holds something of a target.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// Files and folders that are to go.
    pub(crate) paths: Vec<PathBuf>,
    /// Folders of which nobody can tell whose they are.
    pub(crate) unknown: Vec<PathBuf>,
}

impl Backups {
    /// What holds something of a target.
    pub(crate) fn holding(&self, target: &EraseTarget) -> Result<Holding> {
        let mut holding = Holding::default();
        match target {
            EraseTarget::Tenant(tenant) => self.of_tenant(tenant, &mut holding)?,
            EraseTarget::Scope(scope) => {
                let folder = self.folder_of(scope);
                if is_folder(&folder) {
                    holding.paths.push(folder);
                }
            }
            EraseTarget::Key { scope, key } => {
                let folder = self.folder_of(scope);
                // As the file has it, between quotes.
                let text = serde_json::to_string(key)
                    .map_err(|error| Error::internal("a key has no JSON form").with_source(error))?;
                for path in items(&folder)? {
                    let name =
                        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                    if name.contains(TEMPORARY) {
                        // Of a process that died; one that lives refuses its write all the same.
                        holding.paths.push(path);
                    } else if name.ends_with(".json") && holds(&path, &text)? {
                        holding
                            .paths
                            .extend([database_of(&path), path].into_iter().filter(|path| path.exists()));
                    }
                }
            }
            _ => {}
        }
        Ok(holding)
    }

    fn folder_of(&self, scope: &Scope) -> PathBuf {
        self.root().join(scope.digest().to_hex())
    }

    fn of_tenant(&self, tenant: &TenantId, holding: &mut Holding) -> Result<()> {
        for folder in items(self.root())? {
            if !is_folder(&folder) {
                continue;
            }
            let files = items(&folder)?;
            let owner = files.iter().find_map(|path| header(path).ok()).map(|header| header.scope);
            match owner {
                Some(scope) if scope.tenant == *tenant => holding.paths.push(folder),
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

/// Removes what [`Backups::holding`] found.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = if is_folder(path) { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != IoErrorKind::NotFound => {
            Err(broken("a backup cannot be removed")(error))
        }
        _ => Ok(()),
    }
}

/// A database beside it is not looked into: it is taken to hold the key.
fn holds(path: &Path, text: &str) -> Result<bool> {
    if header(path).is_ok_and(|header| header.database.is_some()) {
        return Ok(true);
    }
    let failed = broken("a backup cannot be read");
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut open_plain(path).map_err(&failed)?, &mut content).map_err(&failed)?;
    Ok(content.windows(text.len().max(1)).any(|window| window == text.as_bytes()))
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn items(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = broken("the folder of backups cannot be read");
    let found = match fs::read_dir(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    found.map(|item| item.map(|item| item.path()).map_err(&failed)).collect()
}
