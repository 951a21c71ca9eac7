//! The six tables of a file, row by row.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use memory_core::{Error, Result};

use super::foreign::{Cells, Foreign, columns};
use super::refusals::{Refusals, Why};
use crate::model::{Agent, EdgeKind};
use crate::rows::{Cells as _, Row, Table};
use crate::transfer::check::{Fault, Judge as _};
use crate::transfer::circles::on_circles;
use crate::transfer::graph::Graph;
use crate::transfer::tables::Tables;

/// The columns of a table, starting with the one that only the file has: the owner of a memory. Edges have none, but a
/// number.
fn columns_of(table: Table) -> Vec<&'static str> {
    let owner = if let Table::Edges(_) = table { None } else { Some("agent_id") };
    owner.into_iter().chain(table.columns().iter().copied()).collect()
}

/// Whether a file has the six tables, with their columns and no others.
pub(crate) fn is_graph(foreign: &Foreign) -> Result<bool> {
    for table in Table::ALL {
        let Some(found) = columns(&foreign.connection, table.name())? else { return Ok(false) };
        let found: HashSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        let mut wanted: HashSet<&str> = columns_of(table).into_iter().collect();
        if let Table::Edges(_) = table {
            wanted.insert("id");
        }
        if found != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A file's contents for one agent.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) graph: Graph,
    /// Every row of the file.
    pub(crate) rows: Tables<u64>,
    pub(crate) refusals: Refusals,
}

/// Reads a database in the original's layout that holds only this agent's graph. A repeated edge is read once.
///
/// # Errors
/// Those of opening a file: `invalid_argument`, `capability_unsupported`, `unavailable`. `corrupt` for another layout,
/// or if rows belong to another agent, lack an end, or are malformed: with their numbers, and how to take the rest.
pub fn read_raw_db(path: &Path, agent: &Agent) -> Result<Graph> {
    read(path, agent, false)
}

/// Like [`read_raw_db`], but with repeated edges: an [`import`](crate::transfer::import()) skips and counts them.
///
/// # Errors
/// As [`read_raw_db`].
pub fn read_raw_db_rows(path: &Path, agent: &Agent) -> Result<Graph> {
    read(path, agent, true)
}

fn read(path: &Path, agent: &Agent, repeated: bool) -> Result<Graph> {
    let foreign = Foreign::open(path)?;
    if !is_graph(&foreign)? {
        return Err(Error::corrupt(
            "the database does not have the six tables of a graph; for other layouts use `memory graph migrate`",
        ));
    }
    let found = read_rows(&foreign, agent, repeated)?;
    foreign.finish()?;
    let refused: Vec<_> =
        found.refusals.list().iter().filter(|refusal| refusal.why != Why::Repeated).collect();
    let Some(first) = refused.first() else { return Ok(found.graph) };
    let count: u64 = refused.iter().map(|refusal| refusal.count).sum();
    let what = match first.why {
        Why::Foreign => "belong to another agent",
        Why::Orphan => "are edges that end nowhere",
        Why::Circle => "are edges of a circle of memories that supersede each other",
        _ => "are malformed",
    };
    Err(Error::corrupt(format!(
        "{count} rows of the database are not of a graph of `{agent}`: {} of {} {what}; nothing was written: \
             `memory graph migrate` takes the rest, and names them",
        first.count, first.table
    ))
    .with_detail("refused", count))
}

/// Reads all rows, and sorts them into this agent's graph and refused ones. `repeated` says where repeated edges go.
pub(crate) fn read_rows(foreign: &Foreign, agent: &Agent, repeated: bool) -> Result<Found> {
    let mut found = Found::default();
    let mut bytes = 0;
    let mut known = HashMap::new();
    let Found { graph, rows, refusals } = &mut found;
    for table in Table::ALL {
        let mut seen = HashSet::new();
        *rows.of(table) = foreign.each(table.name(), &columns_of(table), &mut bytes, |number, cells| {
            match taken(table, cells, agent, &mut known) {
                Ok(row) => {
                    if let Some((source, target)) = ends_of(&row)
                        && !seen.insert((source.to_owned(), target.to_owned()))
                        && !repeated
                    {
                        refusals.add(table.name(), Why::Repeated, || {
                            format!("row {number}: {source} → {target}")
                        });
                        return;
                    }
                    graph.push_row(row);
                }
                Err((why, what)) => refusals.add(table.name(), why, || format!("row {number}: {what}")),
            }
        })?;
    }
    let supersedes = &mut graph.supersedes;
    let ends = supersedes.iter().map(|edge| (edge.source_id.as_str(), edge.target_id.as_str()));
    for place in on_circles(ends).into_iter().rev() {
        let edge = supersedes.remove(place);
        let table = Table::Edges(EdgeKind::Supersedes).name();
        refusals.add(table, Why::Circle, || format!("{} → {}", edge.source_id, edge.target_id));
    }
    Ok(found)
}

/// Whose memory an id is, and of which kind: semantic or not, this agent's or not.
type Known = HashMap<String, (bool, bool)>;

/// The ends of an edge.
fn ends_of(row: &Row) -> Option<(&str, &str)> {
    if let Row::Edge(edge) = row { Some(edge.ends()) } else { None }
}

/// Reads a row and judges it, on its own and against the memories before it.
fn taken(
    table: Table,
    mut cells: Cells<'_, '_>,
    agent: &Agent,
    known: &mut Known,
) -> std::result::Result<Row, (Why, String)> {
    let malformed = |what| (Why::Malformed, what);
    let kind = match table {
        Table::Edges(kind) => Some(kind),
        _ => None,
    };
    let owner = if kind.is_none() { Some(cells.text().map_err(malformed)?) } else { None };
    let row = Row::read(table, &mut cells).map_err(malformed)?;
    let judged = row.judge().map_err(|Fault { member, why }| malformed(format!("{member} {why}")));
    match (&row, kind) {
        (Row::Edge(edge), Some(kind)) => {
            judged?;
            let (source, target) = edge.ends();
            ends(kind, source, target, known)?;
        }
        (row, _) => {
            let (id, owner) = (row.key().concat(), owner.unwrap_or_default());
            let is_own = owner == agent.as_str();
            let is_semantic = table == Table::Semantic;
            if !is_own {
                let refused = (Why::Foreign, format!("{id}, of the agent `{owner}`"));
                known.entry(id).or_insert((is_semantic, false));
                return Err(refused);
            }
            judged?;
            if known.get(&id).is_some_and(|(_, is_own)| *is_own) {
                return Err((Why::Taken, id));
            }
            known.insert(id, (is_semantic, true));
        }
    }
    Ok(row)
}

fn ends(kind: EdgeKind, source: &str, target: &str, known: &Known) -> std::result::Result<(), (Why, String)> {
    let (of_source, of_target) = (known.get(source), known.get(target));
    let what = || format!("{source} → {target}");
    match (of_source, of_target) {
        (Some((true, true)), Some((is_semantic, true)))
            if *is_semantic == (Table::of_targets(kind) == Table::Semantic) =>
        {
            Ok(())
        }
        // The original attributes an edge to the agent of its source.
        (Some((_, false)), _) => Err((Why::Foreign, what())),
        _ => Err((Why::Orphan, what())),
    }
}
