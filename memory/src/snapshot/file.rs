//! A snapshot as a file that is there whole or not at all.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_core::{Error, ErrorKind, IdGen as _, Provider, Result, Retry};

use super::control::Control;
use super::ledger::{Ledger, LedgerEntry};
use super::write::{SnapshotOptions, SnapshotReport, write};
use crate::system::RandomIds;

/// How long another process that writes to a ledger is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a file is written.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FileOptions {
    /// Puts it in the place of one that is there.
    pub overwrite: bool,
    /// Where it is noted; `None`: nowhere.
    pub ledger: Option<Ledger>,
}

impl FileOptions {
    /// Puts it in the place of one that is there.
    #[must_use]
    pub fn with_overwrite(mut self, overwrite: bool) -> Self {
        self.overwrite = overwrite;
        self
    }

    /// Notes it there.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<Ledger>) -> Self {
        self.ledger = ledger;
        self
    }
}

/// A file under way; it goes away with this unless it gets its name.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    pub(super) named: bool,
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.named {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a snapshot into a file, readable by its owner only, that gets its name when it is complete and on disk.
///
/// # Behavior
/// - SNP-8, SNP-10, and those of [`write()`].
///
/// # Errors
/// `conflict` for a file that is there; `invalid_argument` for a folder or what else is no file; as [`write()`].
pub async fn to_file(
    from: &dyn Provider,
    path: &Path,
    options: &SnapshotOptions,
    file_options: &FileOptions,
    control: &Control,
) -> Result<SnapshotReport> {
    let place = Place::of(path)?;
    place.check(file_options.overwrite)?;
    place.clean()?;
    let mut draft = Draft { path: place.draft(), named: false };
    let mut create = OpenOptions::new();
    create.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        create.mode(0o600);
    }
    let file = create.open(&draft.path).map_err(unwritten)?;
    // Held until the end of this process at the latest: who finds it free finds what a dead one left.
    file.try_lock().map_err(|_| unwritten(io::Error::from(io::ErrorKind::WouldBlock)))?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    let report = write(from, &mut out, options, control).await?;
    let file = out.into_inner().map_err(|error| unwritten(error.into_error()))?;
    file.sync_all().map_err(unwritten)?;
    if let Some(ledger) = &file_options.ledger {
        ledger.note(&LedgerEntry::new(&place.absolute()?, &report, options))?;
    }
    place.check(file_options.overwrite)?;
    fs::rename(&draft.path, &place.path).map_err(unwritten)?;
    draft.named = true;
    drop(file);
    sync_folder(&place.folder)?;
    Ok(report)
}

/// Where the file is to be.
pub(super) struct Place {
    path: PathBuf,
    pub(super) folder: PathBuf,
    name: String,
}

impl Place {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            Error::invalid("the snapshot needs the name of a file in UTF-8, as in backups/today.snapshot")
        })?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self { path: path.to_owned(), name: name.to_owned(), folder })
    }

    fn check(&self, overwrite: bool) -> Result<()> {
        match fs::symlink_metadata(&self.path) {
            Ok(found) if !found.is_file() => Err(Error::invalid(
                "where the snapshot is to be there is something that is no file; name another place",
            )),
            Ok(_) if !overwrite => Err(Error::new(
                ErrorKind::Conflict,
                "where the snapshot is to be there is a file; name another, or say that it is to be replaced",
            )
            .with_retry(Retry::Never)),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(unwritten(error)),
        }
    }

    fn prefix(&self) -> String {
        format!(".{}.", self.name)
    }

    pub(super) fn draft(&self) -> PathBuf {
        self.folder.join(format!("{}{:032x}.part", self.prefix(), RandomIds.fresh()))
    }

    /// Removes what processes that died left of snapshots of this name.
    pub(super) fn clean(&self) -> Result<()> {
        let prefix = self.prefix();
        for item in fs::read_dir(&self.folder).map_err(unwritten)? {
            let Ok(item) = item else { continue };
            let name = item.file_name();
            let Some(middle) = name
                .to_str()
                .and_then(|name| name.strip_prefix(&prefix))
                .and_then(|rest| rest.strip_suffix(".part"))
            else {
                continue;
            };
            let is_ours = middle.len() == 32 && middle.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_ours || !item.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            let Ok(left) = File::open(item.path()) else { continue };
            match left.try_lock() {
                Ok(()) => drop(fs::remove_file(item.path())),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
            }
        }
        Ok(())
    }

    fn absolute(&self) -> Result<PathBuf> {
        let folder = self.folder.canonicalize().map_err(unwritten)?;
        Ok(folder.join(&self.name))
    }
}

/// Makes a name in a folder last.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unwritten)?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

pub(super) fn unwritten(error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the snapshot cannot be written there: {error}"))
        .with_retry(Retry::Never)
        .with_source(error)
}

/// Writes bytes at the end of a private file, which it makes where there is none. Whoever replaces the file waits, and is
/// waited for.
pub(super) fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    loop {
        let mut file = options.open(path).map_err(unwritten)?;
        if locked(&file, path)? {
            return file.write_all(bytes).and_then(|()| file.sync_all()).map_err(unwritten);
        }
    }
}

/// Puts a private file in the place of one that [`append`] writes to, which `change` makes of what is there.
pub(super) fn replace(path: &Path, change: impl FnOnce(File) -> Result<Vec<u8>>) -> Result<()> {
    let place = Place::of(path)?;
    loop {
        let file = File::open(path).map_err(unwritten)?;
        if !locked(&file, path)? {
            continue;
        }
        // Whoever left one held the lock, and is dead.
        place.clean()?;
        let bytes = change(file.try_clone().map_err(unwritten)?)?;
        let mut draft = Draft { path: place.draft(), named: false };
        append(&draft.path, &bytes)?;
        fs::rename(&draft.path, path).map_err(unwritten)?;
        draft.named = true;
        return sync_folder(&place.folder);
    }
}

/// Waits for the lock of a file; false where that has lost its name meanwhile.
fn locked(file: &File, path: &Path) -> Result<bool> {
    let begun = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(unwritten(io::Error::from(io::ErrorKind::WouldBlock)));
            }
            // A file system without locks: one process alone may use it.
            Err(TryLockError::Error(_)) => break,
        }
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (held, named) = (file.metadata().map_err(unwritten)?, fs::symlink_metadata(path));
        Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(true)
    }
}
