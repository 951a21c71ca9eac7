//! [`LadybugGraphs`].

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lbug::Value;
use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::{
    Agent, Counts, Direction, Edge, EdgeKind, Episodic, GraphStore, GraphWrite, Node, Semantic,
};

use crate::cypher::{AGENTS, EPISODIC, NodeTable, Page, SEMANTIC, edge_table};
use crate::engine::{Engine, Opening, Side};
use crate::files::{Folders, Found};
use crate::rows::{Cells, int, read_edge, read_episodic, read_semantic, text, texts};
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
        if let Some((_, engine)) = lock().iter().find(|(known, _)| *known == found) {
            return Ok(Arc::clone(engine));
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

    async fn page<T: Send + 'static>(
        &self,
        agent: &Agent,
        (table, page): (NodeTable, Page),
        mut parameters: Vec<(&'static str, Value)>,
        read: fn(&mut Cells) -> Result<T>,
    ) -> Result<Vec<T>> {
        parameters.push(("agent", text(agent.as_str())));
        let work = move |side: &Side<'_>| side.rows(&table.page(page, side.is_own), parameters, read);
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    /// A number of the agent's, which only our files have; the original's are at revision 1.
    async fn of_agent(&self, agent: &Agent, column: &'static str, of_original: u64) -> Result<u64> {
        let name = text(agent.as_str());
        let work = move |side: &Side<'_>| {
            if !side.is_own {
                return Ok(if has_memories(side, name)? { of_original } else { 0 });
            }
            let statement = format!("MATCH (g:{AGENTS} {{agent_id: $agent}}) RETURN g.{column}");
            let found = side.rows(&statement, vec![("agent", name)], Cells::count)?;
            Ok(found.first().copied().unwrap_or(0))
        };
        Ok(self.read(agent, work).await?.unwrap_or(0))
    }
}

/// Whether the agent has any memory.
fn has_memories(side: &Side<'_>, agent: Value) -> Result<bool> {
    for table in [SEMANTIC, EPISODIC] {
        let count = side.rows(&table.count(), vec![("agent", agent.clone())], Cells::count)?;
        if count.first().is_some_and(|count| *count > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn limit(limit: usize) -> (&'static str, Value) {
    ("limit", int(u64::try_from(limit).unwrap_or(u64::MAX)))
}

fn after_id(after: Option<&str>) -> (&'static str, Value) {
    // Every id comes after the empty text, because none is empty.
    ("after", text(after.unwrap_or_default()))
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

    async fn nodes(&self, agent: &Agent, ids: &[String]) -> Result<Vec<Node>> {
        let (name, ids) = (text(agent.as_str()), distinct(ids));
        let work = move |side: &Side<'_>| {
            let parameters = || vec![("agent", name.clone()), ("ids", ids.clone())];
            let semantic = |cells: &mut Cells| read_semantic(cells).map(Node::Semantic);
            let mut nodes = side.rows(&SEMANTIC.by_ids(), parameters(), semantic)?;
            let episodic = |cells: &mut Cells| read_episodic(cells).map(Node::Episodic);
            nodes.extend(side.rows(&EPISODIC.by_ids(), parameters(), episodic)?);
            Ok(nodes)
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn edges(
        &self,
        agent: &Agent,
        ids: &[String],
        direction: Direction,
        kinds: &[EdgeKind],
    ) -> Result<Vec<Edge>> {
        let (name, ids, kinds) = (text(agent.as_str()), distinct(ids), kinds.to_vec());
        let directions: &[bool] = match direction {
            Direction::Outgoing => &[true],
            Direction::Incoming => &[false],
            Direction::Both => &[true, false],
        };
        let work = move |side: &Side<'_>| {
            let mut edges = Vec::new();
            for kind in kinds {
                for is_outgoing in directions {
                    let statement = edge_table(kind).at(*is_outgoing, side.is_own);
                    let parameters = vec![("agent", name.clone()), ("ids", ids.clone())];
                    edges.extend(side.rows(&statement, parameters, |cells| read_edge(kind, cells))?);
                }
            }
            edges.sort_by(|a, b| (a.kind(), a.ends()).cmp(&(b.kind(), b.ends())));
            // One between two of the memories was found from both ends; the original also has some twice.
            edges.dedup_by(|a, b| a.kind() == b.kind() && a.ends() == b.ends());
            Ok(edges)
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn semantic_page(&self, agent: &Agent, after: Option<&str>, most: usize) -> Result<Vec<Semantic>> {
        let parameters = vec![after_id(after), limit(most)];
        self.page(agent, (SEMANTIC, Page::ByKey), parameters, read_semantic).await
    }

    async fn episodic_page(&self, agent: &Agent, after: Option<&str>, most: usize) -> Result<Vec<Episodic>> {
        let parameters = vec![after_id(after), limit(most)];
        self.page(agent, (EPISODIC, Page::ByKey), parameters, read_episodic).await
    }

    async fn entity_page(
        &self,
        agent: &Agent,
        entity: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Semantic>> {
        let parameters = vec![after_id(after), limit(most), ("entity", text(entity))];
        self.page(agent, (SEMANTIC, Page::OfEntity), parameters, read_semantic).await
    }

    async fn edge_page(
        &self,
        agent: &Agent,
        kind: EdgeKind,
        after: Option<(&str, &str)>,
        most: usize,
    ) -> Result<Vec<Edge>> {
        let (source, target) = after.unwrap_or_default();
        let parameters = vec![
            ("agent", text(agent.as_str())),
            ("source", text(source)),
            ("target", text(target)),
            limit(most),
        ];
        let work = move |side: &Side<'_>| {
            let statement = edge_table(kind).page(Page::ByKey, side.is_own);
            side.rows(&statement, parameters, |cells| read_edge(kind, cells))
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn counts(&self, agent: &Agent) -> Result<Counts> {
        let name = text(agent.as_str());
        let work = move |side: &Side<'_>| {
            let count = |statement: String| -> Result<u64> {
                let found = side.rows(&statement, vec![("agent", name.clone())], Cells::count)?;
                Ok(found.first().copied().unwrap_or(0))
            };
            let edges = |kind| count(edge_table(kind).count(side.is_own));
            Ok(Counts {
                semantic_node_count: count(SEMANTIC.count())?,
                episodic_node_count: count(EPISODIC.count())?,
                similar_to_edge_count: edges(EdgeKind::SimilarTo)?,
                derives_from_edge_count: edges(EdgeKind::DerivesFrom)?,
                supersedes_edge_count: edges(EdgeKind::Supersedes)?,
                transitioned_to_edge_count: edges(EdgeKind::TransitionedTo)?,
            })
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
    }

    async fn revision(&self, agent: &Agent) -> Result<u64> {
        self.of_agent(agent, "revision", 1).await
    }

    async fn cleared_at(&self, agent: &Agent) -> Result<u64> {
        self.of_agent(agent, "cleared_at", 0).await
    }

    async fn added_nodes(
        &self,
        agent: &Agent,
        (revision, id): (u64, &str),
        through: u64,
        most: usize,
    ) -> Result<Vec<(u64, Node)>> {
        let parameters =
            || vec![after_id(Some(id)), limit(most), ("revision", int(revision)), ("through", int(through))];
        let semantic = |cells: &mut Cells| Ok((cells.count()?, Node::Semantic(read_semantic(cells)?)));
        let episodic = |cells: &mut Cells| Ok((cells.count()?, Node::Episodic(read_episodic(cells)?)));
        let mut found = self.page(agent, (SEMANTIC, Page::ByAddition), parameters(), semantic).await?;
        found.extend(self.page(agent, (EPISODIC, Page::ByAddition), parameters(), episodic).await?);
        found.sort_by(|(a, one), (b, other)| (a, one.id()).cmp(&(b, other.id())));
        found.truncate(most);
        Ok(found)
    }

    async fn added_edges(
        &self,
        agent: &Agent,
        kind: EdgeKind,
        (revision, source, target): (u64, &str, &str),
        through: u64,
        most: usize,
    ) -> Result<Vec<(u64, Edge)>> {
        let parameters = vec![
            ("agent", text(agent.as_str())),
            ("source", text(source)),
            ("target", text(target)),
            ("revision", int(revision)),
            ("through", int(through)),
            limit(most),
        ];
        let work = move |side: &Side<'_>| {
            let statement = edge_table(kind).page(Page::ByAddition, side.is_own);
            side.rows(&statement, parameters, |cells| Ok((cells.count()?, read_edge(kind, cells)?)))
        };
        Ok(self.read(agent, work).await?.unwrap_or_default())
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

/// Each id once, as a value.
fn distinct(ids: &[String]) -> Value {
    let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    texts(ids.into_iter())
}

fn unmigrated() -> Error {
    Error::new(
        ErrorKind::ReadOnly,
        "the agent's graph is a file of the original program, which is only read; take it over with \
         `memory graph migrate FILE`, and then write",
    )
}
