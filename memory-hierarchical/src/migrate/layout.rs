//! Which layout a database has. Decided by its columns, never by its name.

use memory_core::{Error, Result};
use serde::Serialize;

use crate::transfer::{Foreign, columns, is_graph};

/// The layouts of the original program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Layout {
    /// The graph of an agent: six tables.
    Graph,
    /// Sessions and learnings, as the command line keeps them: `memory_entries` with whole numbers of importance.
    Entries,
    /// The same tables as its library keeps them, with importance as a real number.
    EntriesReal,
    /// `memories` with a text index, and times in seconds.
    Memories,
    /// Keys and values of a session: `agent_sessions` and `agent_memories`.
    KeyValue,
}

/// The columns of `memory_entries`.
#[doc(hidden)]
pub const ENTRY_COLUMNS: &[&str] = &[
    "id",
    "session_id",
    "agent_id",
    "memory_type",
    "title",
    "content",
    "content_hash",
    "metadata",
    "tags",
    "importance",
    "created_at",
    "accessed_at",
    "expires_at",
    "parent_id",
];
/// The columns of `sessions`.
#[doc(hidden)]
pub const SESSION_COLUMNS: &[&str] = &["session_id", "created_at", "last_accessed", "metadata"];
pub(super) const SESSION_AGENT_COLUMNS: &[&str] = &["session_id", "agent_id", "first_used", "last_used"];
pub(super) const MEMORIES_COLUMNS: &[&str] = &[
    "id",
    "session_id",
    "agent_id",
    "memory_type",
    "title",
    "content",
    "metadata",
    "created_at",
    "accessed_at",
    "tags",
    "importance",
];
pub(super) const KV_SESSION_COLUMNS: &[&str] =
    &["id", "agent_name", "created_at", "last_accessed", "metadata"];
pub(super) const KV_COLUMNS: &[&str] =
    &["id", "session_id", "memory_key", "memory_value", "memory_type", "created_at", "accessed_count"];

impl Layout {
    /// That of a database.
    ///
    /// # Errors
    /// `corrupt` for an unknown layout.
    pub(super) fn of(foreign: &Foreign) -> Result<Self> {
        if is_graph(foreign)? {
            return Ok(Self::Graph);
        }
        let has = |table: &str, wanted: &[&str]| -> Result<bool> {
            let found = columns(&foreign.connection, table)?.unwrap_or_default();
            Ok(found.len() == wanted.len() && found.iter().all(|(name, _)| wanted.contains(&name.as_str())))
        };
        if has("memory_entries", ENTRY_COLUMNS)?
            && has("sessions", SESSION_COLUMNS)?
            && has("session_agents", SESSION_AGENT_COLUMNS)?
        {
            let declared = columns(&foreign.connection, "memory_entries")?.unwrap_or_default();
            let declared =
                declared.iter().find(|(name, _)| name == "importance").map(|(_, kind)| kind.as_str());
            return match declared {
                Some("INTEGER") => Ok(Self::Entries),
                Some("REAL") => Ok(Self::EntriesReal),
                _ => Err(unknown()),
            };
        }
        if has("memories", MEMORIES_COLUMNS)? {
            return Ok(Self::Memories);
        }
        if has("agent_sessions", KV_SESSION_COLUMNS)? && has("agent_memories", KV_COLUMNS)? {
            return Ok(Self::KeyValue);
        }
        Err(unknown())
    }
}

fn unknown() -> Error {
    Error::corrupt(
        "the database has none of the layouts that are known; nothing was changed. docs/hierarchical.md lists them",
    )
}
