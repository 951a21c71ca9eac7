//! A graph as the bytes of a database file, and the lock of the file that they replace.

use std::path::Path;
use std::time::Duration;

use memory_core::sql::SqlValue;
use memory_core::{Error, ErrorKind, Result, Retry};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, OpenFlags, params_from_iter};

use super::path::{beside, ordinary};
use crate::model::Agent;
use crate::rows::Table;
use crate::transfer::graph::{Graph, MAX_BYTES};

/// The original's tables and indexes, so that it opens such a file as its own.
const SCHEMA: &str = "
CREATE TABLE semantic_memories (
    memory_id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    concept TEXT NOT NULL DEFAULT '',
    content TEXT NOT NULL DEFAULT '',
    confidence REAL NOT NULL DEFAULT 0.0,
    source_id TEXT NOT NULL DEFAULT '',
    tags TEXT NOT NULL DEFAULT '[]',
    metadata TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL DEFAULT '',
    entity_name TEXT NOT NULL DEFAULT ''
);
CREATE TABLE episodic_memories (
    memory_id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL,
    content TEXT NOT NULL DEFAULT '',
    source_label TEXT NOT NULL DEFAULT '',
    tags TEXT NOT NULL DEFAULT '[]',
    metadata TEXT NOT NULL DEFAULT '{}',
    created_at TEXT NOT NULL DEFAULT ''
);
CREATE TABLE similar_to_edges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    weight REAL NOT NULL DEFAULT 0.0,
    metadata TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE derives_from_edges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    extraction_method TEXT NOT NULL DEFAULT '',
    confidence REAL NOT NULL DEFAULT 0.0
);
CREATE TABLE supersedes_edges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    temporal_delta TEXT NOT NULL DEFAULT ''
);
CREATE TABLE transitioned_to_edges (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    from_value TEXT NOT NULL DEFAULT '',
    to_value TEXT NOT NULL DEFAULT '',
    turn INTEGER NOT NULL DEFAULT 0,
    transition_type TEXT NOT NULL DEFAULT ''
);
CREATE INDEX idx_semantic_agent ON semantic_memories(agent_id);
CREATE INDEX idx_semantic_concept ON semantic_memories(concept);
CREATE INDEX idx_semantic_created ON semantic_memories(created_at);
CREATE INDEX idx_episodic_agent ON episodic_memories(agent_id);
CREATE INDEX idx_episodic_source ON episodic_memories(source_label);
CREATE INDEX idx_episodic_created ON episodic_memories(created_at);
CREATE INDEX idx_similar_source ON similar_to_edges(source_id);
CREATE INDEX idx_similar_target ON similar_to_edges(target_id);
CREATE INDEX idx_derives_source ON derives_from_edges(source_id);
CREATE INDEX idx_derives_target ON derives_from_edges(target_id);
CREATE INDEX idx_supersedes_source ON supersedes_edges(source_id);
CREATE INDEX idx_supersedes_target ON supersedes_edges(target_id);
CREATE INDEX idx_transitioned_source ON transitioned_to_edges(source_id);
CREATE INDEX idx_transitioned_target ON transitioned_to_edges(target_id);
";

fn failed(error: rusqlite::Error) -> Error {
    Error::internal("a database in memory cannot be filled").with_source(error)
}

/// The graph as the bytes of a SQLite database, built in memory; the caller decides how to write them to a file.
///
/// # Errors
/// `too_large` for more than [`MAX_BYTES`](crate::transfer::MAX_BYTES), which could not be read back.
pub fn write_raw_db(agent: &Agent, graph: &Graph) -> Result<Vec<u8>> {
    memory_sqlite::prepare_process();
    let mut connection = Connection::open_in_memory().map_err(failed)?;
    connection.execute_batch(SCHEMA).map_err(failed)?;
    let transaction = connection.transaction().map_err(failed)?;
    fill(&transaction, agent, graph)?;
    transaction.commit().map_err(failed)?;
    let bytes = connection.serialize("main").map_err(failed)?.to_vec();
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!("a file of a graph has at most {MAX_BYTES} bytes"),
        ));
    }
    Ok(bytes)
}

fn fill(connection: &Connection, agent: &Agent, graph: &Graph) -> Result<()> {
    for table in Table::ALL {
        let owner = if let Table::Edges(_) = table { None } else { Some("agent_id") };
        let columns: Vec<&str> = table.columns().iter().copied().chain(owner).collect();
        let marks = vec!["?"; columns.len()].join(", ");
        let statement = format!("INSERT INTO {} ({}) VALUES ({marks})", table.name(), columns.join(", "));
        let mut insert = connection.prepare(&statement).map_err(failed)?;
        for row in graph.values(table) {
            let owner = owner.map(|_| SqlValue::Text(agent.as_str().to_owned()));
            let values = row?.into_iter().chain(owner).map(value);
            insert.execute(params_from_iter(values)).map_err(failed)?;
        }
    }
    Ok(())
}

/// A value of a row to write.
fn value(value: SqlValue) -> Value {
    match value {
        SqlValue::Text(text) => Value::Text(text),
        SqlValue::Real(number) => Value::Real(number),
        SqlValue::Int(number) => Value::Integer(number),
        _ => Value::Null,
    }
}

/// A database that nobody else can read or write until this is dropped.
#[derive(Debug)]
pub struct Held {
    _connection: Option<Connection>,
}

/// Locks a database that is about to be replaced, if it exists. While this is held, no other handle to the file may be
/// closed in this process, because that would release the system's locks.
///
/// A program that has the file open in rollback mode without a transaction holds no lock and goes unnoticed. It
/// continues reading the replaced database, and SQLite refuses its writes.
///
/// # Errors
/// `conflict` if a program uses the database, or has left its last writes next to it: SQLite would apply those to
/// whatever takes that name next.
pub fn hold_raw_db(path: &Path) -> Result<Held> {
    let in_use = |what: &str| {
        Error::new(
            ErrorKind::Conflict,
            format!(
                "a program uses the database, or left it without closing it ({what}): close that program, or open the database \
                 once, and try again; nothing was written"
            ),
        )
        .with_retry(Retry::Never)
    };
    for ending in ["-wal", "-journal"] {
        let log = beside(path, ending);
        if std::fs::symlink_metadata(&log).is_ok_and(|found| found.len() > 0) {
            return Err(in_use(&format!("{} holds what it wrote last", log.display())));
        }
    }
    if !std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return Ok(Held { _connection: None });
    }
    let path = ordinary(path)?;
    memory_sqlite::prepare_process();
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let locked = Connection::open_with_flags(path, flags).and_then(|connection| {
        connection.busy_timeout(Duration::ZERO)?;
        // This also detects an idle program that has a database with a write-ahead log open.
        connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")?;
        Ok(connection)
    });
    match locked {
        Err(error)
            if matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ) =>
        {
            Err(in_use("it is locked").with_source(error))
        }
        // What cannot be locked is not a database, or is one that nobody can write.
        locked => Ok(Held { _connection: locked.ok() }),
    }
}
