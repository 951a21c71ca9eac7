//! A graph from a file into a store.

use memory_core::{ErrorKind, Result};
use serde::Serialize;

use super::graph::Graph;
use super::tables::{Outcome, Tables};
use crate::model::Agent;
use crate::rows::Table;
use crate::store::{GraphStore, GraphWrite};

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
    let mut repeated = graph.check(mode == Mode::Replace)?;
    let mut write = store.write(agent).await?;
    match fill(&mut *write, &graph, mode).await {
        Ok(mut tables) => {
            write.commit().await?;
            for table in Table::ALL {
                tables.of(table).skipped += *repeated.of(table);
            }
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

async fn fill(write: &mut dyn GraphWrite, graph: &Graph, mode: Mode) -> Result<Tables<Outcome>> {
    let mut tables = Tables::<Outcome>::default();
    if mode == Mode::Replace {
        write.clear().await?;
    }
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
    }
    Ok(tables)
}
