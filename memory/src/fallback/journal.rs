//! The journal: writes that the fallback has and the primary lacks, in one SQLite file.
//!
//! A write is recorded here and synced before the fallback gets it, and so before it is acknowledged.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_core::{Error, ErrorKind, Expect, Key, Result, Retry, Scope, TenantId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use serde::Serialize;

use super::record::Record;
use crate::private;

/// `mjnl`, in the file's header.
const APPLICATION_ID: i32 = 0x6d6a_6e6c;
const FORMAT: i32 = 1;
/// Most records, including those set aside.
pub(super) const MAX_RECORDS: u64 = 10_000;
/// Most bytes of them.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// Largest record, in bytes.
const MAX_RECORD_BYTES: usize = 16 << 20;
/// How long to wait for another process's turn.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which of the two stores have the write of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum JournalState {
    /// Not acknowledged: the fallback may have it.
    Intended,
    /// The fallback has the write.
    Waiting,
    /// The fallback has the write; the primary may have it.
    Trying,
    /// The primary refused it; it is kept for the operator.
    SetAside,
}

impl JournalState {
    /// By its number in the file.
    fn of(number: i64) -> Result<Self> {
        match number {
            0 => Ok(Self::Intended),
            1 => Ok(Self::Waiting),
            2 => Ok(Self::Trying),
            3 => Ok(Self::SetAside),
            _ => Err(damaged("a state is invalid")),
        }
    }
}

/// The journal's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JournalCounts {
    /// Writes that the primary does not have yet.
    pub waiting: u64,
    /// Scopes with such writes.
    pub scopes: u64,
    /// Bytes of every record.
    pub bytes: u64,
    /// Writes that the primary refused.
    pub set_aside: u64,
}

/// One write in the journal, as shown to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Its number; writes are replayed in this order.
    pub id: i64,
    /// Its scope.
    pub scope: Scope,
    /// When it was made.
    pub at: Timestamp,
    /// Its state.
    pub state: JournalState,
    /// `set`, `bulk_insert` or `delete`.
    pub op: &'static str,
    /// Its keys.
    pub keys: Vec<String>,
    /// Why it was set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A record to be replayed.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: i64,
    pub(super) scope: Scope,
    pub(super) state: JournalState,
    /// What the last replay expected of the primary.
    pub(super) expects: Option<Vec<Expect>>,
    pub(super) record: Record,
}

/// One process's exclusive turn; released when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    file: File,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Closing is not enough: between fork and exec, a starting child process holds a copy of every open file.
        let _ = self.file.unlock();
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    connection: Mutex<Connection>,
    max_records: u64,
}

impl Journal {
    /// Opens or creates the file for the pair of stores with this fingerprint.
    pub(super) fn open(path: &Path, fingerprint: &str) -> Result<Self> {
        let journal = Self::connect(path, false)?;
        let mut connection = journal.lock();
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        if !belongs(&transaction, path, fingerprint)? {
            set_about(&transaction, "fingerprint", fingerprint)?;
        }
        transaction.commit().map_err(failed)?;
        drop(connection);
        Ok(journal)
    }

    /// Whether the file belongs to the pair of stores with this fingerprint, or to none yet.
    pub(super) fn belongs(&self, fingerprint: &str) -> Result<bool> {
        belongs(&self.lock(), &self.path, fingerprint)
    }

    /// Opens an existing file, whatever pair it belongs to.
    pub(super) fn existing(path: &Path) -> Result<Self> {
        Self::connect(path, true)
    }

    fn connect(path: &Path, existing: bool) -> Result<Self> {
        if existing && !path.is_file() {
            return Err(Error::not_found(format!("there is no journal at {}", path.display())));
        }
        make(path)?;
        let connection = crate::backends::sqlite::connect(path).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        let application: i32 =
            connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
        let format: i32 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(failed)?;
        match (application, format, tables) {
            (APPLICATION_ID, FORMAT, _) => {}
            (0, 0, 0) => connection.execute_batch(SCHEMA).map_err(failed)?,
            (APPLICATION_ID, _, _) => return Err(damaged("it is of a newer version of this program")),
            _ => return Err(damaged("it is not a journal")),
        }
        // WAL with full syncs: commits survive a power loss.
        connection.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        connection.pragma_update(None, "secure_delete", "on").map_err(failed)?;
        Ok(Self { path: path.to_path_buf(), connection: Mutex::new(connection), max_records: MAX_RECORDS })
    }

    /// Lowers the limit of queued records.
    pub(super) fn limit(&mut self, records: u64) {
        self.max_records = records.clamp(1, MAX_RECORDS);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        // Each change is one statement or transaction.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for other processes that write to the journal, then keeps them out until the turn is dropped or the
    /// process ends.
    pub(super) fn turn(&self) -> Result<Turn> {
        let started = Instant::now();
        loop {
            if let Some(turn) = self.try_turn()? {
                return Ok(turn);
            }
            if started.elapsed() >= PATIENCE {
                return Err(Error::unavailable(
                    "another process has been writing to the journal for long; try again",
                ));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The journal's lock, if no other process holds it.
    pub(super) fn try_turn(&self) -> Result<Option<Turn>> {
        let mut path = self.path.clone().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        make(&path)?;
        let unusable = |error: std::io::Error| {
            Error::unavailable("the lock of the journal cannot be used").with_source(error)
        };
        let file = File::options().write(true).open(&path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Turn { file })),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(unusable(error)),
        }
    }

    /// Whether the scope has queued writes.
    pub(super) fn holds(&self, scope: &Scope) -> Result<bool> {
        self.lock()
            .prepare_cached("SELECT 1 FROM waiting WHERE scope = ?1 AND state < 3 LIMIT 1")
            .and_then(|mut statement| statement.exists([scope.digest().as_bytes()]))
            .map_err(failed)
    }

    /// Whether any scope of the tenant has queued writes.
    pub(super) fn holds_any(&self, tenant: &TenantId) -> Result<bool> {
        self.lock()
            .prepare_cached("SELECT 1 FROM waiting WHERE tenant = ?1 AND state < 3 LIMIT 1")
            .and_then(|mut statement| statement.exists([tenant.as_str()]))
            .map_err(failed)
    }

    /// Records a write before the fallback is asked.
    pub(super) fn intend(&self, scope: &Scope, record: &Record) -> Result<i64> {
        let text = serde_json::to_string(record)
            .map_err(|error| Error::internal("a write has no JSON form").with_source(error))?;
        if text.len() > MAX_RECORD_BYTES {
            return Err(Error::too_large("journaled write", text.len(), MAX_RECORD_BYTES, "bytes"));
        }
        let counts = self.counts()?;
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if counts.waiting + counts.set_aside >= self.max_records
            || counts.bytes.saturating_add(bytes) > MAX_BYTES
        {
            return Err(Error::unavailable(
                "the primary store is not available, and the journal of the fallback is full; bring the primary back, and check \
                 the writes set aside",
            )
            .with_detail("journal_waiting", counts.waiting)
            .with_detail("journal_set_aside", counts.set_aside));
        }
        let connection = self.lock();
        connection
            .execute(
                "INSERT INTO waiting (scope, tenant, kind, scope_id, state, at, record, bytes) \
                 VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, length(CAST(?6 AS BLOB)))",
                params![
                    scope.digest().as_bytes(),
                    scope.tenant.as_str(),
                    scope.kind.as_str(),
                    scope.id.as_str(),
                    record.at.as_millis(),
                    text
                ],
            )
            .map_err(failed)?;
        Ok(connection.last_insert_rowid())
    }

    /// Records that the fallback has the write.
    pub(super) fn confirm(&self, id: i64) -> Result<()> {
        self.execute("UPDATE waiting SET state = 1 WHERE id = ?1", [id]).map(drop)
    }

    /// Records that the primary has it, with these versions of its keys. They are kept as long as the scope has queued
    /// writes, so that a replay does not mistake its own write for someone else's.
    pub(super) fn done(&self, row: &Row, versions: &[(Key, u64)]) -> Result<()> {
        let mut connection = self.lock();
        let mut write = || -> rusqlite::Result<()> {
            let transaction = connection.transaction()?;
            let scope = row.scope.digest();
            transaction.execute("DELETE FROM waiting WHERE id = ?1", [row.id])?;
            for (key, version) in versions {
                transaction.execute(
                    "INSERT OR REPLACE INTO written (scope, key, version) VALUES (?1, ?2, ?3)",
                    params![scope.as_bytes(), key.as_str(), i64::try_from(*version).unwrap_or(i64::MAX)],
                )?;
            }
            transaction.execute(
                "DELETE FROM written WHERE scope = ?1 AND NOT EXISTS (SELECT 1 FROM waiting WHERE scope = ?1 AND state < 3)",
                [scope.as_bytes()],
            )?;
            transaction.commit()
        };
        write().map_err(failed)
    }

    /// The version that a replay last wrote to a key of this scope.
    pub(super) fn written(&self, scope: &Scope, key: &Key) -> Result<Option<u64>> {
        let version: Option<i64> = self
            .lock()
            .query_row(
                "SELECT version FROM written WHERE scope = ?1 AND key = ?2",
                params![scope.digest().as_bytes(), key.as_str()],
                |row| row.get(0),
            )
            .optional()
            .map_err(failed)?;
        Ok(version.and_then(|version| u64::try_from(version).ok()))
    }

    /// Removes a write that the fallback refused.
    pub(super) fn remove(&self, id: i64) -> Result<()> {
        self.execute("DELETE FROM waiting WHERE id = ?1", [id]).map(drop)
    }

    /// Runs one statement; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &str, arguments: impl rusqlite::Params) -> Result<usize> {
        self.lock().execute(sql, arguments).map_err(failed)
    }

    /// Records what a replay expects of the primary; `None` if it certainly did nothing.
    pub(super) fn trying(&self, id: i64, expects: Option<&[Expect]>) -> Result<()> {
        let text = expects
            .map(serde_json::to_string)
            .transpose()
            .map_err(|error| Error::internal("expectations have no JSON form").with_source(error))?;
        let sql = "UPDATE waiting SET state = iif(?2 IS NULL, 1, 2), expects = ?2 WHERE id = ?1";
        self.execute(sql, params![id, text]).map(drop)
    }

    /// Records that the primary refused it, and why.
    pub(super) fn set_aside(&self, id: i64, why: &str) -> Result<()> {
        self.execute("UPDATE waiting SET state = 3, why = ?2 WHERE id = ?1", params![id, why]).map(drop)
    }

    /// Drops every write of a scope.
    pub(super) fn forget(&self, scope: &Scope) -> Result<()> {
        self.execute("DELETE FROM waiting WHERE scope = ?1", [scope.digest().as_bytes()]).map(drop)
    }

    /// Drops the writes set aside.
    pub(super) fn forget_set_aside(&self) -> Result<usize> {
        self.execute("DELETE FROM waiting WHERE state = 3", [])
    }

    /// The unacknowledged write, if any.
    pub(super) fn intended(&self) -> Result<Option<Row>> {
        self.first("state = 0", [])
    }

    /// The oldest queued write, of this scope or of any.
    pub(super) fn oldest(&self, scope: Option<&Scope>) -> Result<Option<Row>> {
        match scope {
            Some(scope) => self.first("state IN (1, 2) AND scope = ?1", [scope.digest().as_bytes()]),
            None => self.first("state IN (1, 2)", []),
        }
    }

    fn first(&self, condition: &str, arguments: impl rusqlite::Params) -> Result<Option<Row>> {
        let sql = format!(
            "SELECT id, tenant, kind, scope_id, state, expects, record FROM waiting WHERE {condition} ORDER BY id LIMIT 1"
        );
        let connection = self.lock();
        let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(arguments).map_err(failed)?;
        rows.next().map_err(failed)?.map(read).transpose()
    }

    /// The queued writes in order, at most `limit`.
    pub(super) fn entries(&self, limit: usize) -> Result<Vec<JournalEntry>> {
        let connection = self.lock();
        let mut statement = connection
            .prepare_cached(
                "SELECT id, tenant, kind, scope_id, state, expects, record, why FROM waiting ORDER BY id LIMIT ?1",
            )
            .map_err(failed)?;
        let mut rows = statement.query([i64::try_from(limit).unwrap_or(i64::MAX)]).map_err(failed)?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let why: Option<String> = row.get(7).map_err(failed)?;
            let Row { id, scope, state, record, .. } = read(row)?;
            let keys = record.keys().map(|key| key.as_str().to_owned()).collect();
            entries.push(JournalEntry { id, scope, at: record.at, state, op: record.op(), keys, why });
        }
        Ok(entries)
    }

    /// The journal's counts.
    pub(super) fn counts(&self) -> Result<JournalCounts> {
        let count =
            |row: &rusqlite::Row<'_>, at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or(0));
        self.lock()
            .prepare_cached(
                "SELECT count(*) FILTER (WHERE state < 3), count(DISTINCT scope) FILTER (WHERE state < 3), \
                 coalesce(sum(bytes), 0), count(*) FILTER (WHERE state = 3) FROM waiting",
            )
            .and_then(|mut statement| {
                statement.query_row([], |row| {
                    Ok(JournalCounts {
                        waiting: count(row, 0)?,
                        scopes: count(row, 1)?,
                        bytes: count(row, 2)?,
                        set_aside: count(row, 3)?,
                    })
                })
            })
            .map_err(failed)
    }
}

const SCHEMA: &str = "
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS waiting (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    scope BLOB NOT NULL,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    state INTEGER NOT NULL,
    at INTEGER NOT NULL,
    expects TEXT,
    why TEXT,
    record TEXT NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS written (
    scope BLOB NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS waiting_by_scope ON waiting (scope, state, id);
CREATE INDEX IF NOT EXISTS waiting_by_tenant ON waiting (tenant, state);
PRAGMA application_id = 1835691628;
PRAGMA user_version = 1;
COMMIT;
";

fn read(row: &rusqlite::Row<'_>) -> Result<Row> {
    let text = |at: usize| row.get::<_, String>(at).map_err(failed);
    let scope = Scope::new(
        TenantId::new(text(1)?).map_err(unreadable)?,
        text(2)?.parse().map_err(unreadable)?,
        memory_core::ScopeId::new(text(3)?).map_err(unreadable)?,
    );
    let expects: Option<String> = row.get(5).map_err(failed)?;
    Ok(Row {
        id: row.get(0).map_err(failed)?,
        scope,
        state: JournalState::of(row.get(4).map_err(failed)?)?,
        expects: expects.map(|text| serde_json::from_str(&text)).transpose().map_err(unreadable)?,
        record: serde_json::from_str(&text(6)?).map_err(unreadable)?,
    })
}

fn belongs(connection: &Connection, path: &Path, fingerprint: &str) -> Result<bool> {
    if about(connection, "fingerprint")?.as_deref() == Some(fingerprint) {
        return Ok(true);
    }
    let rows: i64 =
        connection.query_row("SELECT count(*) FROM waiting", [], |row| row.get(0)).map_err(failed)?;
    if rows == 0 {
        return Ok(false);
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!(
            "writes wait in {} that belong to other stores; open them with the URLs as they were until none waits, or move \
             the file away to give them up",
            path.display()
        ),
    )
    .with_retry(Retry::Never))
}

fn about(connection: &Connection, name: &str) -> Result<Option<String>> {
    connection
        .query_row("SELECT value FROM about WHERE name = ?1", [name], |row| row.get(0))
        .optional()
        .map_err(failed)
}

fn set_about(connection: &Connection, name: &str, value: &str) -> Result<()> {
    connection
        .execute("INSERT OR REPLACE INTO about (name, value) VALUES (?1, ?2)", [name, value])
        .map(drop)
        .map_err(failed)
}

/// Creates a missing file, readable only by its owner, because it contains values.
fn make(path: &Path) -> Result<()> {
    private::create(path).map(drop).map_err(|error| {
        Error::unavailable(format!(
            "{} cannot be written: {error}; make its folder writable, or name another",
            path.display()
        ))
        .with_retry(Retry::Never)
        .with_source(error)
    })
}

pub(super) fn failed(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("the journal of the fallback cannot be used: {error}")).with_source(error)
}

/// Adds the file to a journal's error, and what to do if the file is damaged.
pub(super) fn of_file(path: &Path) -> impl Fn(Error) -> Error {
    move |error| {
        let step = match error.kind() {
            _ if error.message().contains(&*path.to_string_lossy()) => return error,
            ErrorKind::Corrupt => {
                "; restore the file, or move it away with its `-wal` and `-shm` to give up the writes that wait in it"
            }
            ErrorKind::Unavailable => "",
            _ => return error,
        };
        Error::new(error.kind(), format!("{}: {}{step}", path.display(), error.message()))
            .with_retry(error.retry())
            .with_source(error)
    }
}

fn damaged(why: &str) -> Error {
    Error::corrupt(format!("the journal of the fallback cannot be read: {why}"))
}

pub(super) fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    damaged("a record is not what was written").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_although_a_child_process_still_has_the_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let journal = Journal::open(&folder.path().join("journal.db"), "pair").expect("opens");
        let turn = journal.try_turn().expect("locks").expect("is free");
        assert!(journal.try_turn().expect("locks").is_none());
        // What a child process has between fork and exec: the same open file.
        let of_child = turn.file.try_clone().expect("clones");
        drop(turn);
        assert!(journal.try_turn().expect("locks").is_some());
        drop(of_child);
    }
}
