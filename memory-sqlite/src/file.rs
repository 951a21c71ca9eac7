//! The database file: judged before it is touched, created private, opened.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as IoErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::config::{Durability, SqliteConfig};
use crate::error::{displaced, engine, file, foreign, is_busy, locked};
use crate::schema::{self, Identity};

/// Where the database lives.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// In one private connection.
    Memory,
    /// In a file whose folder's path has no symbolic link in it.
    File(PathBuf),
}

impl Location {
    /// The file.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Memory => None,
            Self::File(path) => Some(path),
        }
    }
}

/// Tells one file from another that took its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of what has this name now; `None` where nothing has, or the system has no such thing.
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

    /// Whether another file has this name now, or none has. What cannot be told, as where a folder may not be looked
    /// into any more, is no.
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

/// Judges the file of this name, creates it (0600, in folders of 0700) where there is none, and returns its path.
///
/// # Errors
/// `invalid_argument` for what is no ordinary file; `corrupt` for what is no database of ours; nothing is
/// changed then.
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

/// Judges the file of this name, and returns its path; `None`: there is none.
///
/// # Errors
/// As [`prepare`].
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

/// The names of new folders are synced, as is (by SQLite) the file's: what loses its name is lost.
pub(crate) fn create_folder(folder: &Path) -> std::io::Result<()> {
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
        // As SQLite has it: a file system that cannot sync a folder, or lets nobody read it, is no reason to refuse.
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
        // Another process was first.
        Err(error) if error.kind() == IoErrorKind::AlreadyExists => Ok(()),
        other => other.map(drop),
    }
}

/// Reads the marks off the file's first bytes, since SQLite itself may write to a file it opens (a hot journal).
/// Ours has them from its first tables on.
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
    // A process killed while it made the file leaves one page without a schema and without marks, not yet in WAL
    // mode (whose log could hold another program's tables). It is judged again, by its tables, once it is open.
    let (pages, schema_cookie, wal) = (number(28), number(40), header.get(18) == Some(&2));
    schema::identify(number(68), number(60), pages <= 1 && schema_cookie == 0 && !wal).map(drop)
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Writer,
    Reader,
}

/// Opens, checks and, where needed, creates or migrates the database; returns the writing connection.
pub(crate) fn open(location: &Location, config: &SqliteConfig) -> Result<Connection> {
    let conn = match location {
        Location::Memory => hardened(Connection::open_in_memory().map_err(engine)?, config)?,
        Location::File(path) => open_unverified(path, config)?,
    };
    if schema::read_identity(&conn)? == Identity::Empty {
        conn.execute_batch("PRAGMA auto_vacuum = INCREMENTAL").map_err(engine)?;
    }
    schema::migrate(&conn)?;
    schema::verify(&conn)?;
    if let Location::File(_) = location {
        write_ahead(&conn, config.busy_timeout())?;
    }
    configure(&conn, config, Role::Writer)?;
    Ok(conn)
}

/// Opens a file that [`judge`] has judged, whatever tables it has. Our connections run no triggers and no views.
pub(crate) fn open_unverified(path: &Path, config: &SqliteConfig) -> Result<Connection> {
    let conn = hardened(raw(path)?, config)?;
    if conn.is_readonly("main").map_err(engine)? {
        return Err(Error::new(
            ErrorKind::ReadOnly,
            "the database file is read-only; give this process the right to write it and its folder",
        ));
    }
    Ok(conn)
}

/// Opens one more connection to a database that [`open`] has judged; of a file that took its name, nothing is read, and
/// so nothing of the log is put into it that lies under the old name.
pub(crate) fn connect(
    path: &Path,
    id: Option<FileId>,
    config: &SqliteConfig,
    role: Role,
) -> Result<Connection> {
    let check = || match id {
        Some(id) if id.has_left(path) => Err(displaced()),
        _ => Ok(()),
    };
    check()?;
    let conn = raw(path)?;
    check()?;
    let conn = hardened(conn, config)?;
    configure(&conn, config, role)?;
    // The log is found by its name when it is first read, which must be now.
    conn.query_row("SELECT count(*) FROM sequence", [], |row| row.get::<_, i64>(0)).map_err(engine)?;
    Ok(conn)
}

fn raw(path: &Path) -> Result<Connection> {
    // No URI: a `?` or `file:` in a path is part of its name.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    Connection::open_with_flags(path, flags).map_err(engine)
}

fn hardened(conn: Connection, config: &SqliteConfig) -> Result<Connection> {
    conn.busy_timeout(config.busy_timeout()).map_err(engine)?;
    let set = |option, value| conn.set_db_config(option, value).map(drop).map_err(engine);
    set(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    set(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    // Without it a join over `entry` is prepared anew for every binding: the planner compares parameters with the
    // condition of the partial index `entry_expiry`. A point read then costs six times as much.
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(conn)
}

fn configure(conn: &Connection, config: &SqliteConfig, role: Role) -> Result<()> {
    let synchronous = match config.durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    conn.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0; PRAGMA foreign_keys = OFF; \
         PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON; PRAGMA cache_size = -{};",
        config.cache_kib
    ))
    .map_err(engine)?;
    if role == Role::Reader {
        conn.execute_batch("PRAGMA query_only = ON").map_err(engine)?;
    }
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Switching to the write-ahead log needs the file alone for a moment, and SQLite does not wait for that itself.
pub(crate) fn write_ahead(conn: &Connection, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(_) => {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "the file system does not support SQLite's write-ahead log; move the database to a local disk",
                )
                .with_retry(memory_core::Retry::Never));
            }
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) if is_busy(&error) => return Err(locked().with_source(error)),
            Err(error) => return Err(engine(error)),
        }
    }
}
