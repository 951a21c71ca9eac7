//! A file that is there whole or not at all: a snapshot, an export, a dump.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_core::{Error, ErrorKind, IdGen as _, Provider, Result, Retry, Scope, Timestamp};

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
    /// Refuses one that is not complete: it gets no name.
    pub(crate) is_whole: bool,
    /// Whether the ledger knows the folder already, so that it need not be noted before the first byte is written.
    pub(crate) is_begun: bool,
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
    let place = Place::of(path)?;
    place.check(file_options.overwrite, &file_options.own)?;
    let begun = file_options.ledger.as_ref().filter(|_| !file_options.is_begun);
    if let Some(ledger) = begun {
        // Whoever forgets meanwhile, or after this process died, knows where to look.
        ledger.note(&LedgerEntry::begun(&place.absolute()?, options))?;
    }
    let written = to_place(from, path, options, file_options, control).await;
    if let (Some(ledger), Err(_)) = (begun, &written) {
        ledger.drop_begun(&place.absolute()?)?;
    }
    written
}

async fn to_place(
    from: &dyn Provider,
    path: &Path,
    options: &SnapshotOptions,
    file_options: &FileOptions,
    control: &Control,
) -> Result<SnapshotReport> {
    let mut file = NewFile::begin(path, file_options)?;
    let report = write(from, &mut file, options, control).await?;
    if file_options.is_whole && !report.is_complete() {
        return Err(Error::new(
            ErrorKind::Unavailable,
            "its snapshot would not be complete; see `memory snapshot` on it for what is left out",
        ));
    }
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

    /// Removes what processes that died left of snapshots of this name; whether one that lives is at work on one.
    pub(super) fn clean(&self) -> Result<bool> {
        let prefix = self.prefix();
        clean_parts(&self.folder, |of| of.strip_prefix(&prefix) == Some(""))
    }

    fn absolute(&self) -> Result<PathBuf> {
        let folder = self.folder.canonicalize().map_err(unwritten(&self.path))?;
        Ok(folder.join(&self.name))
    }
}

/// Removes files under way whose process died, of those whose name up to the random part is taken; whether there is one
/// whose process lives.
fn clean_parts(folder: &Path, takes: impl Fn(&str) -> bool) -> Result<bool> {
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

/// Whether a process is at work on a snapshot of this name. What those that died left of it is removed.
///
/// # Errors
/// `unavailable` where the folder cannot be read.
pub(crate) fn is_under_way(path: &Path) -> Result<bool> {
    Place::of(path)?.clean()
}

/// What the name of a last snapshot has before its moment.
const LAST_DIGEST: usize = 16;

/// The name of a scope's last snapshot, which tells no tenant and no id.
pub(crate) fn last_name(scope: &Scope, now: Timestamp) -> String {
    let digest = scope.digest().to_hex();
    let digest = digest.get(..LAST_DIGEST).unwrap_or(&digest);
    format!("{}-{digest}-{}.snapshot", scope.kind, now.as_millis())
}

/// Removes what processes that died left of last snapshots in a folder, of any scope and moment.
///
/// # Errors
/// `unavailable` where the folder cannot be read.
pub(crate) fn clean_last(folder: &Path) -> Result<()> {
    clean_parts(folder, |of| {
        let parts = of.strip_prefix('.').and_then(|of| of.strip_suffix(".snapshot."));
        let Some((kind, rest)) = parts.and_then(|of| of.split_once('-')) else { return false };
        let Some((digest, moment)) = rest.split_once('-') else { return false };
        ["agent", "user"].contains(&kind)
            && digest.len() == LAST_DIGEST
            && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
            && moment.parse::<i64>().is_ok()
    })
    .map(drop)
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

/// Puts a private file in the place of one that [`append`] writes to, which `change` writes from what is there.
pub(super) fn replace(
    path: &Path,
    change: impl FnOnce(File, &mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let place = Place::of(path)?;
    loop {
        let file = File::open(path).map_err(unwritten(path))?;
        if !locked(&file, path)? {
            continue;
        }
        // Whoever left one held the lock, and is dead.
        place.clean()?;
        let (mut draft, out) = Draft::create(&place)?;
        let mut out = BufWriter::new(out);
        change(file.try_clone().map_err(unwritten(path))?, &mut out)?;
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(unwritten(path))?;
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
