//! Storing entries.

use std::fmt::Write as _;

use memory_core::host::{Session, int, text};
use memory_core::sql::SqlValue;
use memory_core::{Error, Result};
use sha2::{Digest as _, Sha256};

use super::entry::NewEntry;
use super::store::Sessions;
use crate::limits::check_id;
use crate::model::Agent;
use crate::space::begin;

/// The type that must not be stored twice.
pub(crate) const LEARNING: &str = "learning";
/// Removes an expired entry that would otherwise block an equal one.
pub(crate) const EXPIRED: &str = "DELETE FROM session_entries WHERE session_id = ? AND agent_id = ? AND content_hash = ? \
     AND expires_ms <= ?";

/// Identifies equal learnings.
pub(crate) fn content_hash(content: &str) -> String {
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(content.as_bytes()) {
        // Writing to a string does not fail.
        let _ = write!(hash, "{byte:02x}");
    }
    hash
}

impl Sessions {
    /// Stores what an agent learned in a session, unless the agent has a live learning with the same content there:
    /// then `None`. Returns its id.
    ///
    /// # Errors
    /// `invalid_argument` and `too_large` for a field out of range, or an expiry that is not a time; the store's
    /// errors.
    pub async fn store_session_learning(
        &self,
        session_id: &str,
        agent: &Agent,
        entry: &NewEntry,
    ) -> Result<Option<String>> {
        self.keep(session_id, agent, LEARNING, entry, text(content_hash(&entry.content))).await
    }

    /// Stores an entry of another type, such as `conversation` or `context`; these may repeat. Returns its id.
    ///
    /// # Errors
    /// As [`store_session_learning`](Self::store_session_learning); `invalid_argument` for the type `learning`.
    pub async fn store(
        &self,
        session_id: &str,
        agent: &Agent,
        memory_type: &str,
        entry: &NewEntry,
    ) -> Result<String> {
        if memory_type.is_empty() || memory_type.len() > 64 || memory_type.contains(char::is_control) {
            return Err(Error::invalid(
                "the type of an entry must be 1 to 64 bytes without control characters",
            ));
        }
        if memory_type == LEARNING {
            return Err(Error::invalid(
                "learnings are stored by store_session_learning, which keeps them unique",
            ));
        }
        let id = self.keep(session_id, agent, memory_type, entry, SqlValue::Null).await?;
        id.ok_or_else(|| Error::internal("an id was generated twice"))
    }

    async fn keep(
        &self,
        session_id: &str,
        agent: &Agent,
        memory_type: &str,
        entry: &NewEntry,
        hash: SqlValue,
    ) -> Result<Option<String>> {
        check_id(session_id)?;
        if session_id.contains(char::is_control) {
            return Err(Error::invalid("the id of a session contains a control character; choose another"));
        }
        let own = entry.values()?;
        let now = self.clock.now();
        let id = format!("mem-{:032x}", self.ids.fresh());
        let (session, agent) = (text(session_id), text(agent.as_str()));
        let mut args = vec![text(&id), session.clone(), agent.clone(), text(memory_type), hash.clone()];
        args.extend([text(now.to_string()), text(now.to_string())]);
        args.extend(own);
        let tx = begin(&self.tables).await?;
        let kept = async {
            touch(&tx, &session, &agent, &text(now.to_string())).await?;
            tx.exec(EXPIRED, &[session, agent, hash, int(now.as_millis())]).await?;
            let insert = "INSERT INTO session_entries (id, session_id, agent_id, memory_type, content_hash, created_at, \
                 accessed_at, title, content, metadata, tags, importance, expires_at, expires_ms, parent_id) \
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
            tx.exec(insert, &args).await
        }
        .await;
        Ok((tx.end(kept).await? > 0).then_some(id))
    }
}

/// Notes that an agent uses a session.
async fn touch(tx: &Session<'_>, session: &SqlValue, agent: &SqlValue, now: &SqlValue) -> Result<()> {
    let statement = "INSERT INTO sessions (session_id, created_at, last_accessed, metadata) VALUES (?, ?, ?, '{}') \
         ON CONFLICT (session_id) DO UPDATE SET last_accessed = excluded.last_accessed";
    tx.exec(statement, &[session.clone(), now.clone(), now.clone()]).await?;
    let statement = "INSERT INTO session_agents (session_id, agent_id, first_used, last_used) VALUES (?, ?, ?, ?) \
         ON CONFLICT (session_id, agent_id) DO UPDATE SET last_used = excluded.last_used";
    tx.exec(statement, &[session.clone(), agent.clone(), now.clone(), now.clone()]).await?;
    Ok(())
}
