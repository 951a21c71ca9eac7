//! The root folder, and the lock under which processes create and remove databases below it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use memory_core::{Error, Result, Scope, ScopeDigest, TenantId};
use memory_sql::WeightedCache;
use sha2::{Digest as _, Sha256};

use super::first_page::first_page;
use super::folders::{TRASH, check_folder, exists, make_folder, private, resolve, strange, sync_folder};
use super::identity::{IDENTITY, content_of};
use super::place::Place;
use crate::error::file;
use crate::file::location::FileId;

const LOCK: &str = ".lock";
/// Memory for the owners of some 60,000 folders, so that paging through a list does not read each folder again.
const KNOWN_BYTES: usize = 32 << 20;

/// The root folder and its lock.
#[derive(Debug)]
pub(crate) struct Files {
    root: Root,
    /// Whether new names must survive power loss.
    durable: bool,
    /// The lock among this process's threads, which share one file lock.
    inside: RwLock<()>,
    lock: Mutex<Held>,
    /// Makes the names of drafts and trash unique in this process.
    names: AtomicU64,
    /// The owner of each folder, by name. The name is the scope's digest, so the owner never changes.
    pub(super) known: WeightedCache<Box<str>, Scope>,
}

#[derive(Debug)]
enum Root {
    /// The operator's. Created with the first database.
    Kept(PathBuf),
    /// For a store in memory. Created with the first database, removed with the provider.
    Temporary(PathBuf, Mutex<bool>),
}

/// The lock file, and how many users it has in this process.
#[derive(Debug, Default)]
struct Held {
    file: Option<File>,
    sharing: usize,
}

impl Files {
    /// Creates nothing yet.
    /// Fails with `invalid_argument` for a path that names no folder; the file system's errors.
    pub(crate) fn kept(root: &Path, durable: bool) -> Result<Self> {
        Ok(Self::new(Root::Kept(resolve(root)?), durable))
    }

    /// `nonce` makes the folder's name unique.
    pub(crate) fn temporary(nonce: &str) -> Result<Self> {
        let name = format!("memory-sqlite-{nonce}.sql");
        let root = resolve(&std::env::temp_dir().join(name))?;
        Ok(Self::new(Root::Temporary(root, Mutex::new(false)), false))
    }

    fn new(root: Root, durable: bool) -> Self {
        Self {
            root,
            durable,
            inside: RwLock::default(),
            lock: Mutex::default(),
            names: AtomicU64::new(0),
            known: WeightedCache::new(KNOWN_BYTES),
        }
    }

    pub(super) fn root(&self) -> &Path {
        match &self.root {
            Root::Kept(path) | Root::Temporary(path, _) => path,
        }
    }

    pub(crate) fn place(&self, scope: &Scope, digest: &ScopeDigest) -> Place {
        let folder = self.tenant_folder(&scope.tenant).join(digest.to_hex());
        Place::in_folder(folder)
    }

    pub(super) fn tenant_folder(&self, tenant: &TenantId) -> PathBuf {
        let hash = Sha256::digest(tenant.as_str().as_bytes());
        let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.root().join(hex)
    }

    /// While it is held, no process creates or removes a database; all may open some.
    pub(crate) fn opening(&self, deadline: Instant) -> Result<Opening<'_>> {
        let inside = self.inside.read().unwrap_or_else(PoisonError::into_inner);
        let mut held = self.held();
        if held.sharing == 0 && self.lock_file(&mut held)? {
            wait_for(&mut held, deadline, File::try_lock_shared)?;
        }
        held.sharing += 1;
        Ok(Opening { files: self, _inside: inside })
    }

    /// While it is held, no other process creates, opens or removes a database.
    pub(crate) fn changing(&self, deadline: Instant) -> Result<Changing<'_>> {
        let inside = self.inside.write().unwrap_or_else(PoisonError::into_inner);
        let mut held = self.held();
        if self.lock_file(&mut held)? {
            wait_for(&mut held, deadline, File::try_lock)?;
        }
        Ok(Changing { files: self, _inside: inside })
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the lock file; false: the root does not exist, so there is nothing to lock.
    fn lock_file(&self, held: &mut Held) -> Result<bool> {
        if held.file.is_some() {
            return Ok(true);
        }
        let path = self.root().join(LOCK);
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => return Err(strange("the lock of the SQL folder")),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        private(&mut options);
        let opened = options.open(&path).or_else(|error| match error.kind() {
            // A lock that is only read is a lock too.
            IoErrorKind::PermissionDenied | IoErrorKind::ReadOnlyFilesystem => File::open(&path),
            _ => Err(error),
        });
        match opened {
            Ok(opened) => held.file = Some(opened),
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(false),
            Err(error) if error.kind() == IoErrorKind::NotADirectory => {
                return Err(strange("the folder of SQL databases"));
            }
            Err(error) => return Err(file(error)),
        }
        Ok(true)
    }

    /// Creates the root folder, which holds the lock file.
    pub(crate) fn make_root(&self) -> Result<()> {
        match &self.root {
            Root::Kept(root) => {
                crate::file::location::create_folder(root).map_err(file)?;
                check_folder(root)
            }
            Root::Temporary(root, made) => {
                let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                // Everybody may write to the temporary folder: whoever created a folder with this name could read its
                // contents.
                if !*made {
                    if fs::symlink_metadata(root).is_ok() {
                        return Err(strange("the temporary folder for SQL databases"));
                    }
                    make_folder(root, false, true)?;
                    *made = true;
                }
                Ok(())
            }
        }
    }

    /// Creates whatever is missing of the scope's folder, identity and database.
    fn make(&self, scope: &Scope, place: &Place) -> Result<()> {
        make_folder(&self.tenant_folder(&scope.tenant), self.durable, false)?;
        make_folder(place.folder(), self.durable, false)?;
        let identity = place.folder().join(IDENTITY);
        if !exists(&identity)? {
            self.write_new(place.folder(), &identity, &content_of(scope)?)?;
        }
        // Opening and closing a file that SQLite has open would drop its locks, but nothing has opened this one yet.
        if !place.is_made()? {
            self.write_new(place.folder(), place.database(), &first_page())?;
        }
        Ok(())
    }

    /// Writes a file atomically: a draft is renamed to its path.
    fn write_new(&self, folder: &Path, path: &Path, content: &[u8]) -> Result<()> {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let draft = folder.join(format!(".draft-{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        private(&mut options);
        let written = options
            .open(&draft)
            .and_then(|mut out| {
                out.write_all(content).and_then(|()| if self.durable { out.sync_all() } else { Ok(()) })
            })
            .and_then(|()| fs::rename(&draft, path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written.map_err(file)?;
        if self.durable {
            sync_folder(folder);
        }
        Ok(())
    }
}

impl Files {
    /// Removes what must not outlive the provider.
    pub(crate) fn discard_temporary(&self) -> std::io::Result<()> {
        match &self.root {
            Root::Temporary(root, _) if fs::symlink_metadata(root).is_ok_and(|found| found.is_dir()) => {
                fs::remove_dir_all(root)
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Err(error) = self.discard_temporary() {
            tracing::warn!(%error, "the temporary folder of SQL databases could not be removed");
        }
    }
}

/// See [`Files::opening`].
pub(crate) struct Opening<'a> {
    files: &'a Files,
    _inside: RwLockReadGuard<'a, ()>,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut held = self.files.held();
        held.sharing -= 1;
        if held.sharing == 0 {
            unlock(&held);
        }
    }
}

/// See [`Files::changing`].
pub(crate) struct Changing<'a> {
    files: &'a Files,
    _inside: RwLockWriteGuard<'a, ()>,
}

impl Changing<'_> {
    /// Creates whatever is missing of the scope's database.
    pub(crate) fn make(&self, scope: &Scope, place: &Place) -> Result<()> {
        self.files.make(scope, place)
    }

    /// Renames the scope's folder to trash if its database is still this file; `None` otherwise. The trash must then be
    /// removed: see [`discard`](super::discard).
    pub(crate) fn take(&self, place: &Place, database: Option<FileId>) -> Result<Option<PathBuf>> {
        place.is_made()?;
        if fs::symlink_metadata(place.folder()).is_err() || place.file() != database {
            return Ok(None);
        }
        let number = self.files.names.fetch_add(1, Ordering::Relaxed);
        let (Some(parent), Some(name)) = (place.folder().parent(), place.folder().file_name()) else {
            return Err(Error::internal("a scope's folder has no name"));
        };
        let mut trash = std::ffi::OsString::from(format!("{TRASH}{}-{number}-", std::process::id()));
        trash.push(name);
        let trash = parent.join(trash);
        fs::rename(place.folder(), &trash).map_err(file)?;
        if self.files.durable {
            sync_folder(parent);
        }
        Ok(Some(trash))
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        unlock(&self.files.held());
    }
}

fn unlock(held: &Held) {
    if let Some(lock) = &held.file
        && let Err(error) = lock.unlock()
    {
        tracing::warn!(%error, "the lock of the SQL folder could not be released");
    }
}

fn wait_for(
    held: &mut Held,
    deadline: Instant,
    lock: fn(&File) -> Result<(), fs::TryLockError>,
) -> Result<()> {
    let Some(held) = &held.file else { return Ok(()) };
    loop {
        match lock(held) {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Error::timeout(
                    "another process held the lock of the SQL folder until the deadline; nothing was done, try again",
                ));
            }
            // A file system without locks can be used by one process only.
            Err(fs::TryLockError::Error(error)) if error.kind() == IoErrorKind::Unsupported => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(file(error)),
        }
    }
}
