//! A transaction on one agent's graph.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use memory_core::Result;
use memory_core::host::{Session, int, text};

use super::rows::{MAX_IDS, insert, marks};
use crate::model::Agent;
use crate::rows::{Table, Values};
use crate::store::GraphWrite;

#[derive(Debug)]
pub(super) struct SqlWrite<'a> {
    tx: Session<'a>,
    agent: Agent,
    /// The graph's revision once this is committed.
    revision: u64,
    /// Whether there is anything to commit: a revision without a trace could not be told from another graph's.
    is_changed: bool,
}

impl<'a> SqlWrite<'a> {
    /// Takes over a transaction that has just begun. The revision grows by this step.
    pub(super) async fn of(tx: Session<'a>, agent: &Agent, step: u64) -> Result<Self> {
        let statement = "INSERT INTO graph_agents (agent_id, revision, cleared_at) VALUES (?, ?, 0) \
             ON CONFLICT (agent_id) DO UPDATE SET revision = graph_agents.revision + excluded.revision \
             RETURNING revision";
        let revision = match tx.exec_returning(statement, &[text(agent.as_str()), int(step)]).await {
            Ok(rows) => rows.into_iter().next().map_or(Ok(step), |mut row| row.count()),
            Err(error) => Err(error),
        };
        match revision {
            // A new graph is a change, even if nothing is in it.
            Ok(revision) => Ok(Self { tx, agent: agent.clone(), revision, is_changed: revision == step }),
            Err(error) => tx.end(Err(error)).await,
        }
    }
}

#[async_trait]
impl GraphWrite for SqlWrite<'_> {
    async fn clear(&mut self) -> Result<()> {
        // Edges before the memories they lead to.
        for table in Table::ALL.into_iter().rev() {
            let statement = format!("DELETE FROM {} WHERE agent_id = ?", table.name());
            self.tx.exec(&statement, &[text(self.agent.as_str())]).await?;
        }
        self.is_changed = true;
        let statement = "UPDATE graph_agents SET cleared_at = ? WHERE agent_id = ?";
        self.tx.exec(statement, &[int(self.revision), text(self.agent.as_str())]).await.map(drop)
    }

    async fn held(&mut self, table: Table, ids: &BTreeSet<&str>) -> Result<HashSet<String>> {
        let mut held = HashSet::with_capacity(ids.len());
        let ids: Vec<&str> = ids.iter().copied().collect();
        for some in ids.chunks(MAX_IDS) {
            let (name, marks) = (table.name(), marks(some.len()));
            let query = format!("SELECT memory_id FROM {name} WHERE agent_id = ? AND memory_id IN ({marks})");
            let mut args = vec![text(self.agent.as_str())];
            args.extend(some.iter().map(|id| text(*id)));
            for mut row in self.tx.query(&query, &args).await? {
                held.insert(row.text()?);
            }
        }
        Ok(held)
    }

    async fn insert(&mut self, table: Table, rows: &[Values]) -> Result<u64> {
        let stored = insert(&self.tx, table, (&self.agent, self.revision), rows).await;
        if let (Err(_), Table::Edges(kind)) = (&stored, table) {
            // A foreign key does not say which of many rows broke it.
            self.check_ends(kind, rows).await?;
        }
        self.is_changed |= !matches!(stored, Ok(0));
        stored
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        if self.is_changed { self.tx.keep().await } else { self.tx.undo().await }
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.tx.undo().await
    }
}
