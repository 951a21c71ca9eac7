//! Files that appear complete or not at all, in a private folder.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::{Error, Result, ScopeDigest, Timestamp};

use super::error::io_error;
use crate::private;

/// Distinguishes the temporary files of this process.
static FILES: AtomicU64 = AtomicU64::new(0);
/// Prefix of temporary files.
pub(super) const TEMPORARY: &str = ".tmp-";
/// Names to try within a second.
const TRIES: u32 = 10_000;
/// Longest small file.
const SMALL: u64 = 4 << 10;

/// The folder of one scope's backups.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Creates it if it is missing.
    pub(super) fn create(root: &Path, digest: &ScopeDigest) -> Result<Self> {
        let failed = io_error("the folder of backups cannot be made");
        private_folder(root, true).map_err(&failed)?;
        let path = root.join(digest.to_hex());
        private_folder(&path, false).map_err(&failed)?;
        Ok(Self(path))
    }

    /// `None` if it does not exist.
    pub(super) fn find(root: &Path, digest: &ScopeDigest) -> Result<Option<Self>> {
        let path = root.join(digest.to_hex());
        for path in [root, &path] {
            match fs::symlink_metadata(path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(not_a_folder()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(io_error("the folder of backups cannot be read")(error)),
            }
        }
        Ok(Some(Self(path)))
    }

    /// The folder of a backup.
    #[cfg(feature = "sqlite")]
    pub(super) fn of(backup: &Path) -> Self {
        Self(backup.parent().map(Path::to_path_buf).unwrap_or_default())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// An unused name.
    pub(super) fn temporary(&self) -> PathBuf {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        self.0.join(format!("{TEMPORARY}{}-{number}", std::process::id()))
    }

    /// A new file with mode 0600.
    pub(super) fn open_temporary(&self) -> Result<(PathBuf, File)> {
        for _ in 0..TRIES {
            let path = self.temporary();
            match private::create_new(&path) {
                Ok(file) => return Ok((path, file)),
                // From an earlier process with the same id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error("a backup cannot be written")(error)),
            }
        }
        Err(Error::internal("no free name for a temporary file"))
    }

    /// Gives complete files their names, `memory.bak.SECONDS[-N].EXTENSION`, all with the same unused N. Readers look
    /// for the one that is named last.
    pub(super) fn publish(
        &self,
        at: Timestamp,
        files: &[(&Path, &str)],
        finish: impl Fn(&str) -> Result<()>,
    ) -> Result<PathBuf> {
        let failed = io_error("a backup cannot be given its name");
        let seconds = at.as_millis() / 1_000;
        'names: for number in 1..TRIES {
            let stem = match number {
                1 => format!("memory.bak.{seconds}"),
                number => format!("memory.bak.{seconds}-{number}"),
            };
            let mut given: Vec<PathBuf> = Vec::new();
            for (index, (from, extension)) in files.iter().enumerate() {
                let to = self.0.join(format!("{stem}.{extension}"));
                if index + 1 == files.len() {
                    finish(&stem)?;
                }
                match fs::hard_link(from, &to) {
                    Ok(()) => given.push(to),
                    Err(error) => {
                        given.iter().for_each(|path| drop(fs::remove_file(path)));
                        if error.kind() == io::ErrorKind::AlreadyExists {
                            continue 'names;
                        }
                        return Err(failed(error));
                    }
                }
            }
            for (from, _) in files {
                fs::remove_file(from).map_err(&failed)?;
            }
            self.sync();
            return given.pop().ok_or_else(|| Error::internal("a backup of no files"));
        }
        Err(Error::internal("no free name for a backup"))
    }

    /// Creates or replaces a file atomically: readers see the old content or the new.
    pub(super) fn replace(&self, name: &str, bytes: &[u8], unwritten: &'static str) -> Result<()> {
        let failed = io_error(unwritten);
        let (path, mut file) = self.open_temporary()?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&path, self.0.join(name)));
        if let Err(error) = written {
            drop(fs::remove_file(&path));
            return Err(failed(error));
        }
        self.sync();
        Ok(())
    }

    /// Reads a small file.
    pub(super) fn read_small(&self, name: &str) -> io::Result<String> {
        let mut text = String::new();
        open_plain(&self.0.join(name))?.take(SMALL).read_to_string(&mut text)?;
        Ok(text)
    }

    /// As in SQLite, it is no error if the file system cannot sync a folder.
    fn sync(&self) {
        if let Ok(folder) = File::open(&self.0) {
            drop(folder.sync_all());
        }
    }
}

/// The database of a backup, if any.
pub(super) fn database_of(path: &Path) -> PathBuf {
    path.with_extension("db")
}

/// The marker of a resolved backup.
pub(super) fn marker_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".resolved");
    PathBuf::from(name)
}

/// Opens a regular file, not a link.
pub(super) fn open_plain(path: &Path) -> io::Result<File> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(path)
}

fn not_a_folder() -> Error {
    Error::invalid("the folder of backups is a symbolic link or not a folder; remove it, or name another")
}

fn private_folder(path: &Path, parents: bool) -> io::Result<()> {
    match private::folder(path, parents) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link or not a folder"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if found.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}
