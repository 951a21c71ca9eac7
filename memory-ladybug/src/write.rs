//! A transaction on one agent's graph.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::sql::SqlValue;
use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::rows::{Cells as _, Table, Values, text_at};
use memory_hierarchical::{Agent, EdgeKind, GraphWrite};
use tokio::sync::OwnedMutexGuard;

use crate::cypher::{self, AGENTS};
use crate::engine::{Engine, Side};
use crate::error::lost;
use crate::rows::{Cells, int, list, text, texts, value};

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

    async fn insert_nodes(&mut self, table: Table, rows: &[Values]) -> Result<u64> {
        let ids: BTreeSet<&str> = rows.iter().map(|row| text_at(row, 0)).collect();
        let mut taken = self.held(table, &ids).await?;
        let fresh: Vec<&Values> =
            rows.iter().filter(|row| taken.insert(text_at(row, 0).to_owned())).collect();
        let stored = fresh.len();
        let mut left = fresh.as_slice();
        while !left.is_empty() {
            let mut bytes = 0;
            let is_within = |row: &&&Values| {
                let fits = bytes < BATCH_BYTES;
                bytes += bytes_of(row);
                fits
            };
            let count = left.iter().take_while(is_within).count();
            let (batch, rest) = left.split_at(count);
            let rows = list(table.columns(), batch.iter().map(|row| row.as_slice()));
            self.run(move |side, agent, revision| {
                let parameters = vec![("rows", rows), ("agent", text(agent)), ("added", int(revision))];
                side.run(&cypher::create(table), parameters)
            })
            .await?;
            left = rest;
        }
        Ok(count_of(stored))
    }

    async fn insert_edges(&mut self, kind: EdgeKind, rows: &[Values]) -> Result<u64> {
        self.check_ends(kind, rows).await?;
        let table = Table::Edges(kind);
        let pairs = list(table.key(), rows.iter().map(Vec::as_slice));
        let linked = move |side: &Side<'_>, agent: &str, _| {
            let parameters = vec![("pairs", pairs), ("agent", text(agent))];
            side.rows(&cypher::linked(table), parameters, |row| Ok((row.text()?, row.text()?)))
        };
        let mut linked: HashSet<(String, String)> = self.run(linked).await?.into_iter().collect();
        let mut fresh = Vec::new();
        for row in rows {
            if linked.insert((text_at(row, 0).to_owned(), text_at(row, 1).to_owned())) {
                fresh.push(table.columns().iter().copied().zip(row.iter().map(value)).collect::<Vec<_>>());
            }
        }
        let stored = fresh.len();
        self.run(move |side, agent, revision| {
            let all = fresh.into_iter().map(|mut parameters| {
                parameters.extend([("agent", text(agent)), ("added", int(revision))]);
                parameters
            });
            side.each(&cypher::create(table), all)
        })
        .await?;
        Ok(count_of(stored))
    }
}

/// An upper bound of a row's texts.
fn bytes_of(values: &[SqlValue]) -> usize {
    values.iter().map(|value| if let SqlValue::Text(text) = value { text.len() } else { 8 }).sum()
}

fn count_of(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

#[async_trait]
impl GraphWrite for LadybugWrite {
    async fn clear(&mut self) -> Result<()> {
        self.run(|side, agent, revision| {
            for table in Table::NODES {
                side.run(&cypher::delete(table), vec![("agent", text(agent))])?;
            }
            let statement = format!("MATCH (g:{AGENTS} {{agent_id: $agent}}) SET g.cleared_at = $revision");
            side.run(&statement, vec![("agent", text(agent)), ("revision", int(revision))])
        })
        .await
    }

    async fn held(&mut self, table: Table, ids: &BTreeSet<&str>) -> Result<HashSet<String>> {
        let ids = texts(ids.iter().copied());
        let work = move |side: &Side<'_>, agent: &str, _| {
            let parameters = vec![("agent", text(agent)), ("ids", ids)];
            side.rows(&cypher::held(table), parameters, Cells::text)
        };
        Ok(self.run(work).await?.into_iter().collect())
    }

    async fn insert(&mut self, table: Table, rows: &[Values]) -> Result<u64> {
        let mut stored = 0;
        for some in rows.chunks(BATCH) {
            stored += match table {
                Table::Edges(kind) => self.insert_edges(kind, some).await?,
                _ => self.insert_nodes(table, some).await?,
            };
        }
        Ok(stored)
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        if !self.is_open {
            return Err(lost());
        }
        self.is_open = false;
        self.engine.run(|all| all.commit()).await
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
