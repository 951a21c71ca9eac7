//! What keeps graphs: SQL tables or a graph engine.

use std::fmt;

use async_trait::async_trait;
use memory_core::Result;

use crate::model::{Agent, Counts, Edge, EdgeKind, Episodic, Node, Semantic};

/// Which edges of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Those that begin there.
    Outgoing,
    /// Those that end there.
    Incoming,
    /// Both.
    Both,
}

/// What became of a batch of nodes or edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Stored.
    pub stored: u64,
    /// Left alone, because one with that id (or of that kind between these two) was there already.
    pub skipped: u64,
}

/// Keeps one graph per agent. Nothing of one agent is ever seen or changed through another.
#[async_trait]
pub trait GraphStore: fmt::Debug + Send + Sync {
    /// `sqlite`, `postgres` or `graph-db`.
    fn name(&self) -> &str;

    /// Begins to write: all or nothing becomes visible, at [`GraphWrite::commit`]. Writers of the same graph wait for each
    /// other.
    ///
    /// # Errors
    /// The store's.
    async fn write(&self, agent: &Agent) -> Result<Box<dyn GraphWrite + '_>>;

    /// The memories with these ids, of either kind, in no particular order; unknown ids are left out.
    ///
    /// # Errors
    /// The store's.
    async fn nodes(&self, agent: &Agent, ids: &[String]) -> Result<Vec<Node>>;

    /// The edges of these kinds at these memories, ordered by kind, source and target.
    ///
    /// # Errors
    /// The store's.
    async fn edges(
        &self,
        agent: &Agent,
        ids: &[String],
        direction: Direction,
        kinds: &[EdgeKind],
    ) -> Result<Vec<Edge>>;

    /// Semantic memories by id (in the order of its bytes), after the given one. A page is shorter than `limit` only if no
    /// more follow; so are the pages of the methods below.
    ///
    /// # Errors
    /// The store's.
    async fn semantic_page(&self, agent: &Agent, after: Option<&str>, limit: usize) -> Result<Vec<Semantic>>;

    /// Episodic memories by id, after the given one.
    ///
    /// # Errors
    /// The store's.
    async fn episodic_page(&self, agent: &Agent, after: Option<&str>, limit: usize) -> Result<Vec<Episodic>>;

    /// The semantic memories about an entity, by id, after the given one.
    ///
    /// # Errors
    /// The store's.
    async fn entity_page(
        &self,
        agent: &Agent,
        entity: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Semantic>>;

    /// Edges of a kind by source and target, after the given pair.
    ///
    /// # Errors
    /// The store's.
    async fn edge_page(
        &self,
        agent: &Agent,
        kind: EdgeKind,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Edge>>;

    /// How much the agent's graph holds.
    ///
    /// # Errors
    /// The store's.
    async fn counts(&self, agent: &Agent) -> Result<Counts>;

    /// A number that grows with every committed write to the agent's graph; 0 for a graph that was never written.
    ///
    /// # Errors
    /// The store's.
    async fn revision(&self, agent: &Agent) -> Result<u64>;

    /// The revision that last removed the whole graph; 0 if none did.
    ///
    /// # Errors
    /// The store's.
    async fn cleared_at(&self, agent: &Agent) -> Result<u64>;

    /// Memories by the revision that added them and by id: those after the given pair, up to and including the revision
    /// `through`. `(revision + 1, "")` begins with what came after a revision.
    ///
    /// # Errors
    /// The store's.
    async fn added_nodes(
        &self,
        agent: &Agent,
        after: (u64, &str),
        through: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Node)>>;

    /// Edges of a kind by the revision that added them, source and target, as [`added_nodes`](Self::added_nodes).
    ///
    /// # Errors
    /// The store's.
    async fn added_edges(
        &self,
        agent: &Agent,
        kind: EdgeKind,
        after: (u64, &str, &str),
        through: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Edge)>>;

    /// The agents that have a graph, by name.
    ///
    /// # Errors
    /// The store's.
    async fn agents(&self) -> Result<Vec<Agent>>;
}

/// A transaction on one agent's graph. Dropping it without [`commit`](Self::commit) keeps nothing, but other writers may
/// then have to wait until the store notices; [`rollback`](Self::rollback) lets them go on at once. After an error it can
/// only be rolled back.
#[async_trait]
pub trait GraphWrite: Send {
    /// Removes the whole graph.
    ///
    /// # Errors
    /// The store's.
    async fn clear(&mut self) -> Result<()>;

    /// Stores semantic memories; those whose id is taken are skipped.
    ///
    /// # Errors
    /// The store's.
    async fn add_semantic(&mut self, nodes: &[Semantic]) -> Result<Stored>;

    /// Stores episodic memories; those whose id is taken are skipped.
    ///
    /// # Errors
    /// The store's.
    async fn add_episodic(&mut self, nodes: &[Episodic]) -> Result<Stored>;

    /// Stores edges; one that is there already (same kind and ends) is skipped.
    ///
    /// # Errors
    /// `not_found`, naming the id, where an end is not in the agent's graph or is of the wrong kind; the store's.
    async fn add_edges(&mut self, edges: &[Edge]) -> Result<Stored>;

    /// Which of these ids are taken in the agent's graph, seen from within the transaction.
    ///
    /// # Errors
    /// The store's.
    async fn taken(&mut self, ids: &[String]) -> Result<Vec<String>>;

    /// Makes everything visible at once.
    ///
    /// # Errors
    /// The store's.
    async fn commit(self: Box<Self>) -> Result<()>;

    /// Undoes everything.
    ///
    /// # Errors
    /// The store's.
    async fn rollback(self: Box<Self>) -> Result<()>;
}
