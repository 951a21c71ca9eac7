//! The path of a private file that appears complete or not at all, and its draft.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, IdGen as _, Result, Retry};

use crate::private;
use crate::system::RandomIds;

/// Most bytes of a file's name that its draft's name contains; names have at most 255 bytes.
const MAX_PREFIX: usize = 255 - "..".len() - 32 - ".part".len();

/// A temporary file, removed on drop unless it has been given its name.
pub(in crate::snapshot) struct Draft {
    pub(in crate::snapshot) path: PathBuf,
    pub(in crate::snapshot) named: bool,
}

impl Draft {
    /// Creates a draft, readable only by its owner.
    pub(in crate::snapshot) fn create(place: &Place) -> Result<(Self, File)> {
        let path = place.draft();
        let file = private::create_new(&path).map_err(unwritten(&place.path))?;
        let draft = Self { path, named: false };
        // Held until this process ends: if a draft's lock is free, its process is dead.
        let taken = |_| unwritten(&place.path)(io::Error::from(io::ErrorKind::WouldBlock));
        file.try_lock().map_err(taken)?;
        Ok((draft, file))
    }

    /// Gives it its name.
    pub(in crate::snapshot) fn name(&mut self, place: &Place) -> Result<()> {
        fs::rename(&self.path, &place.path).map_err(unwritten(&place.path))?;
        self.named = true;
        sync_folder(&place.folder)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.named {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The future path of the file.
pub(in crate::snapshot) struct Place {
    pub(super) path: PathBuf,
    pub(in crate::snapshot) folder: PathBuf,
    name: String,
}

impl Place {
    pub(in crate::snapshot) fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            Error::invalid(format!(
                "{} is not a file name in UTF-8, such as backups/today.snapshot",
                path.display()
            ))
        })?;
        Ok(Self { path: path.to_owned(), name: name.to_owned(), folder: folder_of(path).to_owned() })
    }

    pub(super) fn check(&self, overwrite: bool, own: &[PathBuf]) -> Result<()> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unwritten(&self.path)(error)),
        };
        let shown = self.path.display();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Err(Error::invalid(format!(
                "{shown} exists and is not a file but a folder, a link or a device; name another place"
            )));
        }
        if self.is_one_of(own, found.as_ref()) {
            return Err(Error::invalid(format!(
                "{shown} is one of the store's own files; name another place"
            )));
        }
        if found.is_some() && !overwrite {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("{shown} exists already; name another file, or replace it with --overwrite"),
            )
            .with_retry(Retry::Never));
        }
        Ok(())
    }

    /// Whether it is one of these files, under any name, or inside one of these folders, which need not exist.
    fn is_one_of(&self, own: &[PathBuf], found: Option<&fs::Metadata>) -> bool {
        let Ok(folder) = self.folder.canonicalize() else { return false };
        own.iter().any(|own| {
            let (Some(name), Ok(beside)) = (own.file_name(), folder_of(own).canonicalize()) else {
                return false;
            };
            let own = beside.join(name);
            let is_same = match (found, fs::symlink_metadata(&own)) {
                (Some(found), Ok(own)) => same_file(found, &own),
                _ => false,
            };
            is_same || folder.join(&self.name).starts_with(&own)
        })
    }

    /// The prefix of its drafts. A long name is cut to leave room for the random part.
    fn prefix(&self) -> String {
        let ends = self.name.char_indices().map(|(at, char)| at + char.len_utf8());
        let end = ends.take_while(|end| *end <= MAX_PREFIX).last().unwrap_or(0);
        format!(".{}.", self.name.get(..end).unwrap_or_default())
    }

    pub(in crate::snapshot) fn draft(&self) -> PathBuf {
        self.folder.join(format!("{}{:032x}.part", self.prefix(), RandomIds.fresh()))
    }

    /// Removes what dead processes left of snapshots with this name. Returns whether a living process is writing one.
    pub(in crate::snapshot) fn clean(&self) -> Result<bool> {
        let prefix = self.prefix();
        clean_parts(&self.folder, |of| of.strip_prefix(&prefix) == Some(""))
    }

    pub(super) fn absolute(&self) -> Result<PathBuf> {
        let folder = self.folder.canonicalize().map_err(unwritten(&self.path))?;
        Ok(folder.join(&self.name))
    }
}

/// Removes temporary files of dead processes whose name, up to the random part, `takes` accepts. Returns whether any
/// belongs to a living process.
pub(super) fn clean_parts(folder: &Path, takes: impl Fn(&str) -> bool) -> Result<bool> {
    let mut lives = false;
    for item in fs::read_dir(folder).map_err(unwritten(folder))? {
        let Ok(item) = item else { continue };
        let name = item.file_name();
        let Some((of, random)) = name
            .to_str()
            .and_then(|name| name.strip_suffix(".part"))
            .and_then(|name| name.split_at_checked(name.len().checked_sub(32)?))
        else {
            continue;
        };
        let is_ours = random.bytes().all(|byte| byte.is_ascii_hexdigit()) && takes(of);
        if !is_ours || !item.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(left) = File::open(item.path()) else { continue };
        match left.try_lock() {
            Ok(()) => drop(fs::remove_file(item.path())),
            Err(TryLockError::WouldBlock) => lives = true,
            Err(TryLockError::Error(_)) => {}
        }
    }
    Ok(lives)
}

/// Syncs a folder, so that a new name in it survives a crash.
pub(in crate::snapshot) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unwritten(folder))?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(unix)]
pub(super) fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// By name only; the caller compares names too.
#[cfg(not(unix))]
pub(super) fn same_file(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    false
}

/// The error for a file that cannot be written.
pub(in crate::snapshot) fn unwritten(path: &Path) -> impl Fn(io::Error) -> Error + Copy {
    move |error| {
        let advice = match error.kind() {
            io::ErrorKind::StorageFull => "; free some space, and try again",
            io::ErrorKind::PermissionDenied => "; check the permissions of the file and its folder",
            _ => "",
        };
        Error::unavailable(format!("{} cannot be written: {error}{advice}", path.display()))
            .with_retry(Retry::Never)
            .with_source(error)
    }
}
