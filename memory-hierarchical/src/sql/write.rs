//! A transaction on one agent's graph.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use memory_core::Result;
use memory_core::host::{Session, int, text};
use memory_core::sql::SqlValue;

use super::insert::{MAX_IDS, insert, marks};
use super::rows::{
    EPISODIC, SEMANTIC, Table, edge_table, edge_values, episodic_values, semantic_values, target_table,
};
use crate::limits::{check_entity, check_id, missing_end};
use crate::model::{Agent, Edge, EdgeKind, Episodic, Semantic};
use crate::store::{GraphWrite, Stored};

#[derive(Debug)]
pub(super) struct SqlWrite<'a> {
    tx: Session<'a>,
    agent: Agent,
    /// What the graph's revision is once this is committed.
    revision: u64,
}

impl<'a> SqlWrite<'a> {
    /// Takes over a transaction that has just begun.
    pub(super) async fn of(tx: Session<'a>, agent: &Agent) -> Result<Self> {
        let statement = "INSERT INTO graph_agents (agent_id, revision, cleared_at) VALUES (?, 1, 0) \
             ON CONFLICT (agent_id) DO UPDATE SET revision = graph_agents.revision + 1 RETURNING revision";
        let revision = match tx.exec_returning(statement, &[text(agent.as_str())]).await {
            Ok(rows) => rows.into_iter().next().map_or(Ok(1), |mut row| row.count()),
            Err(error) => Err(error),
        };
        match revision {
            Ok(revision) => Ok(Self { tx, agent: agent.clone(), revision }),
            Err(error) => tx.end(Err(error)).await,
        }
    }

    /// Which of these ids the table has.
    async fn held(&self, table: Table, ids: &BTreeSet<&str>) -> Result<HashSet<String>> {
        let mut held = HashSet::with_capacity(ids.len());
        let ids: Vec<&str> = ids.iter().copied().collect();
        for some in ids.chunks(MAX_IDS) {
            let query = format!(
                "SELECT memory_id FROM {} WHERE agent_id = ? AND memory_id IN ({})",
                table.name,
                marks(some.len())
            );
            let mut args = vec![text(self.agent.as_str())];
            args.extend(some.iter().map(|id| text(*id)));
            for mut row in self.tx.query(&query, &args).await? {
                held.insert(row.text()?);
            }
        }
        Ok(held)
    }

    /// Stores nodes whose id is free among both kinds.
    async fn add<T: Sync>(
        &self,
        (table, other): (Table, Table),
        nodes: &[T],
        id: impl Fn(&T) -> &str + Send,
        values: impl Fn(&T) -> Result<Vec<SqlValue>> + Send,
    ) -> Result<Stored> {
        let mut ids = BTreeSet::new();
        for node in nodes {
            let id = id(node);
            check_id(id)?;
            ids.insert(id);
        }
        let taken = self.held(other, &ids).await?;
        let mut free = Vec::with_capacity(nodes.len());
        for node in nodes {
            if !taken.contains(id(node)) {
                free.push(values(node));
            }
        }
        let stored = insert(&self.tx, table, (&self.agent, self.revision), free.into_iter()).await?;
        Ok(counted(nodes.len(), stored))
    }

    /// Refuses edges whose ends the agent does not have.
    async fn check_ends(&self, kind: EdgeKind, edges: &[&Edge]) -> Result<()> {
        let mut sources: BTreeSet<&str> = edges.iter().map(|edge| edge.ends().0).collect();
        let targets: BTreeSet<&str> = edges.iter().map(|edge| edge.ends().1).collect();
        if target_table(kind).name == SEMANTIC.name {
            sources.extend(&targets);
        } else {
            let held = self.held(EPISODIC, &targets).await?;
            all_held(&targets, &held, "episodic")?;
        }
        let held = self.held(SEMANTIC, &sources).await?;
        all_held(&sources, &held, "semantic")
    }
}

fn counted(given: usize, stored: u64) -> Stored {
    Stored { stored, skipped: (given as u64).saturating_sub(stored) }
}

fn all_held(ids: &BTreeSet<&str>, held: &HashSet<String>, kind: &str) -> Result<()> {
    match ids.iter().find(|id| !held.contains(**id)) {
        None => Ok(()),
        Some(id) => Err(missing_end(id, kind)),
    }
}

#[async_trait]
impl GraphWrite for SqlWrite<'_> {
    async fn clear(&mut self) -> Result<()> {
        let edges = EdgeKind::ALL.map(|kind| edge_table(kind).name);
        for name in edges.into_iter().chain([SEMANTIC.name, EPISODIC.name]) {
            self.tx
                .exec(&format!("DELETE FROM {name} WHERE agent_id = ?"), &[text(self.agent.as_str())])
                .await?;
        }
        let statement = "UPDATE graph_agents SET cleared_at = ? WHERE agent_id = ?";
        self.tx.exec(statement, &[int(self.revision), text(self.agent.as_str())]).await.map(drop)
    }

    async fn add_semantic(&mut self, nodes: &[Semantic]) -> Result<Stored> {
        for node in nodes {
            check_entity(&node.entity_name)?;
        }
        self.add((SEMANTIC, EPISODIC), nodes, |node| &node.memory_id, semantic_values).await
    }

    async fn add_episodic(&mut self, nodes: &[Episodic]) -> Result<Stored> {
        self.add((EPISODIC, SEMANTIC), nodes, |node| &node.memory_id, episodic_values).await
    }

    async fn add_edges(&mut self, edges: &[Edge]) -> Result<Stored> {
        let mut stored = 0;
        for kind in EdgeKind::ALL {
            let of_kind: Vec<&Edge> = edges.iter().filter(|edge| edge.kind() == kind).collect();
            for some in of_kind.chunks(MAX_IDS) {
                let rows: Vec<_> = some.iter().map(|edge| edge_values(edge)).collect();
                let table = edge_table(kind);
                match insert(&self.tx, table, (&self.agent, self.revision), rows.into_iter()).await {
                    Ok(some) => stored += some,
                    Err(error) => {
                        // A foreign key does not say which of many rows broke it.
                        self.check_ends(kind, some).await?;
                        return Err(error);
                    }
                }
            }
        }
        Ok(counted(edges.len(), stored))
    }

    async fn taken(&mut self, ids: &[String]) -> Result<Vec<String>> {
        let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let mut taken = self.held(SEMANTIC, &ids).await?;
        taken.extend(self.held(EPISODIC, &ids).await?);
        let mut taken: Vec<String> = taken.into_iter().collect();
        taken.sort_unstable();
        Ok(taken)
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.tx.keep().await
    }

    async fn rollback(self: Box<Self>) -> Result<()> {
        self.tx.undo().await
    }
}
