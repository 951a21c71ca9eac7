//! [`Sessions`]: what is read and removed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use memory_core::host::{HostTables, int, text};
use memory_core::{Clock, Error, IdGen, Provider, Result, TenantId};

use super::entry::{COLUMNS, Entry, EntryQuery, SessionSummary};
use super::schema;
use crate::model::Agent;
use crate::space::{SPACE, begin, create};

/// Most entries of one answer.
const MAX_ENTRIES: usize = 10_000;
/// Which entries are live: the argument is the time.
pub(super) const LIVE: &str = "(expires_ms IS NULL OR expires_ms > ?)";

/// The flat memories of a tenant. An expired entry is in no answer and no count, and does not block a new one.
pub struct Sessions {
    pub(crate) tables: HostTables,
    pub(crate) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdGen>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Sessions {
    /// Opens the sessions of a tenant, and creates their tables if they are missing.
    ///
    /// # Errors
    /// `capability_unsupported` for a provider without [`host_tables`](memory_core::Capabilities::host_tables); the
    /// store's errors.
    pub async fn open(
        provider: Arc<dyn Provider>,
        tenant: &TenantId,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Result<Self> {
        let tables = HostTables::new(provider, tenant, SPACE)?;
        create(&tables, &schema::statements(tables.dialect())).await?;
        Ok(Self { tables, clock, ids })
    }

    /// Whether a tenant has sessions; does not create any.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn are_made(provider: Arc<dyn Provider>, tenant: &TenantId) -> Result<bool> {
        HostTables::new(provider, tenant, SPACE)?.has("session_entries").await
    }

    /// Live entries, the newest first, then by id.
    ///
    /// # Errors
    /// `invalid_argument`, `too_large` for a limit out of range; the store's errors.
    pub async fn entries(&self, query: &EntryQuery) -> Result<Vec<Entry>> {
        if query.limit == 0 {
            return Err(Error::invalid("a page of no entries; ask for 1 to 10,000"));
        }
        if query.limit > MAX_ENTRIES {
            return Err(Error::too_large("page", query.limit, MAX_ENTRIES, "entries"));
        }
        let (mut clause, mut args) = (LIVE.to_owned(), vec![int(self.clock.now().as_millis())]);
        let agent = query.agent.as_ref().map(|agent| agent.as_str().to_owned());
        for (column, value) in [
            ("session_id", query.session_id.clone()),
            ("agent_id", agent),
            ("memory_type", query.memory_type.clone()),
        ] {
            if let Some(value) = value {
                clause.push_str(&format!(" AND {column} = ?"));
                args.push(text(value));
            }
        }
        args.push(int(query.limit));
        let query = format!(
            "SELECT {COLUMNS} FROM session_entries WHERE {clause} ORDER BY created_at DESC, id LIMIT ?"
        );
        let rows = self.tables.plain().query(&query, &args).await?;
        rows.into_iter().map(|mut row| Entry::read(&mut row)).collect()
    }

    /// The sessions, most recently used first, then by id.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self) -> Result<Vec<SessionSummary>> {
        let plain = self.tables.plain();
        let mut agents: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let query = format!(
            "SELECT session_id, agent_id FROM session_agents UNION SELECT session_id, agent_id FROM session_entries \
             WHERE {LIVE} ORDER BY session_id, agent_id"
        );
        for mut row in plain.query(&query, &[int(self.clock.now().as_millis())]).await? {
            agents.entry(row.text()?).or_default().push(row.text()?);
        }
        let query = format!(
            "SELECT session_id, created_at, last_accessed, (SELECT count(*) FROM session_entries AS e \
             WHERE e.session_id = s.session_id AND {LIVE}) FROM sessions AS s ORDER BY last_accessed DESC, session_id"
        );
        let rows = plain.query(&query, &[int(self.clock.now().as_millis())]).await?;
        let summary = |mut row: memory_core::host::Cells| {
            let session_id = row.text()?;
            Ok(SessionSummary {
                created_at: row.text()?,
                last_accessed: row.text()?,
                agents: agents.remove(&session_id).unwrap_or_default(),
                entries: row.count()?,
                session_id,
            })
        };
        rows.into_iter().map(summary).collect()
    }

    /// How many live entries each agent has, by name.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn agent_counts(&self) -> Result<Vec<(Agent, u64)>> {
        let query = format!(
            "SELECT agent_id, count(*) FROM session_entries WHERE {LIVE} GROUP BY agent_id ORDER BY agent_id"
        );
        let rows = self.tables.plain().query(&query, &[int(self.clock.now().as_millis())]).await?;
        rows.into_iter().map(|mut row| Ok((Agent::new(row.text()?)?, row.count()?))).collect()
    }

    /// Removes sessions with their entries. Returns how many there were.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn remove(&self, session_ids: &[String]) -> Result<u64> {
        let tx = begin(&self.tables).await?;
        let removed = async {
            let mut removed = 0;
            for id in session_ids {
                let id = [text(id)];
                tx.exec("DELETE FROM session_entries WHERE session_id = ?", &id).await?;
                tx.exec("DELETE FROM session_agents WHERE session_id = ?", &id).await?;
                removed += tx.exec("DELETE FROM sessions WHERE session_id = ?", &id).await?;
            }
            Ok(removed)
        }
        .await;
        tx.end(removed).await
    }

    /// Removes the entries that have expired, to make room; they are in no answer either way. Returns how many.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn purge(&self) -> Result<u64> {
        let now = [int(self.clock.now().as_millis())];
        self.tables.plain().exec("DELETE FROM session_entries WHERE expires_ms <= ?", &now).await
    }
}
