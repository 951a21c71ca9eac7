//! Where scopes' databases lie: a folder for each tenant, in it one for each scope, named by digests.
//!
//! `<root>/<32 hex digits of the tenant's SHA-256>/<64 hex digits of the scope's digest>/` holds `scope.json`, which says
//! whose it is, and `data.db`. The first is there before the second, whole. Folders are private (0700), files too (0600).
//! A symbolic link below the root is never followed: what should be a folder or a file must be one.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, Result, Scope, ScopeDigest, ScopeId, ScopeKind, TenantId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::empty::empty_database;
use super::two_ages::TwoAges;
use crate::error::{file, foreign};
use crate::file::FileId;

const IDENTITY: &str = "scope.json";
const DATABASE: &str = "data.db";
/// Longest identity that is read: two ids of 256 bytes, each at most six times as long as JSON.
const IDENTITY_BYTES: u64 = 8_192;
/// Begins the name of a folder that is being removed.
const TRASH: &str = ".trash-";
const LOCK: &str = ".lock";
/// Memory for what is known of folders, so that the pages of a list do not read each of them again: some 60,000.
const KNOWN_BYTES: usize = 32 << 20;

/// The root folder, and the lock by which processes agree who makes and who removes databases below it.
#[derive(Debug)]
pub(crate) struct Files {
    root: Root,
    /// Whether names survive power loss.
    durable: bool,
    /// Among the threads of this process, which share one file lock.
    inside: RwLock<()>,
    lock: Mutex<Held>,
    /// Makes names of drafts and of trash this process's own.
    names: AtomicU64,
    /// Whose a folder is, by its name. The name is the scope's digest, so this never changes.
    known: Mutex<TwoAges<Box<str>, Scope>>,
}

#[derive(Debug)]
enum Root {
    /// The operator's; made with the first database.
    Kept(PathBuf),
    /// For a database in memory; made with the first database, removed with the provider.
    Temporary(PathBuf, Mutex<bool>),
}

/// The lock's file, and how many of this process share it.
#[derive(Debug, Default)]
struct Held {
    file: Option<File>,
    sharing: usize,
}

/// Where one scope's database lies. Nothing need be there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    folder: PathBuf,
    database: PathBuf,
}

impl Place {
    pub(crate) fn database(&self) -> &Path {
        &self.database
    }

    /// The identity of the database file that has this name now.
    pub(crate) fn file(&self) -> Option<FileId> {
        FileId::of(&self.database)
    }

    /// Whether there is something that may be a database. A file without a byte is none yet.
    pub(crate) fn is_made(&self) -> Result<bool> {
        for folder in [self.folder.parent(), Some(self.folder.as_path())].into_iter().flatten() {
            match fs::symlink_metadata(folder) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(strange("a folder of SQL databases")),
                Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(file(error)),
            }
        }
        match fs::symlink_metadata(&self.database) {
            Ok(found) if found.is_file() => Ok(found.len() > 0),
            Ok(_) => Err(strange("a scope's database file")),
            Err(error) if error.kind() == IoErrorKind::NotFound => Ok(false),
            Err(error) => Err(file(error)),
        }
    }

    /// Bytes of the database's file.
    pub(crate) fn file_bytes(&self) -> u64 {
        fs::symlink_metadata(&self.database).map_or(0, |found| found.len())
    }

    /// Bytes of the database on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.file_bytes().saturating_add(self.log_bytes())
    }

    /// Whether anything was ever committed to it, as far as its sizes tell: what is made at first is one page.
    pub(crate) fn seems_written(&self) -> Result<bool> {
        Ok(self.is_made()? && (self.file_bytes() > 4_096 || self.log_bytes() > 0))
    }

    /// Whether there is anything to remove.
    pub(crate) fn is_there(&self) -> Result<bool> {
        self.is_made()?;
        Ok(fs::symlink_metadata(&self.folder).is_ok())
    }

    /// Bytes of the write-ahead log.
    pub(crate) fn log_bytes(&self) -> u64 {
        let mut log = self.database.as_os_str().to_owned();
        log.push("-wal");
        fs::symlink_metadata(PathBuf::from(log)).map_or(0, |log| log.len())
    }
}

/// What lies in a scope's folder, as `scope.json` has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    format: u32,
    tenant: TenantId,
    kind: ScopeKind,
    id: ScopeId,
}

impl Files {
    /// Nothing is made yet.
    ///
    /// # Errors
    /// `invalid_argument` for a path that names no folder; as the file system has it.
    pub(crate) fn kept(root: &Path, durable: bool) -> Result<Self> {
        Ok(Self::new(Root::Kept(resolve(root)?), durable))
    }

    /// `nonce` makes the folder's name this provider's own.
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
            known: Mutex::new(TwoAges::new(KNOWN_BYTES)),
        }
    }

    fn root(&self) -> &Path {
        match &self.root {
            Root::Kept(path) | Root::Temporary(path, _) => path,
        }
    }

    pub(crate) fn place(&self, scope: &Scope, digest: &ScopeDigest) -> Place {
        let folder = self.tenant_folder(&scope.tenant).join(digest.to_hex());
        Place { database: folder.join(DATABASE), folder }
    }

    fn tenant_folder(&self, tenant: &TenantId) -> PathBuf {
        let hash = Sha256::digest(tenant.as_str().as_bytes());
        let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.root().join(hex)
    }

    /// While it is held, no process makes or removes a database, and every process may open some.
    pub(crate) fn opening(&self, deadline: Instant) -> Result<Opening<'_>> {
        let inside = self.inside.read().unwrap_or_else(PoisonError::into_inner);
        let mut held = self.held();
        if held.sharing == 0 && self.lock_file(&mut held)? {
            wait_for(&mut held, deadline, File::try_lock_shared)?;
        }
        held.sharing += 1;
        Ok(Opening { files: self, _inside: inside })
    }

    /// While it is held, no process makes, opens or removes a database.
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

    fn known(&self) -> std::sync::MutexGuard<'_, TwoAges<Box<str>, Scope>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the lock's file where the root exists; false where it does not, so that there is nothing to agree about.
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
        match options.open(&path) {
            Ok(opened) => held.file = Some(opened),
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(file(error)),
        }
        Ok(true)
    }

    /// Makes the root folder, in which the lock lies.
    pub(crate) fn make_root(&self) -> Result<()> {
        match &self.root {
            Root::Kept(root) => {
                crate::file::create_folder(root).map_err(file)?;
                check_folder(root)
            }
            Root::Temporary(root, made) => {
                let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                // Whoever put a folder of this name where everybody may write could read what is in it.
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

    /// Makes the folders down to the scope's, its identity, and an empty file for the database. Whatever is there
    /// already stays.
    fn make(&self, scope: &Scope, place: &Place) -> Result<()> {
        make_folder(&self.tenant_folder(&scope.tenant), self.durable, false)?;
        make_folder(&place.folder, self.durable, false)?;
        let identity = place.folder.join(IDENTITY);
        if !exists(&identity)? {
            self.write_new(&place.folder, &identity, &content_of(scope)?)?;
        }
        // One that SQLite holds must not be opened and closed by anybody else; this one nobody has seen yet.
        if !place.is_made()? {
            self.write_new(&place.folder, &place.database, &empty_database())?;
        }
        Ok(())
    }

    /// Writes a file that is there whole or not at all.
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

    /// The scopes of a tenant whose folders hold an identity and a database, in no order; a folder that was seen before may
    /// have lost them.
    pub(crate) fn list(&self, tenant: &TenantId) -> Result<Vec<Scope>> {
        let folder = self.tenant_folder(tenant);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(strange("a tenant's folder")),
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(error)),
        }
        let mut scopes = Vec::new();
        for item in fs::read_dir(&folder).map_err(file)? {
            let item = item.map_err(file)?;
            let name = item.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TRASH) {
                // Whoever dropped it did not come to remove it, or is about to.
                discard(&item.path());
            }
            if !is_digest(name) {
                continue;
            }
            if let Some(scope) = self.known().get(name) {
                if scope.tenant == *tenant {
                    scopes.push(scope);
                }
                continue;
            }
            let scope = match identity(&item.path()) {
                Ok(Some(scope)) => scope,
                Ok(None) => continue,
                // One that cannot be read keeps nobody from the others.
                Err(error) => {
                    tracing::warn!(%error, folder = name, "whose a SQL database is cannot be read; it is left out");
                    continue;
                }
            };
            // What does not belong there is nobody's: it was put there by hand.
            if scope.tenant == *tenant && scope.digest().to_hex() == name {
                // The strings of the scope, the name, and what holds them.
                let weight = 192 + name.len() + scope.tenant.as_str().len() + scope.id.as_str().len();
                self.known().put(name.into(), scope.clone(), weight);
                scopes.push(scope);
            } else {
                tracing::warn!(folder = name, "a scope's folder names another scope and is left out");
            }
        }
        Ok(scopes)
    }
}

impl Files {
    /// The scopes of a tenant that have a folder, whether it holds a database or not; what others came not to remove is.
    pub(crate) fn all_of(&self, tenant: &TenantId) -> Result<Vec<Scope>> {
        let mut scopes = self.list(tenant)?;
        let folder = self.tenant_folder(tenant);
        let items = match fs::read_dir(&folder) {
            Ok(items) => items,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(scopes),
            Err(error) => return Err(file(error)),
        };
        for item in items {
            let path = item.map_err(file)?.path();
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            if let Ok(Some(scope)) = if is_folder { owner(&path) } else { Ok(None) }
                && scope.tenant == *tenant
                && path.file_name().is_some_and(|name| name == scope.digest().to_hex().as_str())
                && !scopes.contains(&scope)
            {
                scopes.push(scope);
            }
        }
        Ok(scopes)
    }

    /// Whether there may be any database at all.
    pub(crate) fn is_any(&self) -> Result<bool> {
        match fs::symlink_metadata(self.root()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == IoErrorKind::NotFound => Ok(false),
            Err(error) => Err(file(error)),
        }
    }

    /// The tenants that have a scope with a database, in no order.
    pub(crate) fn tenants(&self) -> Result<Vec<TenantId>> {
        let folders = match fs::read_dir(self.root()) {
            Ok(folders) => folders,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(error)),
        };
        let mut tenants = Vec::new();
        for folder in folders {
            let folder = folder.map_err(file)?.path();
            if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
                continue;
            }
            if let Some(tenant) = self.tenant_of(&folder)? {
                tenants.push(tenant);
            }
        }
        Ok(tenants)
    }

    /// Whose a tenant's folder is, as its scopes say.
    fn tenant_of(&self, folder: &Path) -> Result<Option<TenantId>> {
        let items = match fs::read_dir(folder) {
            Ok(items) => items,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(error)),
        };
        for item in items {
            let item = item.map_err(file)?;
            let name = item.file_name();
            let Some(name) = name.to_str().filter(|name| is_digest(name)) else { continue };
            // What belongs there is told by both names; listing the tenant warns of the rest.
            if let Ok(Some(scope)) = identity(&item.path())
                && scope.digest().to_hex() == name
                && self.tenant_folder(&scope.tenant) == folder
            {
                return Ok(Some(scope.tenant));
            }
        }
        Ok(None)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Root::Temporary(root, _) = &self.root
            && fs::symlink_metadata(root).is_ok_and(|found| found.is_dir())
            && let Err(error) = fs::remove_dir_all(root)
        {
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
    /// Makes what is missing for the scope's database, save the database itself: its file is empty.
    pub(crate) fn make(&self, scope: &Scope, place: &Place) -> Result<()> {
        self.files.make(scope, place)
    }

    /// Takes the scope's folder away, if its database is still this one; false otherwise. Its bytes are still to be
    /// removed.
    pub(crate) fn take(&self, place: &Place, database: Option<FileId>) -> Result<Option<PathBuf>> {
        place.is_made()?;
        if fs::symlink_metadata(&place.folder).is_err() || place.file() != database {
            return Ok(None);
        }
        let number = self.files.names.fetch_add(1, Ordering::Relaxed);
        let (Some(parent), Some(name)) = (place.folder.parent(), place.folder.file_name()) else {
            return Err(Error::internal("a scope's folder has no name"));
        };
        let mut trash = std::ffi::OsString::from(format!("{TRASH}{}-{number}-", std::process::id()));
        trash.push(name);
        let trash = parent.join(trash);
        fs::rename(&place.folder, &trash).map_err(file)?;
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
        tracing::warn!(%error, "the lock of the SQL folder could not be given back");
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
                return Err(Error::new(
                    ErrorKind::Timeout,
                    "another process makes or removes databases for longer than the deadline; nothing was done, try again",
                ));
            }
            // A file system without locks: one process alone may use it.
            Err(fs::TryLockError::Error(error)) if error.kind() == IoErrorKind::Unsupported => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(file(error)),
        }
    }
}

/// The path without symbolic links in what exists of it: they are the operator's. Below it none is followed.
fn resolve(path: &Path) -> Result<PathBuf> {
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

/// Removes what [`Changing::take`] took away.
pub(crate) fn discard(trash: &Path) {
    let gone = |error: &std::io::Error| error.kind() == IoErrorKind::NotFound;
    if let Err(error) = fs::remove_dir_all(trash)
        && !gone(&error)
    {
        tracing::warn!(%error, "the files of a dropped SQL database could not all be removed");
    }
}

/// Who a scope's folder belongs to; `None` where it holds no database, or is half made.
fn identity(folder: &Path) -> Result<Option<Scope>> {
    let is_file = |name| fs::symlink_metadata(folder.join(name)).is_ok_and(|found| found.is_file());
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    if !is_folder || !is_file(DATABASE) {
        return Ok(None);
    }
    owner(folder)
}

/// As [`identity`], whether there is a database or not.
fn owner(folder: &Path) -> Result<Option<Scope>> {
    if !fs::symlink_metadata(folder.join(IDENTITY)).is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let mut content = Vec::new();
    let read = File::open(folder.join(IDENTITY))
        .and_then(|opened| opened.take(IDENTITY_BYTES).read_to_end(&mut content));
    match read {
        Ok(_) => {}
        // It was dropped at this moment.
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file(error)),
    }
    let identity: Identity = serde_json::from_slice(&content).map_err(|error| {
        foreign("the file that says whose a SQL database is cannot be read; restore it from a copy")
            .with_source(error)
    })?;
    if identity.format != 1 {
        return Err(foreign("a SQL database was made by a newer version; open it with that version"));
    }
    Ok(Some(Scope::new(identity.tenant, identity.kind, identity.id)))
}

fn content_of(scope: &Scope) -> Result<Vec<u8>> {
    let identity =
        Identity { format: 1, tenant: scope.tenant.clone(), kind: scope.kind, id: scope.id.clone() };
    serde_json::to_vec(&identity)
        .map_err(|error| Error::internal("a scope's identity cannot be written").with_source(error))
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn exists(path: &Path) -> Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(strange("the file that says whose a SQL database is")),
        Err(error) if error.kind() == IoErrorKind::NotFound => Ok(false),
        Err(error) => Err(file(error)),
    }
}

/// Makes a folder that nobody else may enter; one that is there is as good, unless it must be new.
fn make_folder(path: &Path, durable: bool, new: bool) -> Result<()> {
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

fn check_folder(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path).map_err(file)?.is_dir() {
        Ok(())
    } else {
        Err(strange("a folder of SQL databases"))
    }
}

/// A file system that cannot sync a folder is no reason to refuse.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn private(options: &mut OpenOptions) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let _ = options;
}

fn strange(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{what} is a symbolic link or no ordinary one; somebody else put it there: remove it"),
    )
}
