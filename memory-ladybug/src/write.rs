//! A transaction on one agent's graph.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lbug::Value;
use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::limits::{check_entity, check_id, missing_end};
use memory_hierarchical::{Agent, Edge, EdgeKind, Episodic, GraphWrite, Semantic, Stored};
use tokio::sync::OwnedMutexGuard;

use crate::cypher::{AGENTS, EPISODIC, NodeTable, SEMANTIC, edge_table};
use crate::engine::{Engine, Side};
use crate::error::lost;
use crate::rows::{Cells, edge_values, episodic_values, int, row, row_type, semantic_values, text, texts};

/// How long a writer waits for the others.
const WAIT: Duration = Duration::from_secs(600);
/// Rows of a statement.
const BATCH: usize = 2_000;
/// A statement takes no more rows once their texts have this many bytes.
const BATCH_BYTES: usize = 8 << 20;

pub(crate) struct LadybugWrite {
    engine: Arc<Engine>,
    agent: Agent,
    /// What the graph's revision is once this is committed.
    revision: u64,
    /// The engine ends a transaction at the first statement that fails; what came after would be kept at once.
    is_open: bool,
    /// Released after what `drop` queues is queued.
    _turn: OwnedMutexGuard<()>,
}

impl LadybugWrite {
    /// Waits for the other writers and begins.
    pub(crate) async fn begin(engine: Arc<Engine>, agent: &Agent) -> Result<Self> {
        let turn = tokio::time::timeout(WAIT, Arc::clone(&engine.turn).lock_owned()).await;
        let turn = turn.map_err(|_| {
            Error::new(ErrorKind::Timeout, "other writers of the graph take too long; try again later")
        })?;
        let mut write = Self { engine, agent: agent.clone(), revision: 0, is_open: true, _turn: turn };
        write.revision = write
            .run(|side, agent, _| {
                side.run("BEGIN TRANSACTION", Vec::new())?;
                let statement = format!(
                    "MERGE (g:{AGENTS} {{agent_id: $agent}}) ON CREATE SET g.revision = 1, g.cleared_at = 0 \
                     ON MATCH SET g.revision = g.revision + 1 RETURN g.revision"
                );
                let revision = side.rows(&statement, vec![("agent", text(agent))], Cells::count)?;
                Ok(revision.first().copied().unwrap_or(1))
            })
            .await?;
        Ok(write)
    }

    /// Runs statements of the transaction, with the agent and the revision.
    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Side<'_>, &str, u64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if !self.is_open {
            return Err(lost());
        }
        // Until the answer is here: whoever stops waiting for it leaves nothing that could be committed.
        self.is_open = false;
        let (agent, revision) = (self.agent.clone(), self.revision);
        let done = self.engine.run(move |all| work(&all.writer, agent.as_str(), revision)).await;
        self.is_open = done.is_ok();
        done
    }

    /// Which of these ids the table has.
    async fn held(&mut self, table: NodeTable, ids: &BTreeSet<&str>) -> Result<HashSet<String>> {
        let ids = texts(ids.iter().copied());
        let work = move |side: &Side<'_>, agent: &str, _| {
            side.rows(&table.held(), vec![("agent", text(agent)), ("ids", ids)], Cells::text)
        };
        Ok(self.run(work).await?.into_iter().collect())
    }

    /// Stores nodes whose id is free among both kinds.
    async fn add(&mut self, table: NodeTable, nodes: Vec<(&str, Vec<Value>, usize)>) -> Result<Stored> {
        let ids: BTreeSet<&str> = nodes.iter().map(|(id, ..)| *id).collect();
        let mut taken = self.held(SEMANTIC, &ids).await?;
        taken.extend(self.held(EPISODIC, &ids).await?);
        let given = nodes.len();
        let (mut batches, mut batch, mut bytes, mut stored) = (Vec::new(), Vec::new(), 0, 0_usize);
        for (id, values, size) in nodes {
            if taken.insert(id.to_owned()) {
                batch.push(row(table.columns, values));
                stored += 1;
                bytes += size;
                if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                    batches.push(std::mem::take(&mut batch));
                    bytes = 0;
                }
            }
        }
        batches.push(batch);
        for batch in batches.into_iter().filter(|batch| !batch.is_empty()) {
            let rows = Value::List(row_type(table.columns, |column| column == "confidence"), batch);
            self.run(move |side, agent, revision| {
                let parameters = vec![("rows", rows), ("agent", text(agent)), ("added", int(revision))];
                side.run(&table.create(), parameters)
            })
            .await?;
        }
        Ok(counted(given, stored))
    }

    /// Refuses edges whose ends the agent does not have.
    async fn check_ends(&mut self, kind: EdgeKind, edges: &[&Edge]) -> Result<()> {
        let mut semantic: BTreeSet<&str> = edges.iter().map(|edge| edge.ends().0).collect();
        let targets: BTreeSet<&str> = edges.iter().map(|edge| edge.ends().1).collect();
        if edge_table(kind).target == SEMANTIC {
            semantic.extend(&targets);
        } else {
            let held = self.held(EPISODIC, &targets).await?;
            all_held(&targets, &held, "episodic")?;
        }
        let held = self.held(SEMANTIC, &semantic).await?;
        all_held(&semantic, &held, "semantic")
    }

    async fn add_of_kind(&mut self, kind: EdgeKind, edges: &[&Edge]) -> Result<usize> {
        self.check_ends(kind, edges).await?;
        let table = edge_table(kind);
        let ends = ["source", "target"];
        let pairs = edges.iter().map(|edge| {
            let (source, target) = edge.ends();
            row(&ends, vec![text(source), text(target)])
        });
        let pairs = Value::List(row_type(&ends, |_| false), pairs.collect());
        let linked = move |side: &Side<'_>, agent: &str, _| {
            let parameters = vec![("pairs", pairs), ("agent", text(agent))];
            side.rows(&table.linked(), parameters, |row| Ok((row.text()?, row.text()?)))
        };
        let mut linked: HashSet<(String, String)> = self.run(linked).await?.into_iter().collect();
        let mut fresh = Vec::new();
        for edge in edges {
            let (source, target) = edge.ends();
            if linked.insert((source.to_owned(), target.to_owned())) {
                let mut parameters = vec![("source", text(source)), ("target", text(target))];
                parameters.extend(table.columns.iter().copied().zip(edge_values(edge)?));
                fresh.push(parameters);
            }
        }
        let stored = fresh.len();
        self.run(move |side, agent, revision| {
            let all = fresh.into_iter().map(|mut parameters| {
                parameters.extend([("agent", text(agent)), ("added", int(revision))]);
                parameters
            });
            side.each(&table.create(), all)
        })
        .await?;
        Ok(stored)
    }
}

/// An upper bound of a row's texts.
fn bytes_of(values: &[Value]) -> usize {
    values.iter().map(|value| if let Value::String(text) = value { text.len() } else { 8 }).sum()
}

fn counted(given: usize, stored: usize) -> Stored {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Stored { stored: count(stored), skipped: count(given.saturating_sub(stored)) }
}

fn all_held(ids: &BTreeSet<&str>, held: &HashSet<String>, kind: &str) -> Result<()> {
    match ids.iter().find(|id| !held.contains(**id)) {
        None => Ok(()),
        Some(id) => Err(missing_end(id, kind)),
    }
}

#[async_trait]
impl GraphWrite for LadybugWrite {
    async fn clear(&mut self) -> Result<()> {
        self.run(|side, agent, revision| {
            for table in [SEMANTIC, EPISODIC] {
                side.run(&table.delete(), vec![("agent", text(agent))])?;
            }
            let statement = format!("MATCH (g:{AGENTS} {{agent_id: $agent}}) SET g.cleared_at = $revision");
            side.run(&statement, vec![("agent", text(agent)), ("revision", int(revision))])
        })
        .await
    }

    async fn add_semantic(&mut self, nodes: &[Semantic]) -> Result<Stored> {
        let mut rows = Vec::with_capacity(nodes.len());
        for node in nodes {
            check_id(&node.memory_id)?;
            check_entity(&node.entity_name)?;
            let values = semantic_values(node)?;
            let bytes = bytes_of(&values);
            rows.push((node.memory_id.as_str(), values, bytes));
        }
        self.add(SEMANTIC, rows).await
    }

    async fn add_episodic(&mut self, nodes: &[Episodic]) -> Result<Stored> {
        let mut rows = Vec::with_capacity(nodes.len());
        for node in nodes {
            check_id(&node.memory_id)?;
            let values = episodic_values(node)?;
            let bytes = bytes_of(&values);
            rows.push((node.memory_id.as_str(), values, bytes));
        }
        self.add(EPISODIC, rows).await
    }

    async fn add_edges(&mut self, edges: &[Edge]) -> Result<Stored> {
        let mut stored = 0;
        for kind in EdgeKind::ALL {
            let of_kind: Vec<&Edge> = edges.iter().filter(|edge| edge.kind() == kind).collect();
            for some in of_kind.chunks(BATCH) {
                stored += self.add_of_kind(kind, some).await?;
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

    async fn commit(mut self: Box<Self>) -> Result<()> {
        self.run(|side, _, _| side.run("COMMIT", Vec::new())).await?;
        self.is_open = false;
        Ok(())
    }

    async fn rollback(mut self: Box<Self>) -> Result<()> {
        self.undo();
        // The answer comes after the rollback has.
        self.engine.run(|_| Ok(())).await
    }
}

impl LadybugWrite {
    /// Has the transaction rolled back, if the engine has not ended it.
    fn undo(&mut self) {
        self.is_open = false;
        self.engine.queue(|all| drop(all.writer.run("ROLLBACK", Vec::new())));
    }
}

impl Drop for LadybugWrite {
    fn drop(&mut self) {
        self.undo();
    }
}
