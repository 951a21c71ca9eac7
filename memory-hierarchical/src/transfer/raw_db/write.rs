//! A graph as the bytes of a database file.

use memory_core::{Error, ErrorKind, Result};
use rusqlite::{Connection, params};
use serde::Serialize;

use crate::model::Agent;
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

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::internal("metadata is no JSON").with_source(error))
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
    let prepare = |sql: &str| connection.prepare(sql).map_err(failed);
    let agent = agent.as_str();
    let mut insert = prepare("INSERT INTO semantic_memories VALUES (?,?,?,?,?,?,?,?,?,?)")?;
    for node in &graph.semantic {
        let (tags, metadata) = (json(&node.tags)?, json(&node.metadata)?);
        insert
            .execute(params![
                node.memory_id,
                agent,
                node.concept,
                node.content,
                node.confidence,
                node.source_id,
                tags,
                metadata,
                node.created_at,
                node.entity_name
            ])
            .map_err(failed)?;
    }
    let mut insert = prepare("INSERT INTO episodic_memories VALUES (?,?,?,?,?,?,?)")?;
    for node in &graph.episodic {
        let (tags, metadata) = (json(&node.tags)?, json(&node.metadata)?);
        insert
            .execute(params![
                node.memory_id,
                agent,
                node.content,
                node.source_label,
                tags,
                metadata,
                node.created_at
            ])
            .map_err(failed)?;
    }
    let mut insert =
        prepare("INSERT INTO similar_to_edges (source_id, target_id, weight, metadata) VALUES (?,?,?,?)")?;
    for edge in &graph.similar_to {
        let metadata = json(&edge.metadata)?;
        insert.execute(params![edge.source_id, edge.target_id, edge.weight, metadata]).map_err(failed)?;
    }
    let mut insert = prepare(
        "INSERT INTO derives_from_edges (source_id, target_id, extraction_method, confidence) VALUES (?,?,?,?)",
    )?;
    for edge in &graph.derives_from {
        insert
            .execute(params![edge.source_id, edge.target_id, edge.extraction_method, edge.confidence])
            .map_err(failed)?;
    }
    let mut insert = prepare(
        "INSERT INTO supersedes_edges (source_id, target_id, reason, temporal_delta) VALUES (?,?,?,?)",
    )?;
    for edge in &graph.supersedes {
        insert
            .execute(params![edge.source_id, edge.target_id, edge.reason, edge.temporal_delta])
            .map_err(failed)?;
    }
    let mut insert = prepare(
        "INSERT INTO transitioned_to_edges (source_id, target_id, from_value, to_value, turn, transition_type) \
         VALUES (?,?,?,?,?,?)",
    )?;
    for edge in &graph.transitioned_to {
        insert
            .execute(params![
                edge.source_id,
                edge.target_id,
                edge.from_value,
                edge.to_value,
                edge.turn,
                edge.transition_type
            ])
            .map_err(failed)?;
    }
    Ok(())
}
