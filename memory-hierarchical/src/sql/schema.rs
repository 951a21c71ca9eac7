//! The tables, in words that both dialects understand but for the placeholders of [`in_dialect`].

use memory_core::host::Session;
use memory_core::{Result, SqlDialect};

/// `{key}` is a text compared by its bytes, `{tail}` makes a table ordered by its key where the dialect has such.
///
/// The keys of nodes and edges begin with the agent, so that a query of one agent reads nothing of another. For edges,
/// the key covers a walk forwards and the index `*_by_target` a walk back. `added` is the revision that brought the row, and
/// `*_by_added` finds what is new to a reader.
const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS graph_agents (agent_id {key} NOT NULL PRIMARY KEY, revision BIGINT NOT NULL, \
     cleared_at BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS semantic_memories (agent_id {key} NOT NULL REFERENCES graph_agents (agent_id), \
     memory_id {key} NOT NULL, added BIGINT NOT NULL, concept TEXT NOT NULL, content TEXT NOT NULL, \
     confidence DOUBLE PRECISION NOT NULL, \
     source_id TEXT NOT NULL, tags TEXT NOT NULL, metadata TEXT NOT NULL, created_at TEXT NOT NULL, \
     entity_name {key} NOT NULL, PRIMARY KEY (agent_id, memory_id))",
    "CREATE INDEX IF NOT EXISTS semantic_by_entity ON semantic_memories (agent_id, entity_name, memory_id)",
    "CREATE TABLE IF NOT EXISTS episodic_memories (agent_id {key} NOT NULL REFERENCES graph_agents (agent_id), \
     memory_id {key} NOT NULL, added BIGINT NOT NULL, content TEXT NOT NULL, source_label TEXT NOT NULL, tags TEXT NOT NULL, \
     metadata TEXT NOT NULL, created_at TEXT NOT NULL, PRIMARY KEY (agent_id, memory_id))",
    "CREATE INDEX IF NOT EXISTS semantic_by_added ON semantic_memories (agent_id, added, memory_id)",
    "CREATE INDEX IF NOT EXISTS episodic_by_added ON episodic_memories (agent_id, added, memory_id)",
    "CREATE TABLE IF NOT EXISTS similar_to_edges (agent_id {key} NOT NULL, source_id {key} NOT NULL, \
     target_id {key} NOT NULL, added BIGINT NOT NULL, weight DOUBLE PRECISION NOT NULL, metadata TEXT NOT NULL, \
     PRIMARY KEY (agent_id, source_id, target_id), \
     FOREIGN KEY (agent_id, source_id) REFERENCES semantic_memories (agent_id, memory_id), \
     FOREIGN KEY (agent_id, target_id) REFERENCES semantic_memories (agent_id, memory_id)){tail}",
    "CREATE INDEX IF NOT EXISTS similar_by_target ON similar_to_edges (agent_id, target_id, source_id)",
    "CREATE INDEX IF NOT EXISTS similar_by_added ON similar_to_edges (agent_id, added, source_id, target_id)",
    "CREATE TABLE IF NOT EXISTS derives_from_edges (agent_id {key} NOT NULL, source_id {key} NOT NULL, \
     target_id {key} NOT NULL, added BIGINT NOT NULL, extraction_method TEXT NOT NULL, confidence DOUBLE PRECISION NOT NULL, \
     PRIMARY KEY (agent_id, source_id, target_id), \
     FOREIGN KEY (agent_id, source_id) REFERENCES semantic_memories (agent_id, memory_id), \
     FOREIGN KEY (agent_id, target_id) REFERENCES episodic_memories (agent_id, memory_id)){tail}",
    "CREATE INDEX IF NOT EXISTS derives_by_target ON derives_from_edges (agent_id, target_id, source_id)",
    "CREATE INDEX IF NOT EXISTS derives_by_added ON derives_from_edges (agent_id, added, source_id, target_id)",
    "CREATE TABLE IF NOT EXISTS supersedes_edges (agent_id {key} NOT NULL, source_id {key} NOT NULL, \
     target_id {key} NOT NULL, added BIGINT NOT NULL, reason TEXT NOT NULL, temporal_delta TEXT NOT NULL, \
     PRIMARY KEY (agent_id, source_id, target_id), \
     FOREIGN KEY (agent_id, source_id) REFERENCES semantic_memories (agent_id, memory_id), \
     FOREIGN KEY (agent_id, target_id) REFERENCES semantic_memories (agent_id, memory_id)){tail}",
    "CREATE INDEX IF NOT EXISTS supersedes_by_target ON supersedes_edges (agent_id, target_id, source_id)",
    "CREATE INDEX IF NOT EXISTS supersedes_by_added ON supersedes_edges (agent_id, added, source_id, target_id)",
    "CREATE TABLE IF NOT EXISTS transitioned_to_edges (agent_id {key} NOT NULL, source_id {key} NOT NULL, \
     target_id {key} NOT NULL, added BIGINT NOT NULL, from_value TEXT NOT NULL, to_value TEXT NOT NULL, turn BIGINT NOT NULL, \
     transition_type TEXT NOT NULL, PRIMARY KEY (agent_id, source_id, target_id), \
     FOREIGN KEY (agent_id, source_id) REFERENCES semantic_memories (agent_id, memory_id), \
     FOREIGN KEY (agent_id, target_id) REFERENCES semantic_memories (agent_id, memory_id)){tail}",
    "CREATE INDEX IF NOT EXISTS transitioned_by_target ON transitioned_to_edges (agent_id, target_id, source_id)",
    "CREATE INDEX IF NOT EXISTS transitioned_by_added ON transitioned_to_edges (agent_id, added, source_id, target_id)",
];

/// Creates what is missing.
pub(super) async fn create(tx: &Session<'_>, dialect: SqlDialect) -> Result<()> {
    for statement in TABLES {
        tx.exec(&in_dialect(statement, dialect), &[]).await?;
    }
    Ok(())
}

fn in_dialect(statement: &str, dialect: SqlDialect) -> String {
    let (key, tail) = match dialect {
        SqlDialect::Postgres => ("TEXT COLLATE \"C\"", ""),
        _ => ("TEXT", " WITHOUT ROWID"),
    };
    statement.replace("{key}", key).replace("{tail}", tail)
}
