//! Private folders and files below the root, and checks that nothing else is in their place.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result};

use crate::error::file;

/// Prefix of the names of folders being removed.
pub(super) const TRASH: &str = ".trash-";

/// Resolves symbolic links in the existing part of the path, which are the operator's. Below it none is followed.
pub(super) fn resolve(path: &Path) -> Result<PathBuf> {
    if path.file_name().is_none() {
        return Err(Error::invalid("the folder for SQL databases has no name; give it one"));
    }
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match fs::canonicalize(if existing.as_os_str().is_empty() { Path::new(".") } else { existing }) {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
            Err(error) if error.kind() == IoErrorKind::NotFound => {}
            Err(error) => return Err(file(error)),
        }
        match (existing.parent(), existing.file_name()) {
            (Some(parent), Some(name)) => {
                missing.push(name);
                existing = parent;
            }
            _ => return Err(Error::invalid("the folder for SQL databases cannot be found; check its path")),
        }
    }
}

/// Removes what `Changing::take` renamed.
pub(crate) fn discard(trash: &Path) {
    let gone = |error: &std::io::Error| error.kind() == IoErrorKind::NotFound;
    if let Err(error) = fs::remove_dir_all(trash)
        && !gone(&error)
    {
        tracing::warn!(%error, "some files of a dropped SQL database could not be removed");
    }
}

pub(super) fn exists(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(strange("the identity file of a SQL database")),
        Err(error) if error.kind() == IoErrorKind::NotFound => Ok(false),
        Err(error) => Err(file(error)),
    }
}

/// Creates a folder that nobody else may enter. An existing one is accepted, unless it must be new.
pub(super) fn make_folder(path: &Path, durable: bool, new: bool) -> Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "only Unix has a mode to set"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    match builder.create(path) {
        Ok(()) => {
            if durable && let Some(parent) = path.parent() {
                sync_folder(parent);
            }
            Ok(())
        }
        Err(error) if error.kind() == IoErrorKind::AlreadyExists && !new => check_folder(path),
        Err(error) => Err(file(error)),
    }
}

pub(super) fn check_folder(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).map_err(file)?.is_dir() {
        Ok(())
    } else {
        Err(strange("a folder of SQL databases"))
    }
}

/// A file system that cannot sync a folder is not a reason to refuse.
pub(super) fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

pub(super) fn private(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let _ = options;
}

pub(super) fn strange(what: &str) -> Error {
    Error::corrupt(format!(
        "{what} is a symbolic link or not an ordinary one; remove it, since another program put it there"
    ))
}
