//! A file that is there whole or not at all: a snapshot, an export, a dump.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
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
    /// Files and folders that are a store's own: the file is none of them, and in none of them, whatever else is said.
    pub own: Vec<PathBuf>,
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

    /// Keeps it off a store's own files and folders.
    #[must_use]
    pub fn with_own(mut self, own: Vec<PathBuf>) -> Self {
        self.own = own;
        self
    }
}

/// A file under way; it goes away with this unless it gets its name.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    pub(super) named: bool,
}

impl Draft {
    /// Makes one, readable by its owner only.
    pub(super) fn create(place: &Place) -> Result<(Self, File)> {
        let path = place.draft();
        let mut create = OpenOptions::new();
        create.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            create.mode(0o600);
        }
        let file = create.open(&path).map_err(unwritten(&place.path))?;
        let draft = Self { path, named: false };
        // Held until the end of this process at the latest: who finds it free finds what a dead one left.
        let taken = |_| unwritten(&place.path)(io::Error::from(io::ErrorKind::WouldBlock));
        file.try_lock().map_err(taken)?;
        Ok((draft, file))
    }

    /// Gives it its name.
    pub(super) fn name(&mut self, place: &Place) -> Result<()> {
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

/// A file under way, readable by its owner only, that gets its name when it is complete and on disk
/// ([`finish`](Self::finish)). Dropped before that it leaves nothing; what a killed process left of one goes away with the
/// next of the same name.
///
/// # Behavior
/// - SNP-8.
pub struct NewFile {
    place: Place,
    overwrite: bool,
    own: Vec<PathBuf>,
    draft: Draft,
    out: BufWriter<File>,
}

impl NewFile {
    /// Begins one.
    ///
    /// # Errors
    /// `conflict` for a file that is there, unless it is to be replaced; `invalid_argument` for a folder, a link, a pipe or
    /// what else is no file, and for a store's own; `unavailable` where nothing can be written there.
    pub fn begin(path: &Path, options: &FileOptions) -> Result<Self> {
        let place = Place::of(path)?;
        place.check(options.overwrite, &options.own)?;
        place.clean()?;
        let (draft, file) = Draft::create(&place)?;
        let out = BufWriter::with_capacity(1 << 16, file);
        Ok(Self { place, overwrite: options.overwrite, own: options.own.clone(), draft, out })
    }

    fn sync(&mut self) -> Result<()> {
        self.out.flush().and_then(|()| self.out.get_ref().sync_all()).map_err(unwritten(&self.place.path))
    }

    /// Puts it on the disk and gives it its name.
    ///
    /// # Errors
    /// As [`begin`](Self::begin): who was faster is not written over unless it is to be replaced.
    pub fn finish(mut self) -> Result<()> {
        self.sync()?;
        self.place.check(self.overwrite, &self.own)?;
        self.draft.name(&self.place)
    }
}

impl std::fmt::Debug for NewFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewFile").field("path", &self.place.path).finish_non_exhaustive()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a snapshot into a file, readable by its owner only, that gets its name when it is complete and on disk.
///
/// # Behavior
/// - SNP-8, SNP-10, and those of [`write()`].
///
/// # Errors
/// As [`NewFile`] and [`write()`].
pub async fn to_file(
    from: &dyn Provider,
    path: &Path,
    options: &SnapshotOptions,
    file_options: &FileOptions,
    control: &Control,
) -> Result<SnapshotReport> {
    let mut file = NewFile::begin(path, file_options)?;
    let report = write(from, &mut file, options, control).await?;
    file.sync()?;
    if let Some(ledger) = &file_options.ledger {
        ledger.note(&LedgerEntry::new(&file.place.absolute()?, &report, options))?;
    }
    file.finish()?;
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
            Error::invalid(format!(
                "{} is no name of a file in UTF-8, as backups/today.snapshot is",
                path.display()
            ))
        })?;
        Ok(Self { path: path.to_owned(), name: name.to_owned(), folder: folder_of(path).to_owned() })
    }

    fn check(&self, overwrite: bool, own: &[PathBuf]) -> Result<()> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unwritten(&self.path)(error)),
        };
        let shown = self.path.display();
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Err(Error::invalid(format!(
                "{shown} is there and is no file, but a folder, a link or a device; name another place"
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
                format!("{shown} is there already; name another file, or say that it is to be replaced (--overwrite)"),
            )
            .with_retry(Retry::Never));
        }
        Ok(())
    }

    /// Whether it is one of these files, by whatever name, or in one of these folders. Those need not be there.
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

    fn prefix(&self) -> String {
        format!(".{}.", self.name)
    }

    pub(super) fn draft(&self) -> PathBuf {
        self.folder.join(format!("{}{:032x}.part", self.prefix(), RandomIds.fresh()))
    }

    /// Removes what processes that died left of snapshots of this name.
    pub(super) fn clean(&self) -> Result<()> {
        let prefix = self.prefix();
        for item in fs::read_dir(&self.folder).map_err(unwritten(&self.path))? {
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
        let folder = self.folder.canonicalize().map_err(unwritten(&self.path))?;
        Ok(folder.join(&self.name))
    }
}

/// Makes a name in a folder last.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
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
fn same_file(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// By name alone, as the caller compares too.
#[cfg(not(unix))]
fn same_file(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    false
}

/// What cannot be written there.
pub(super) fn unwritten(path: &Path) -> impl Fn(io::Error) -> Error + Copy {
    move |error| {
        Error::new(ErrorKind::Unavailable, format!("{} cannot be written: {error}", path.display()))
            .with_retry(Retry::Never)
            .with_source(error)
    }
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
        let mut file = options.open(path).map_err(unwritten(path))?;
        if locked(&file, path)? {
            return file.write_all(bytes).and_then(|()| file.sync_all()).map_err(unwritten(path));
        }
    }
}

/// Puts a private file in the place of one that [`append`] writes to, which `change` makes of what is there.
pub(super) fn replace(path: &Path, change: impl FnOnce(File) -> Result<Vec<u8>>) -> Result<()> {
    let place = Place::of(path)?;
    loop {
        let file = File::open(path).map_err(unwritten(path))?;
        if !locked(&file, path)? {
            continue;
        }
        // Whoever left one held the lock, and is dead.
        place.clean()?;
        let bytes = change(file.try_clone().map_err(unwritten(path))?)?;
        let mut draft = Draft { path: place.draft(), named: false };
        append(&draft.path, &bytes)?;
        return draft.name(&place);
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
                return Err(unwritten(path)(io::Error::from(io::ErrorKind::WouldBlock)));
            }
            // A file system without locks: one process alone may use it.
            Err(TryLockError::Error(_)) => break,
        }
    }
    let (held, named) = (file.metadata().map_err(unwritten(path))?, fs::symlink_metadata(path));
    Ok(!cfg!(unix) || named.is_ok_and(|named| same_file(&named, &held)))
}
