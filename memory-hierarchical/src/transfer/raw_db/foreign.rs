//! A database that somebody else wrote: only read, never changed, and never trusted.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use memory_core::{Error, ErrorKind, Result, Retry};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::copied::Copied;
use super::path::{has_bytes, io, magic, ordinary};
use crate::rows;
use crate::transfer::graph::MAX_BYTES;
use crate::transfer::json::has_long_integer;

/// Longest value that is read.
const MAX_CELL: i32 = 64 << 20;
/// How long to wait for a writer of the file.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a row costs in addition to its bytes, so that empty ones are limited too.
const ROW_COST: u64 = 64;

/// The error of a statement on a file.
fn sql(error: rusqlite::Error) -> Error {
    let busy = matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    );
    if busy {
        return Error::unavailable("another program is writing the file; try again")
            .with_retry(Retry::Now)
            .with_source(error);
    }
    Error::corrupt("the file is damaged, or no database of this layout").with_source(error)
}

/// A database of another program, read in one transaction.
pub struct Foreign {
    pub(crate) connection: Connection,
    /// Its length and time, if it is read without locks.
    still: Option<(PathBuf, u64, Option<SystemTime>)>,
    /// The copy that is read instead; dropped after the connection.
    copied: Option<Copied>,
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Foreign").finish_non_exhaustive()
    }
}

impl Foreign {
    /// Opens a file. If it has a log, a copy of both is read. Creates neither locks nor files next to it.
    ///
    /// # Errors
    /// `invalid_argument` for anything but an ordinary file; `capability_unsupported` for a graph engine's file;
    /// `corrupt` for a file that is not a database; `unavailable` for one that its writer left half written.
    pub fn open(path: &Path) -> Result<Self> {
        let path = ordinary(path)?;
        magic(&path)?;
        if has_bytes(&path, "-journal") {
            return Err(Error::unavailable(
                "a program is writing the file, or was interrupted; try again, or open it once with that program, which repairs it",
            ));
        }
        let copied = if has_bytes(&path, "-wal") { Copied::of(&path)? } else { None };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let (uri, still) = match &copied {
            Some(copied) => (uri(&copied.database(), false), None),
            None => {
                let found = fs::metadata(&path).map_err(io)?;
                (uri(&path, true), Some((path, found.len(), found.modified().ok())))
            }
        };
        memory_sqlite::prepare_process();
        let connection = Connection::open_with_flags(uri, flags).map_err(sql)?;
        harden(&connection).map_err(sql)?;
        Ok(Self { connection, still, copied })
    }

    /// Wraps a connection to a database that somebody else filled.
    pub(crate) fn over(connection: Connection) -> Result<Self> {
        harden(&connection).map_err(sql)?;
        Ok(Self { connection, still: None, copied: None })
    }

    /// For reading alone.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `unavailable` if the file was changed, so that what was read may mix two states of it.
    pub fn finish(self) -> Result<()> {
        let Self { connection, still, copied } = self;
        drop((connection, copied));
        match still {
            Some((path, length, time))
                if fs::metadata(&path).map(|found| (found.len(), found.modified().ok())).ok()
                    != Some((length, time)) =>
            {
                Err(Error::unavailable("the file was changed while it was read; try again")
                    .with_retry(Retry::Now))
            }
            _ => Ok(()),
        }
    }
}

/// Makes sure that nothing in the file's schema is run, and that every statement sees the same state.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    for (option, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        connection.set_db_config(option, value)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_CELL)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA query_only = ON; BEGIN")
}

fn uri(path: &Path, is_still: bool) -> String {
    let mut uri = String::from("file:");
    for byte in bytes(path.as_os_str()) {
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(uri, "%{byte:02x}");
        }
    }
    uri.push_str(if is_still { "?mode=ro&immutable=1" } else { "?mode=ro" });
    uri
}

fn bytes(path: &OsStr) -> &[u8] {
    path.as_encoded_bytes()
}

/// The columns of a table with their declared types, in upper case; `None` if there is no such table. Views and virtual
/// tables do not count.
pub(crate) fn columns(connection: &Connection, table: &str) -> Result<Option<Vec<(String, String)>>> {
    let is_there: bool = connection
        .query_row(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1 AND rootpage > 0",
            [table],
            |row| row.get::<_, i64>(0),
        )
        .map_err(sql)?
        > 0;
    if !is_there {
        return Ok(None);
    }
    let mut statement = connection.prepare("SELECT name, type FROM pragma_table_info(?1)").map_err(sql)?;
    let rows = statement
        .query_map([table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?.to_uppercase())))
        .map_err(sql)?;
    rows.collect::<rusqlite::Result<_>>().map(Some).map_err(sql)
}

/// The values of a row by place. A value of another type is a fault of the row, not of the file.
pub(crate) struct Cells<'a, 'b> {
    row: &'a rusqlite::Row<'b>,
    names: &'a [&'static str],
    next: usize,
}

impl Cells<'_, '_> {
    fn take(&mut self) -> (&'static str, ValueRef<'_>) {
        let index = self.next;
        self.next += 1;
        let name = self.names.get(index).copied().unwrap_or_default();
        (name, self.row.get_ref(index).unwrap_or(ValueRef::Null))
    }

    /// A text or null.
    pub(crate) fn maybe_text(&mut self) -> std::result::Result<Option<String>, String> {
        match self.take() {
            (_, ValueRef::Null) => Ok(None),
            (name, ValueRef::Text(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) if text.contains('\0') => Err(format!("{name} contains U+0000")),
                Ok(text) => Ok(Some(text.to_owned())),
                Err(_) => Err(format!("{name} is not UTF-8")),
            },
            (name, _) => Err(format!("{name} is no text")),
        }
    }

    /// A number or null.
    pub(crate) fn maybe_real(&mut self) -> std::result::Result<Option<f64>, String> {
        match self.take() {
            (_, ValueRef::Null) => Ok(None),
            (_, ValueRef::Real(number)) => Ok(Some(number)),
            #[allow(
                clippy::cast_precision_loss,
                reason = "SQLite keeps a whole number of a real column as an integer"
            )]
            (_, ValueRef::Integer(number)) => Ok(Some(number as f64)),
            (name, _) => Err(format!("{name} is no number")),
        }
    }

    /// An integer or null.
    pub(crate) fn maybe_int(&mut self) -> std::result::Result<Option<i64>, String> {
        match self.take() {
            (_, ValueRef::Null) => Ok(None),
            (_, ValueRef::Integer(number)) => Ok(Some(number)),
            (name, _) => Err(format!("{name} is no integer")),
        }
    }

    /// What the next value is, if it is not null.
    fn required<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> std::result::Result<Option<T>, String>,
    ) -> std::result::Result<T, String> {
        let name = self.names.get(self.next).copied().unwrap_or_default();
        take(self)?.ok_or_else(|| format!("{name} is null"))
    }

    fn cost(&self) -> u64 {
        let bytes = |index| match self.row.get_ref(index) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
                u64::try_from(bytes.len()).unwrap_or(u64::MAX)
            }
            _ => 0,
        };
        (0..self.names.len()).map(bytes).fold(ROW_COST, u64::saturating_add)
    }
}

impl rows::Cells for Cells<'_, '_> {
    type Fault = String;

    fn text(&mut self) -> std::result::Result<String, String> {
        self.required(Self::maybe_text)
    }

    fn real(&mut self) -> std::result::Result<f64, String> {
        self.required(Self::maybe_real)
    }

    fn int(&mut self) -> std::result::Result<i64, String> {
        self.required(Self::maybe_int)
    }

    fn json<T: serde::de::DeserializeOwned>(&mut self) -> std::result::Result<T, String> {
        let name = self.names.get(self.next).copied().unwrap_or_default();
        let text = self.text()?;
        if has_long_integer(&text) {
            return Err(format!("{name} has an integer of more than 64 bits; write it as a string"));
        }
        serde_json::from_str(&text).map_err(|_| format!("{name} is not the JSON that it should be"))
    }
}

impl Foreign {
    /// Reads these columns of a table in row order, and passes on each row with its number.
    ///
    /// # Errors
    /// `corrupt` for a damaged file; `too_large` past [`MAX_BYTES`], over all that was `read` before.
    pub(crate) fn each(
        &self,
        table: &str,
        names: &[&'static str],
        read: &mut u64,
        mut take: impl FnMut(i64, Cells<'_, '_>),
    ) -> Result<u64> {
        // Names of this crate, never of the file.
        let statement = format!("SELECT {}, rowid FROM {table} ORDER BY rowid", names.join(", "));
        let mut statement = self.connection.prepare(&statement).map_err(sql)?;
        let mut rows = statement.query([]).map_err(sql)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(sql)? {
            let cells = Cells { row, names, next: 0 };
            *read = read.saturating_add(cells.cost());
            if *read > MAX_BYTES {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!("the file holds more than {MAX_BYTES} bytes in rows, the most that is read"),
                )
                .with_detail("limit", MAX_BYTES)
                .with_detail("unit", "bytes"));
            }
            count += 1;
            take(row.get(names.len()).map_err(sql)?, cells);
        }
        Ok(count)
    }
}
