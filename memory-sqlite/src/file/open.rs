//! Connections to the database: hardened, configured, and opened only to the file that was checked.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::location::{FileId, Location, Still};
use super::migrations::USER_VERSION;
use super::schema::{self, Identity};
use crate::config::{Durability, SqliteConfig};
use crate::error::{displaced, engine, is_busy, locked};

/// Only one file at a time is checked, created and switched to the write-ahead log. Checking closes a descriptor of the
/// file, at which the system releases every lock of this process on it, while another handle could be creating the same
/// file. Once the log is in use, SQLite relies on the locks of its index, which nothing else opens.
pub(crate) static OPENING: Mutex<()> = Mutex::new(());

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Writer,
    Reader,
}

/// Opens and checks the database, creates or migrates it if needed, and returns the writing connection.
pub(crate) fn open(location: &Location, config: &SqliteConfig) -> Result<Connection> {
    let conn = match location {
        Location::Memory => hardened(Connection::open_in_memory().map_err(engine)?, config)?,
        Location::File(path) => open_unverified(path, config)?,
        Location::ReadOnly(path, still) => return open_read_only(path, *still, config),
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

/// Opens and checks a file that this process may not write.
fn open_read_only(path: &Path, still: Still, config: &SqliteConfig) -> Result<Connection> {
    let conn = hardened(raw_read_only(path, still)?, config)?;
    match schema::read_identity(&conn).map_err(|error| unread_log(still, error))? {
        Identity::Ours(USER_VERSION) => {}
        _ => {
            return Err(Error::read_only(
                "the database is empty or was written by an earlier version of this program, and may only be read here; open it \
                 once where it may be written",
            ));
        }
    }
    schema::verify(&conn)?;
    configure(&conn, config, Role::Reader)?;
    Ok(conn)
}

/// SQLite reads a log by an index beside it, which cannot be created here.
pub(crate) fn unread_log(still: Still, error: Error) -> Error {
    match (still, error.kind()) {
        (Still::Not, ErrorKind::Unavailable | ErrorKind::ReadOnly) => Error::read_only(
            "the database has a log (-wal) that cannot be read here; copy both files into a folder that this process may write, or \
             have a program that may write the database close it",
        )
        .with_source(error),
        _ => error,
    }
}

/// Opens a file that [`judge`] has checked, whatever its tables. Our connections run no triggers and no views.
pub(crate) fn open_unverified(path: &Path, config: &SqliteConfig) -> Result<Connection> {
    let conn = hardened(raw(path)?, config)?;
    if conn.is_readonly("main").map_err(engine)? {
        return Err(Error::read_only(
            "the database file is read-only; give this process the right to write it and its folder",
        ));
    }
    Ok(conn)
}

/// Opens one more connection to a database opened by [`open`]. If another file has taken its name, that is not read, so
/// the old file's log is not applied to it.
pub(crate) fn connect(
    location: &Location,
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
    let (conn, role) = match location {
        Location::ReadOnly(_, still) => (raw_read_only(path, *still)?, Role::Reader),
        _ => (raw(path)?, role),
    };
    check()?;
    let conn = hardened(conn, config)?;
    configure(&conn, config, role)?;
    // SQLite looks up the log by name at the first read, which must be now.
    conn.query_row("SELECT count(*) FROM sequence", [], |row| row.get::<_, i64>(0)).map_err(engine)?;
    Ok(conn)
}

fn raw(path: &Path) -> Result<Connection> {
    // No URI: a `?` or `file:` in a path is part of the name.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    Connection::open_with_flags(path, flags).map_err(engine)
}

/// Leaves nothing next to the file: without a log it is opened as immutable, and with one the existing index is used.
pub(crate) fn raw_read_only(path: &Path, still: Still) -> Result<Connection> {
    use std::fmt::Write as _;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            byte => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri.push_str(match still {
        Still::At(..) => "?immutable=1",
        Still::Not => "?readonly_shm=1",
    });
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    Connection::open_with_flags(uri, flags).map_err(engine)
}

fn hardened(conn: Connection, config: &SqliteConfig) -> Result<Connection> {
    conn.busy_timeout(config.busy_timeout()).map_err(engine)?;
    let set = |option, value| conn.set_db_config(option, value).map(drop).map_err(engine);
    set(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    set(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    // Without it a join over `entry` is prepared again for every binding, because the planner compares parameters
    // with the condition of the partial index `entry_expiry`. A point read then costs six times as much.
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
    if role == Role::Writer {
        // Makes deleted, overwritten and expired content disappear from the pages, not only from the tables.
        conn.pragma_update(None, "secure_delete", true).map_err(engine)?;
    }
    if role == Role::Writer && config.max_file_bytes != 0 {
        let page: u32 = conn.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(engine)?;
        // SQLite takes 32 bits. A file that is already larger stays as it is.
        let pages = (config.max_file_bytes / u64::from(page.max(1))).min(u64::from(u32::MAX - 1));
        conn.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).map_err(engine)?;
    }
    if role == Role::Reader {
        conn.execute_batch("PRAGMA query_only = ON").map_err(engine)?;
    }
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Switching to the write-ahead log needs exclusive access for a moment, and SQLite does not wait for it.
pub(crate) fn write_ahead(conn: &Connection, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        match conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0)) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(_) => {
                return Err(Error::unavailable(
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
