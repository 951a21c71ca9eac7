//! [`LadybugGraphs`].

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lbug::Value;
use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::rows::{Order, Page, Row, Table};
use memory_hierarchical::{Agent, Changes, Counts, Direction, EdgeKind, GraphStore, GraphWrite};

use crate::cypher::{self, AGENTS};
use crate::engine::{Engine, Side};
use crate::files::{Folders, Found};
use crate::lock::Opening;
use crate::rows::{Cells, int, text, texts};
use crate::write::LadybugWrite;

/// Most files that are kept open.
const MAX_OPEN: usize = 8;

/// Graphs in files of LadybugDB, one for each agent, in a folder of their own; and, for reading only, in the files of the
/// original program for agents that have no file there yet.
///
/// # Behavior
/// - A process that has a graph open keeps others from opening it; they wait 30 seconds.
/// - It needs a tokio runtime with time.
pub struct LadybugGraphs {
    folders: Folders,
    open: Mutex<VecDeque<(Found, Arc<Engine>)>>,
}

impl fmt::Debug for LadybugGraphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LadybugGraphs").field("folders", &self.folders).finish_non_exhaustive()
    }
}

impl LadybugGraphs {
    /// Graphs in `folder`, which is created by the first write as the owner's only; `original` is the folder of the original
    /// program's files, and nothing in it is ever changed.
    #[must_use]
    pub fn new(folder: PathBuf, original: Option<PathBuf>) -> Self {
        Self { folders: Folders { own: folder, original }, open: Mutex::default() }
    }

    async fn engine(&self, found: Found) -> Result<Arc<Engine>> {
        let lock = || self.open.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut open = lock();
            open.retain(|(_, engine)| !engine.has_ended());
            if let Some((_, engine)) = open.iter().find(|(known, _)| *known == found) {
                return Ok(Arc::clone(engine));
            }
        }
        let engine = match &found {
            Found::Own(path) => Engine::open(path, Opening::Own).await?,
            Found::Original(path) => Engine::open(path, Opening::Foreign).await?,
        };
        let evicted = {
            let mut open = lock();
            if !open.iter().any(|(known, _)| *known == found) {
                open.push_back((found, Arc::clone(&engine)));
            }
            if open.len() > MAX_OPEN { open.pop_front() } else { None }
        };
        if let Some((_, evicted)) = evicted {
            // Closing a file waits for the disk.
            drop(tokio::task::spawn_blocking(move || drop(evicted)));
        }
        Ok(engine)
    }

    /// Reads the agent's file; `None` where there is none.
    async fn read<T: Send + 'static>(
        &self,
        agent: &Agent,
        work: impl FnOnce(&Side<'_>) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let Some(found) = self.folders.find(agent)? else { return Ok(None) };
        let engine = self.engine(found).await?;
        engine.run(move |connections| work(&connections.reader)).await.map(Some)
    }
}

/// Whether the agent has any memory.
fn has_memories(side: &Side<'_>, agent: Value) -> Result<bool> {
    for table in Table::NODES {
        let statement = cypher::count(table, side.is_own);
        let count = side.rows(&statement, vec![("agent", agent.clone())], Cells::count)?;
        if count.first().is_some_and(|count| *count > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[async_trait]
impl GraphStore for LadybugGraphs {
    fn name(&self) -> &str {
        "graph-db"
    }

    async fn write(&self, agent: &Agent) -> Result<Box<dyn GraphWrite + '_>> {
        let path = match self.folders.find(agent)? {
            Some(Found::Own(path)) => path,
            Some(Found::Original(_)) => return Err(unmigrated()),
            None => self.folders.create(agent)?,
        };
        let engine = self.engine(Found::Own(path)).await?;
        Ok(Box::new(LadybugWrite::begin(engine, agent).await?))
    }

    async fn at(&self, agent: &Agent, table: Table, column: &'static str, ids: &[&str]) -> Result<Vec<Row>> {
        let parameters = vec![("agent", text(agent.as_str())), ("ids", texts(ids.iter().copied()))];
        let work = move |side: &Side<'_>| {
            let statement = cypher::at(table, column, side.is_own);
            side.rows(&statement, parameters, |cells| Row::read(table, cells))
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn degree(&self, agent: &Agent, table: Table, direction: Direction, id: &str) -> Result<u64> {
        let parameters = vec![("agent", text(agent.as_str())), ("id", text(id))];
        let work = move |side: &Side<'_>| {
            let mut degree = 0;
            for statement in cypher::degree(table, direction, side.is_own) {
                degree +=
                    side.rows(&statement, parameters.clone(), Cells::count)?.first().copied().unwrap_or(0);
            }
            Ok(degree)
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn page(&self, agent: &Agent, table: Table, page: Page<'_>) -> Result<Vec<(u64, Row)>> {
        let statement = |is_own| cypher::page(table, page.order, is_own);
        let (of_own, of_original) = (statement(true), statement(false));
        let limit = u64::try_from(page.limit).unwrap_or(u64::MAX);
        let mut parameters = vec![("agent", text(agent.as_str())), ("limit", int(limit))];
        for (at, name) in ["key0", "key1"].into_iter().take(table.key().len()).enumerate() {
            // Every id comes after the empty text, because none is empty.
            parameters.push((name, text(page.after.get(at).copied().unwrap_or_default())));
        }
        match page.order {
            Order::Key => {}
            Order::Entity(entity) => parameters.push(("entity", text(entity))),
            Order::At(_, id) => parameters.push(("id", text(id))),
            Order::Added { from, through } => {
                parameters.extend([("from", int(from)), ("through", int(through))]);
            }
        }
        let work = move |side: &Side<'_>| {
            let statement = if side.is_own { &of_own } else { &of_original };
            side.rows(statement, parameters, |cells| Ok((cells.count()?, Row::read(table, cells)?)))
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn counts(&self, agent: &Agent) -> Result<Counts> {
        let name = text(agent.as_str());
        let work = move |side: &Side<'_>| {
            let count = |table| -> Result<u64> {
                let statement = cypher::count(table, side.is_own);
                let found = side.rows(&statement, vec![("agent", name.clone())], Cells::count)?;
                Ok(found.first().copied().unwrap_or(0))
            };
            Ok(Counts {
                semantic_node_count: count(Table::Semantic)?,
                episodic_node_count: count(Table::Episodic)?,
                similar_to_edge_count: count(Table::Edges(EdgeKind::SimilarTo))?,
                derives_from_edge_count: count(Table::Edges(EdgeKind::DerivesFrom))?,
                supersedes_edge_count: count(Table::Edges(EdgeKind::Supersedes))?,
                transitioned_to_edge_count: count(Table::Edges(EdgeKind::TransitionedTo))?,
            })
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn revision(&self, agent: &Agent) -> Result<u64> {
        Ok(self.changes(agent, 0).await?.revision)
    }

    /// Says of every table that it may have gained rows. Revisions are our files' alone: the original's are at 1.
    async fn changes(&self, agent: &Agent, _since: u64) -> Result<Changes> {
        let name = text(agent.as_str());
        let work = move |side: &Side<'_>| {
            if !side.is_own {
                return Ok((u64::from(has_memories(side, name)?), 0));
            }
            let statement =
                format!("MATCH (g:{AGENTS} {{agent_id: $agent}}) RETURN g.revision, g.cleared_at");
            let read = |cells: &mut Cells| Ok((cells.count()?, cells.count()?));
            let found = side.rows(&statement, vec![("agent", name)], read)?;
            Ok(found.first().copied().unwrap_or_default())
        };
        let (revision, cleared_at) = self.read(agent, work).await?.unwrap_or_default();
        Ok(Changes { revision, cleared_at, tables: Table::ALL.into() })
    }

    async fn agents(&self) -> Result<Vec<Agent>> {
        let mut agents = Vec::new();
        for agent in self.folders.agents()? {
            let name = text(agent.as_str());
            match self.read(&agent, move |side| has_memories(side, name)).await {
                Ok(Some(true)) => agents.push(agent),
                // A file of something else in the original's folder is no agent's graph.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
        }
        Ok(agents)
    }
}

fn unmigrated() -> Error {
    Error::new(
        ErrorKind::ReadOnly,
        "the agent's graph is a file of the original program, which is only read; take it over with \
         `memory graph migrate FILE`, and then write",
    )
}
