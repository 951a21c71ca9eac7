//! A graph from a file into a store.

use memory_core::{ErrorKind, Result};
use serde::Serialize;

use super::graph::Graph;
use super::tables::{Outcome, Tables};
use crate::model::{Agent, Edge, EdgeKind};
use crate::store::{GraphStore, GraphWrite, Stored};

/// Rows of a batch.
const BATCH: usize = 500;

/// What an import does with the graph that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The file takes its place.
    Replace,
    /// It stays; what it does not have is added.
    Merge,
}

/// What an import did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Whose graph.
    pub agent: Agent,
    /// What became of the graph that was there.
    pub mode: Mode,
    /// For each table, what became of each row of the file. None is in error: a file with a fault is refused whole.
    #[serde(flatten)]
    pub tables: Tables<Outcome>,
}

/// Writes a graph in one transaction: readers see all of it or what was there before, and so they do after a crash.
///
/// # Errors
/// `corrupt` with the place of a fault in the graph; `not_found` where an edge ends at a memory that neither the file nor, on
/// merging, the graph has; the store's. Nothing was changed then.
pub async fn import(store: &dyn GraphStore, agent: &Agent, mut graph: Graph, mode: Mode) -> Result<Imported> {
    let repeated = graph.check(mode == Mode::Replace)?;
    let mut write = store.write(agent).await?;
    match fill(&mut *write, &graph, mode).await {
        Ok(mut tables) => {
            write.commit().await?;
            add_repeated(&mut tables, repeated);
            Ok(Imported { agent: agent.clone(), mode, tables })
        }
        Err(error) => {
            // Where undoing fails, the transaction has ended by itself.
            drop(write.rollback().await);
            Err(if error.kind() == ErrorKind::NotFound {
                error.retold(
                    "an edge ends at a memory that neither the file nor the graph has; nothing was imported",
                )
            } else {
                error
            })
        }
    }
}

fn add_repeated(tables: &mut Tables<Outcome>, repeated: Tables<u64>) {
    tables.semantic_nodes.skipped += repeated.semantic_nodes;
    tables.episodic_nodes.skipped += repeated.episodic_nodes;
    tables.similar_to_edges.skipped += repeated.similar_to_edges;
    tables.derives_from_edges.skipped += repeated.derives_from_edges;
    tables.supersedes_edges.skipped += repeated.supersedes_edges;
    tables.transitioned_to_edges.skipped += repeated.transitioned_to_edges;
}

impl Outcome {
    const fn add(&mut self, stored: Stored) {
        self.imported += stored.stored;
        self.skipped += stored.skipped;
    }
}

async fn fill(write: &mut dyn GraphWrite, graph: &Graph, mode: Mode) -> Result<Tables<Outcome>> {
    let mut tables = Tables::<Outcome>::default();
    if mode == Mode::Replace {
        write.clear().await?;
    }
    for batch in graph.semantic.chunks(BATCH) {
        tables.semantic_nodes.add(write.add_semantic(batch).await?);
    }
    for batch in graph.episodic.chunks(BATCH) {
        tables.episodic_nodes.add(write.add_episodic(batch).await?);
    }
    for kind in EdgeKind::ALL {
        let mut edges = graph.edges(kind);
        loop {
            let batch: Vec<Edge> = edges.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            tables.of_edges(kind).add(write.add_edges(&batch).await?);
        }
    }
    Ok(tables)
}
