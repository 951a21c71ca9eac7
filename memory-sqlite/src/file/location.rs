//! Where a database is. The path is checked before the file is touched, and a new file is private.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memory_core::{Error, Result};

use super::schema;
use crate::error::{file, foreign};

/// Where the database lives.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// In one private connection.
    Memory,
    /// In a file; the path of its folder has no symbolic link.
    File(PathBuf),
    /// The same, but this process may not write the file.
    ReadOnly(PathBuf, Still),
}

/// Whether a file that is only read may change meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Still {
    /// It has no log, so it is read as is, without locks and without files next to it, as long as it keeps this length
    /// and time.
    At(u64, Option<SystemTime>),
    /// It has a log, whose index another program maintains.
    Not,
}

impl Still {
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        if fs::metadata(log).is_ok_and(|log| log.len() > 0) {
            return Ok(Self::Not);
        }
        let found = fs::metadata(path).map_err(file)?;
        Ok(Self::At(found.len(), found.modified().ok()))
    }

    /// Fails with `unavailable` if the file was changed, so that what was read may mix two states of it.
    pub(crate) fn check(self, path: &Path) -> Result<()> {
        let found = || fs::metadata(path).map(|found| (found.len(), found.modified().ok()));
        match self {
            Self::At(length, time) if found().is_ok_and(|found| found != (length, time)) => {
                Err(Error::unavailable(
                    "the database was changed while it was read without locks, since it may only be read here; try again",
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Location {
    /// The file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::File(path) | Self::ReadOnly(path, _) => Some(path),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::ReadOnly(path, still) => still.check(path),
            _ => Ok(()),
        }
    }
}

/// Identifies a file, to notice when another one takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of the file that has this name now; `None` if there is none or the system has no such identity.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            fs::symlink_metadata(path).ok().map(|found| Self { device: found.dev(), inode: found.ino() })
        }
        #[cfg(not(unix))]
        {
            let _ = path;
            None
        }
    }

    /// Whether the name now belongs to another file or to none. False if that cannot be determined, for example in
    /// a folder that may no longer be read.
    pub(crate) fn has_left(self, path: &Path) -> bool {
        match Self::of(path) {
            Some(found) => found != self,
            None => matches!(
                fs::symlink_metadata(path).map_err(|error| error.kind()),
                Err(IoErrorKind::NotFound | IoErrorKind::NotADirectory)
            ),
        }
    }
}

/// Checks the file with this name, creates it if missing (0600, in folders of 0700), and returns its path. Fails with
/// `invalid_argument` if it is not an ordinary file, or `corrupt` if it is not a database of ours; nothing is changed
/// then.
pub(crate) fn prepare(path: &Path) -> Result<PathBuf> {
    if let Some(path) = judge(path)? {
        return Ok(path);
    }
    let (folder, name) = parts(path)?;
    create_folder(folder).map_err(file)?;
    let path = fs::canonicalize(folder).map_err(file)?.join(name);
    create_file(&path).map_err(file)?;
    Ok(path)
}

/// Checks a file that is only read, and says where it is. Fails as [`prepare`] does; `not_found` if it does not exist.
pub(crate) fn read_only(path: &Path) -> Result<Location> {
    let path = judge(path)?.ok_or_else(|| {
        Error::not_found("the database file does not exist; check its path")
            .with_retry(memory_core::Retry::Never)
    })?;
    let still = Still::of(&path)?;
    Ok(Location::ReadOnly(path, still))
}

fn parts(path: &Path) -> Result<(&Path, &OsStr)> {
    let Some(name) = path.file_name() else {
        return Err(Error::invalid("the path of the database names no file"));
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((folder, name))
}

/// Checks the file with this name and returns its path; `None` if it does not exist.
pub(crate) fn judge(path: &Path) -> Result<Option<PathBuf>> {
    let (folder, name) = parts(path)?;
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => {
            Err(Error::invalid("the database file is a symbolic link; name the file that it points to"))
        }
        Ok(found) if found.is_dir() => {
            Err(Error::invalid("the path of the database names a folder; name a file in it"))
        }
        Ok(found) if !found.is_file() => {
            Err(Error::invalid("the path of the database names no ordinary file; name one"))
        }
        Ok(_) => {
            let path = fs::canonicalize(folder).map_err(file)?.join(name);
            judge_header(&path)?;
            Ok(Some(path))
        }
        Err(error) if error.kind() == IoErrorKind::NotFound => Ok(None),
        Err(error) => Err(file(error)),
    }
}

/// Syncs the names of new folders; SQLite syncs the file's. A file that loses its name is lost.
pub(crate) fn create_folder(folder: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)?;
    #[cfg(unix)]
    for parent in missing.into_iter().filter_map(Path::parent) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        // Like SQLite, accept a file system that cannot sync a folder or does not let it be read.
        if let Ok(parent) = File::open(parent) {
            let _ = parent.sync_all();
        }
    }
    Ok(())
}

/// SQLite gives its log and index files the mode of the database file, so they are private too.
fn create_file(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    match options.open(path) {
        // Another process was faster.
        Err(error) if error.kind() == IoErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// Checks the identity in the file's first bytes, since SQLite itself may write to a file it opens (hot journal).
/// Our files have it from their first tables on.
fn judge_header(path: &Path) -> Result<()> {
    let mut header = [0_u8; 100];
    let mut source = File::open(path).map_err(file)?;
    let mut length = 0;
    while let Some(rest) = header.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == IoErrorKind::Interrupted => {}
            Err(error) => return Err(file(error)),
        }
    }
    if length == 0 {
        return Ok(());
    }
    if length < header.len() || !header.starts_with(b"SQLite format 3\0") {
        return Err(foreign("the file is not a SQLite database; name another file. It was not touched"));
    }
    let number = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        i32::from_be_bytes(bytes.unwrap_or_default())
    };
    // A process killed while creating the file leaves one page without schema and identity, not yet in WAL mode
    // (whose log could hold another program's tables). Its tables are checked once it is open.
    let (pages, schema_cookie, wal) = (number(28), number(40), header.get(18) == Some(&2));
    schema::identify(number(68), number(60), pages <= 1 && schema_cookie == 0 && !wal).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_read_without_locks_must_stay_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.db");
        fs::write(&path, "one").unwrap();
        let still = Still::of(&path).unwrap();
        still.check(&path).unwrap();
        fs::write(&path, "other").unwrap();
        assert_eq!(still.check(&path).unwrap_err().kind(), memory_core::ErrorKind::Unavailable);
        // A log that appears later contains changes that we do not see; an existing one is read under locks.
        fs::write(folder.path().join("m.db-wal"), "log").unwrap();
        let locked = Still::of(&path).unwrap();
        assert_eq!(locked, Still::Not);
        fs::write(&path, "any").unwrap();
        locked.check(&path).unwrap();
    }
}
