//! A graph as the bytes of a database file.

use memory_core::sql::SqlValue;
use memory_core::{Error, ErrorKind, Result};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::model::Agent;
use crate::rows::Table;
use crate::transfer::graph::{Graph, MAX_BYTES};

/// The tables and indexes of the original, which opens such a file as its own.
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

/// The graph as the bytes of an SQLite database, which is made in memory: whoever writes them to a file decides how.
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
