//! The tables of flat memories. `expires_ms` is the instant of `expires_at`, by which stores compare.
//!
//! The reference calls the table of entries `memory_entries`, which in a SQL database of this runtime is the name of a
//! scope's key/value entries.

use memory_core::SqlDialect;

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS sessions (session_id {key} NOT NULL PRIMARY KEY, created_at TEXT NOT NULL, \
     last_accessed {key} NOT NULL, metadata TEXT NOT NULL DEFAULT '{}')",
    "CREATE TABLE IF NOT EXISTS session_agents (session_id {key} NOT NULL REFERENCES sessions (session_id), \
     agent_id {key} NOT NULL, first_used TEXT NOT NULL, last_used TEXT NOT NULL, PRIMARY KEY (session_id, agent_id))",
    "CREATE TABLE IF NOT EXISTS session_entries (id {key} NOT NULL PRIMARY KEY, \
     session_id {key} NOT NULL REFERENCES sessions (session_id), agent_id {key} NOT NULL, memory_type {key} NOT NULL, \
     title TEXT NOT NULL, content TEXT NOT NULL, content_hash {key}, metadata TEXT NOT NULL DEFAULT '{}', tags TEXT, \
     importance BIGINT CHECK (importance BETWEEN 0 AND 10), created_at {key} NOT NULL, accessed_at TEXT NOT NULL, \
     expires_at TEXT, expires_ms BIGINT, parent_id TEXT, UNIQUE (session_id, agent_id, content_hash))",
    "CREATE INDEX IF NOT EXISTS entries_by_agent ON session_entries (agent_id, created_at, id)",
    "CREATE INDEX IF NOT EXISTS entries_by_session ON session_entries (session_id, created_at, id)",
    "CREATE INDEX IF NOT EXISTS entries_by_expiry ON session_entries (expires_ms)",
];

pub(super) fn statements(dialect: SqlDialect) -> Vec<String> {
    let key = match dialect {
        SqlDialect::Postgres => "TEXT COLLATE \"C\"",
        _ => "TEXT",
    };
    TABLES.iter().map(|statement| statement.replace("{key}", key)).collect()
}
