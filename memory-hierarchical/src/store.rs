//! What keeps graphs: SQL tables or a graph engine.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::future::poll_fn;
use std::ops::AddAssign;
use std::task::Poll;

use async_trait::async_trait;
use memory_core::Result;

use crate::limits::{check_entity, check_id, missing_end};
use crate::model::{Agent, Counts, Edge, EdgeKind, Episodic, Node, Semantic};
use crate::rows::{Order, Page, Row, Table, Values, text_at};

/// Rows per page when a whole table is read.
const PAGE: usize = 1_000;

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

impl AddAssign for Stored {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.skipped += other.skipped;
    }
}

/// What became of a graph since a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Its revision now; 0 for a graph that was never written.
    pub revision: u64,
    /// The revision that last removed the whole graph; 0 if none did. If the reader's revision is not one of this
    /// graph, because it was erased or restored meanwhile, this is the graph's own revision: nothing the reader knows
    /// is valid.
    pub cleared_at: u64,
    /// The tables that gained rows, in the order of [`Table::ALL`]; may include some that gained none.
    pub tables: Vec<Table>,
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
    /// Errors of the store.
    async fn write(&self, agent: &Agent) -> Result<Box<dyn GraphWrite + '_>>;

    /// The rows of a table that have one of these ids in a column of its [key](Table::key), in no particular order.
    ///
    /// # Errors
    /// Errors of the store.
    async fn at(&self, agent: &Agent, table: Table, column: &'static str, ids: &[&str]) -> Result<Vec<Row>>;

    /// How many edges of a table a memory has.
    ///
    /// # Errors
    /// Errors of the store.
    async fn degree(&self, agent: &Agent, table: Table, direction: Direction, id: &str) -> Result<u64>;

    /// Rows of a table, each with the revision that added it. They are fewer than the limit only if no more follow.
    ///
    /// # Errors
    /// Errors of the store.
    async fn page(&self, agent: &Agent, table: Table, page: Page<'_>) -> Result<Vec<(u64, Row)>>;

    /// The size of the agent's graph.
    ///
    /// # Errors
    /// Errors of the store.
    async fn counts(&self, agent: &Agent) -> Result<Counts>;

    /// A number that grows with every committed write that changes the agent's graph; 0 for a graph that was never written.
    ///
    /// # Errors
    /// Errors of the store.
    async fn revision(&self, agent: &Agent) -> Result<u64>;

    /// What became of the agent's graph since a revision, at one moment.
    ///
    /// # Errors
    /// Errors of the store.
    async fn changes(&self, agent: &Agent, since: u64) -> Result<Changes>;

    /// The agents that have a graph, by name.
    ///
    /// # Errors
    /// Errors of the store.
    async fn agents(&self) -> Result<Vec<Agent>>;

    /// The memories with these ids, of either kind, in no particular order; unknown ids are left out.
    ///
    /// # Errors
    /// Errors of the store.
    async fn nodes(&self, agent: &Agent, ids: &[String]) -> Result<Vec<Node>> {
        let (ids, mut nodes) = (distinct(ids), Vec::new());
        for table in Table::NODES {
            if nodes.len() < ids.len() {
                let rows = self.at(agent, table, "memory_id", &ids).await?;
                nodes.extend(rows.into_iter().filter_map(Row::node));
            }
        }
        Ok(nodes)
    }

    /// The edges of these kinds at these memories, ordered by kind, source and target.
    ///
    /// # Errors
    /// Errors of the store.
    async fn edges(
        &self,
        agent: &Agent,
        ids: &[String],
        direction: Direction,
        kinds: &[EdgeKind],
    ) -> Result<Vec<Edge>> {
        let (ids, mut edges) = (distinct(ids), Vec::new());
        for &kind in kinds {
            for column in direction.columns() {
                let rows = self.at(agent, Table::Edges(kind), column, &ids).await?;
                edges.extend(rows.into_iter().filter_map(Row::edge));
            }
        }
        in_order(&mut edges);
        Ok(edges)
    }
}

impl Direction {
    /// The columns of the key in which edges have the memory that they leave or reach.
    pub(crate) const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Outgoing => &["source_id"],
            Self::Incoming => &["target_id"],
            Self::Both => &["source_id", "target_id"],
        }
    }
}

/// Sorts edges by kind, source and target, and keeps one of each: one between two of the memories was found from both ends;
/// the original also has some twice.
pub(crate) fn in_order(edges: &mut Vec<Edge>) {
    edges.sort_by(|a, b| (a.kind(), a.ends()).cmp(&(b.kind(), b.ends())));
    edges.dedup_by(|a, b| a.kind() == b.kind() && a.ends() == b.ends());
}

/// Hands over the rows of a table in this order, each with the revision that added it, until `take` has enough. Returns whether
/// it took all.
pub(crate) async fn each_row(
    graphs: &dyn GraphStore,
    agent: &Agent,
    table: Table,
    mut order: Order<'_>,
    take: &mut (dyn FnMut(u64, Row) -> bool + Send),
) -> Result<bool> {
    let mut page = graphs.page(agent, table, Page { order, after: &[], limit: PAGE }).await?;
    loop {
        let key: Vec<String> = match page.last().filter(|_| page.len() == PAGE) {
            None => return Ok(page.into_iter().all(|(revision, row)| take(revision, row))),
            Some((revision, row)) => {
                if let Order::Added { from, .. } = &mut order {
                    *from = *revision;
                }
                row.key().into_iter().map(str::to_owned).collect()
            }
        };
        let after: Vec<&str> = key.iter().map(String::as_str).collect();
        let mut next = graphs.page(agent, table, Page { order, after: &after, limit: PAGE });
        // The store reads the next page while this one is taken.
        let asked = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
        if !page.into_iter().all(|(revision, row)| take(revision, row)) {
            return Ok(false);
        }
        page = match asked {
            Poll::Ready(page) => page?,
            Poll::Pending => next.await?,
        };
    }
}

fn distinct(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A transaction on one agent's graph. Dropping it without [`commit`](Self::commit) keeps nothing, but other writers
/// may have to wait until the store notices; [`rollback`](Self::rollback) lets them continue at once. After an error it
/// can only be rolled back.
#[async_trait]
pub trait GraphWrite: Send {
    /// Removes the whole graph.
    ///
    /// # Errors
    /// Errors of the store.
    async fn clear(&mut self) -> Result<()>;

    /// Which of these ids a table of memories has, seen from within the transaction.
    ///
    /// # Errors
    /// Errors of the store.
    async fn held(&mut self, table: Table, ids: &BTreeSet<&str>) -> Result<HashSet<String>>;

    /// Stores rows; those whose key is taken in their table are left out. Returns how many it stored.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    async fn insert(&mut self, table: Table, rows: &[Values]) -> Result<u64>;

    /// Makes everything visible at once.
    ///
    /// # Errors
    /// Errors of the store.
    async fn commit(self: Box<Self>) -> Result<()>;

    /// Undoes everything.
    ///
    /// # Errors
    /// Errors of the store.
    async fn rollback(self: Box<Self>) -> Result<()>;

    /// Stores rows; a memory whose id is taken, among both kinds, is skipped, and so is an edge between two that have one.
    ///
    /// # Errors
    /// `invalid_argument` and `too_large` for a key that no store can keep; `not_found`, naming the id, if an edge
    /// leads to something that is not in the agent's graph or of the wrong kind; the store's errors.
    async fn add(&mut self, table: Table, mut rows: Vec<Values>) -> Result<Stored> {
        let given = rows.len();
        let other = match table {
            Table::Semantic => Some(Table::Episodic),
            Table::Episodic => Some(Table::Semantic),
            Table::Edges(_) => None,
        };
        if let Some(other) = other {
            let ids: BTreeSet<&str> = rows.iter().map(|row| text_at(row, 0)).collect();
            ids.iter().try_for_each(|id| check_id(id))?;
            if let Some(column) = table.columns().iter().position(|column| *column == "entity_name") {
                rows.iter().try_for_each(|row| check_entity(text_at(row, column)))?;
            }
            let taken = self.held(other, &ids).await?;
            rows.retain(|row| !taken.contains(text_at(row, 0)));
        }
        let stored = self.insert(table, &rows).await?;
        Ok(Stored { stored, skipped: (given as u64).saturating_sub(stored) })
    }

    /// [Adds](Self::add) semantic memories.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    async fn add_semantic(&mut self, nodes: &[Semantic]) -> Result<Stored> {
        self.add(Table::Semantic, nodes.iter().map(Semantic::values).collect::<Result<_>>()?).await
    }

    /// [Adds](Self::add) episodic memories.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    async fn add_episodic(&mut self, nodes: &[Episodic]) -> Result<Stored> {
        self.add(Table::Episodic, nodes.iter().map(Episodic::values).collect::<Result<_>>()?).await
    }

    /// [Adds](Self::add) edges.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    async fn add_edges(&mut self, edges: &[Edge]) -> Result<Stored> {
        let mut all = Stored::default();
        for kind in EdgeKind::ALL {
            let rows = edges.iter().filter(|edge| edge.kind() == kind).map(Edge::values);
            all += self.add(Table::Edges(kind), rows.collect::<Result<_>>()?).await?;
        }
        Ok(all)
    }

    /// Refuses edges whose ends the agent does not have.
    ///
    /// # Errors
    /// `not_found`, naming the id; the store's errors.
    async fn check_ends(&mut self, kind: EdgeKind, rows: &[Values]) -> Result<()> {
        let end = |column| rows.iter().map(move |row| text_at(row, column));
        for (table, name) in [(Table::Episodic, "episodic"), (Table::Semantic, "semantic")] {
            let mut ids = BTreeSet::new();
            if table == Table::Semantic {
                ids.extend(end(0));
            }
            if table == Table::of_targets(kind) {
                ids.extend(end(1));
            }
            let held = if ids.is_empty() { HashSet::new() } else { self.held(table, &ids).await? };
            if let Some(id) = ids.iter().find(|id| !held.contains(**id)) {
                return Err(missing_end(id, name));
            }
        }
        Ok(())
    }

    /// Which of these ids are taken in the agent's graph, seen from within the transaction.
    ///
    /// # Errors
    /// Errors of the store.
    async fn taken(&mut self, ids: &[String]) -> Result<Vec<String>> {
        let (ids, mut taken) = (ids.iter().map(String::as_str).collect(), Vec::new());
        for table in Table::NODES {
            taken.extend(self.held(table, &ids).await?);
        }
        taken.sort_unstable();
        Ok(taken)
    }
}
