//! A graph from a file into a store.

use std::collections::{BTreeSet, HashSet};

use memory_core::Result;
use serde::Serialize;

use super::check::There;
use super::graph::Graph;
use super::tables::{Outcome, Tables};
use crate::model::{Agent, Edge, EdgeKind, Node};
use crate::rows::{Order, Row, Table};
use crate::store::{GraphStore, GraphWrite, each_row};

/// Rows of a batch.
const BATCH: usize = 500;
/// How many of the rows not taken for one reason are named.
pub(super) const NAMED: usize = 1_000;

/// What an import does with the existing graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The file replaces it.
    Replace,
    /// It stays; what it lacks is added.
    Merge,
}

/// What an import did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Whose graph.
    pub agent: Agent,
    /// What became of the graph that was there.
    pub mode: Mode,
    /// For each table, what became of each row of the file.
    #[serde(flatten)]
    pub tables: Tables<Outcome>,
    /// The ids of the first thousand memories in error.
    pub taken: Vec<String>,
}

/// What became of the rows, and the memories in error: their table and id.
type Filled = (Tables<Outcome>, Vec<(Table, String)>);

/// Writes a graph in one transaction: readers see either all of it or what was there before, even after a crash.
///
/// # Errors
/// `corrupt`, with the place of a fault in the graph, such as an edge to a memory that neither the file nor, when
/// merging, the graph has; the store's errors. Then nothing was changed.
pub async fn import(store: &dyn GraphStore, agent: &Agent, graph: Graph, mode: Mode) -> Result<Imported> {
    let (tables, taken) = import_rows(store, agent, graph, mode).await?;
    let taken = taken.into_iter().map(|(_, id)| id).take(NAMED).collect();
    Ok(Imported { agent: agent.clone(), mode, tables, taken })
}

/// Like [`import`], but returns every memory in error.
pub(crate) async fn import_rows(
    store: &dyn GraphStore,
    agent: &Agent,
    mut graph: Graph,
    mode: Mode,
) -> Result<Filled> {
    let repeated = if mode == Mode::Replace { Some(graph.check(None)?) } else { None };
    let mut write = store.write(agent).await?;
    let filled = match repeated {
        Some(repeated) => replace(&mut *write, &graph, repeated).await.map(|tables| (tables, Vec::new())),
        None => merge(store, &mut *write, agent, &mut graph).await,
    };
    match filled {
        Ok(filled) => {
            write.commit().await?;
            Ok(filled)
        }
        Err(error) => {
            // If undoing fails, the transaction has already ended on its own.
            drop(write.rollback().await);
            Err(error)
        }
    }
}

async fn replace(
    write: &mut dyn GraphWrite,
    graph: &Graph,
    repeated: Tables<u64>,
) -> Result<Tables<Outcome>> {
    write.clear().await?;
    fill(write, graph, repeated).await
}

async fn merge(
    store: &dyn GraphStore,
    write: &mut dyn GraphWrite,
    agent: &Agent,
    graph: &mut Graph,
) -> Result<Filled> {
    let there = there(store, write, agent, graph).await?;
    let repeated = graph.check(Some(&there))?;
    let taken = take_out(store, write, agent, graph).await?;
    let mut tables = fill(write, graph, repeated).await?;
    taken.iter().for_each(|(table, _)| tables.of(*table).errors += 1);
    Ok((tables, taken))
}

/// Removes the memories whose ids the graph uses for others.
async fn take_out(
    store: &dyn GraphStore,
    write: &mut dyn GraphWrite,
    agent: &Agent,
    graph: &mut Graph,
) -> Result<Vec<(Table, String)>> {
    let mut others = HashSet::new();
    let semantic = graph.semantic.iter().cloned().map(Node::Semantic);
    let mut nodes = semantic.chain(graph.episodic.iter().cloned().map(Node::Episodic));
    loop {
        let batch: Vec<Node> = nodes.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let ids: Vec<String> = batch.iter().map(|node| node.id().to_owned()).collect();
        let held = store.nodes(agent, &write.taken(&ids).await?).await?;
        others.extend(held.iter().filter(|node| !batch.contains(node)).map(|node| node.id().to_owned()));
    }
    drop(nodes);
    let mut taken = Vec::new();
    let mut stays = |table, id: &str| {
        let is_other = others.contains(id);
        taken.extend(is_other.then(|| (table, id.to_owned())));
        !is_other
    };
    graph.semantic.retain(|node| stays(Table::Semantic, &node.memory_id));
    graph.episodic.retain(|node| stays(Table::Episodic, &node.memory_id));
    Ok(taken)
}

/// Which of the memories that the file's edges lead to exist in the graph. The transaction is the graph's only writer,
/// so what is committed cannot change during this.
async fn there(
    store: &dyn GraphStore,
    write: &mut dyn GraphWrite,
    agent: &Agent,
    graph: &Graph,
) -> Result<There> {
    let edges: Vec<Edge> = EdgeKind::ALL.into_iter().flat_map(|kind| graph.edges(kind)).collect();
    let ends = edges.iter().map(Edge::ends).flat_map(|(source, target)| [source, target]);
    // No store can look up other ids.
    let ids: BTreeSet<&str> = ends.filter(|id| !id.contains('\0')).collect();
    let mut there = There {
        semantic: write.held(Table::Semantic, &ids).await?,
        episodic: write.held(Table::Episodic, &ids).await?,
        ..There::default()
    };
    if !graph.supersedes.is_empty() {
        let mut take = |_, row| {
            if let Row::Edge(edge) = row {
                let (source, target) = edge.ends();
                there.supersedes.insert((source.to_owned(), target.to_owned()));
            }
            true
        };
        each_row(store, agent, Table::Edges(EdgeKind::Supersedes), Order::Key, &mut take).await?;
    }
    Ok(there)
}

/// Adds what is missing; `repeated` is what the file contains twice.
async fn fill(
    write: &mut dyn GraphWrite,
    graph: &Graph,
    mut repeated: Tables<u64>,
) -> Result<Tables<Outcome>> {
    let mut tables = Tables::<Outcome>::default();
    for table in Table::ALL {
        let mut rows = graph.values(table);
        loop {
            let batch = rows.by_ref().take(BATCH).collect::<Result<Vec<_>>>()?;
            if batch.is_empty() {
                break;
            }
            let stored = write.add(table, batch).await?;
            let outcome = tables.of(table);
            outcome.imported += stored.stored;
            outcome.skipped += stored.skipped;
        }
        tables.of(table).skipped += *repeated.of(table);
    }
    Ok(tables)
}
