//! The six tables of a file, row by row.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use memory_core::{Error, ErrorKind, Result};

use super::foreign::{Cells, Foreign, columns};
use super::refusals::{Refusals, Why};
use crate::model::{
    Agent, DerivesFrom, Edge, EdgeKind, Episodic, Semantic, SimilarTo, Supersedes, TransitionedTo,
};
use crate::transfer::check::{Fault, Row};
use crate::transfer::graph::Graph;
use crate::transfer::tables::Tables;

const SEMANTIC: &str = "semantic_memories";
const EPISODIC: &str = "episodic_memories";

const SEMANTIC_COLUMNS: &[&str] = &[
    "memory_id",
    "agent_id",
    "concept",
    "content",
    "confidence",
    "source_id",
    "tags",
    "metadata",
    "created_at",
    "entity_name",
];
const EPISODIC_COLUMNS: &[&str] =
    &["memory_id", "agent_id", "content", "source_label", "tags", "metadata", "created_at"];

/// The table of a kind of edges, and its columns without the number.
const fn edge_columns(kind: EdgeKind) -> (&'static str, &'static [&'static str]) {
    match kind {
        EdgeKind::SimilarTo => ("similar_to_edges", &["source_id", "target_id", "weight", "metadata"]),
        EdgeKind::DerivesFrom => {
            ("derives_from_edges", &["source_id", "target_id", "extraction_method", "confidence"])
        }
        EdgeKind::Supersedes => ("supersedes_edges", &["source_id", "target_id", "reason", "temporal_delta"]),
        EdgeKind::TransitionedTo => (
            "transitioned_to_edges",
            &["source_id", "target_id", "from_value", "to_value", "turn", "transition_type"],
        ),
    }
}

/// Whether a file has the six tables, with their columns and no others.
pub(crate) fn is_graph(foreign: &Foreign) -> Result<bool> {
    let has = |table: &str, wanted: &mut dyn Iterator<Item = &'static str>| -> Result<bool> {
        let Some(found) = columns(&foreign.connection, table)? else { return Ok(false) };
        let found: HashSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        Ok(found == wanted.collect())
    };
    let mut is = has(SEMANTIC, &mut SEMANTIC_COLUMNS.iter().copied())?
        && has(EPISODIC, &mut EPISODIC_COLUMNS.iter().copied())?;
    for kind in EdgeKind::ALL {
        let (table, names) = edge_columns(kind);
        is = is && has(table, &mut names.iter().copied().chain(["id"]))?;
    }
    Ok(is)
}

/// What a file holds for one agent.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) graph: Graph,
    /// Every row of the file.
    pub(crate) rows: Tables<u64>,
    pub(crate) refusals: Refusals,
}

/// Reads a database of the original's layout that holds this agent's graph and nothing else.
///
/// # Errors
/// As for any file that is opened: `invalid_argument`, `capability_unsupported`, `unavailable`. `corrupt` for another layout, or
/// if a row belongs to another agent, has an end that is missing, or is malformed: with their numbers, and how to take the rest.
pub fn read_raw_db(path: &Path, agent: &Agent) -> Result<Graph> {
    let foreign = Foreign::open(path)?;
    if !is_graph(&foreign)? {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "the database does not have the six tables of a graph; for other layouts use `memory graph migrate`",
        ));
    }
    let found = read_rows(&foreign, agent)?;
    foreign.finish()?;
    // An edge that is there twice is skipped by every import.
    let refused: Vec<_> =
        found.refusals.list().iter().filter(|refusal| refusal.why != Why::Repeated).collect();
    let Some(first) = refused.first() else { return Ok(found.graph) };
    let count: u64 = refused.iter().map(|refusal| refusal.count).sum();
    let what = match first.why {
        Why::Foreign => "belong to another agent",
        Why::Orphan => "are edges that end nowhere",
        _ => "are malformed",
    };
    Err(Error::new(
        ErrorKind::Corrupt,
        format!(
            "{count} rows cannot be imported as `{agent}`: {} of {} {what}; nothing was imported: `memory graph migrate` takes \
             the rest, and names them",
            first.count, first.table
        ),
    )
    .with_detail("refused", count))
}

/// Reads all rows, and sorts them into what is this agent's graph and what is refused.
pub(crate) fn read_rows(foreign: &Foreign, agent: &Agent) -> Result<Found> {
    let mut found = Found::default();
    let mut bytes = 0;
    // Whose memory an id is: semantic or not; this agent's or not.
    let mut known: HashMap<String, (bool, bool)> = HashMap::new();
    let Found { graph, rows, refusals } = &mut found;
    rows.semantic_nodes = foreign.each(SEMANTIC, SEMANTIC_COLUMNS, &mut bytes, |number, cells| {
        take_node(SEMANTIC, number, semantic(cells), agent, true, &mut known, refusals, |node| {
            &node.memory_id
        })
        .into_iter()
        .for_each(|node| graph.semantic.push(node));
    })?;
    rows.episodic_nodes = foreign.each(EPISODIC, EPISODIC_COLUMNS, &mut bytes, |number, cells| {
        take_node(EPISODIC, number, episodic(cells), agent, false, &mut known, refusals, |node| {
            &node.memory_id
        })
        .into_iter()
        .for_each(|node| graph.episodic.push(node));
    })?;
    for kind in EdgeKind::ALL {
        let (table, names) = edge_columns(kind);
        let mut seen = HashSet::new();
        *rows.of_edges(kind) = foreign.each(table, names, &mut bytes, |number, cells| {
            match edge(kind, cells).map_err(|what| (Why::Malformed, what)).and_then(|edge| {
                let (source, target) = edge.ends();
                ends(kind, source, target, &known)?;
                if !seen.insert((source.to_owned(), target.to_owned())) {
                    return Err((Why::Repeated, format!("{source} → {target}")));
                }
                Ok(edge)
            }) {
                Ok(edge) => graph.push(edge),
                Err((why, what)) => refusals.add(table, why, || format!("row {number}: {what}")),
            }
        })?;
    }
    Ok(found)
}

fn ends(
    kind: EdgeKind,
    source: &str,
    target: &str,
    known: &HashMap<String, (bool, bool)>,
) -> std::result::Result<(), (Why, String)> {
    let (of_source, of_target) = (known.get(source), known.get(target));
    let what = || format!("{source} → {target}");
    match (of_source, of_target) {
        (Some((true, true)), Some((is_semantic, true)))
            if *is_semantic == (kind != EdgeKind::DerivesFrom) =>
        {
            Ok(())
        }
        // The original counts an edge to the agent of its source.
        (Some((_, false)), _) => Err((Why::Foreign, what())),
        _ => Err((Why::Orphan, what())),
    }
}

type Parsed<T> = std::result::Result<(String, T), String>;

#[allow(clippy::too_many_arguments, reason = "one step of one loop, for two types of rows")]
fn take_node<T: Row>(
    table: &'static str,
    number: i64,
    parsed: Parsed<T>,
    agent: &Agent,
    is_semantic: bool,
    known: &mut HashMap<String, (bool, bool)>,
    refusals: &mut Refusals,
    id: impl Fn(&T) -> &String,
) -> Option<T> {
    let (owner, node) = match parsed {
        Ok(parsed) => parsed,
        Err(what) => {
            refusals.add(table, Why::Malformed, || format!("row {number}: {what}"));
            return None;
        }
    };
    let is_own = owner == agent.as_str();
    if !is_own {
        refusals.add(table, Why::Foreign, || format!("row {number}: {}, of the agent `{owner}`", id(&node)));
    } else if let Err(Fault { member, why }) = node.judge() {
        refusals.add(table, Why::Malformed, || format!("row {number}: {member} {why}"));
        return None;
    } else if known.contains_key(id(&node)) {
        refusals.add(table, Why::Taken, || format!("row {number}: {}", id(&node)));
        return None;
    }
    known.entry(id(&node).clone()).or_insert((is_semantic, is_own));
    is_own.then_some(node)
}

fn semantic(mut cells: Cells<'_, '_>) -> Parsed<Semantic> {
    let memory_id = cells.text()?;
    let owner = cells.text()?;
    let node = Semantic {
        memory_id,
        concept: cells.text()?,
        content: cells.text()?,
        confidence: cells.real()?,
        source_id: cells.text()?,
        tags: cells.json()?,
        metadata: cells.json()?,
        created_at: cells.text()?,
        entity_name: cells.text()?,
    };
    Ok((owner, node))
}

fn episodic(mut cells: Cells<'_, '_>) -> Parsed<Episodic> {
    let memory_id = cells.text()?;
    let owner = cells.text()?;
    let node = Episodic {
        memory_id,
        content: cells.text()?,
        source_label: cells.text()?,
        tags: cells.json()?,
        metadata: cells.json()?,
        created_at: cells.text()?,
    };
    Ok((owner, node))
}

fn edge(kind: EdgeKind, mut cells: Cells<'_, '_>) -> std::result::Result<Edge, String> {
    fn judged<T: Row>(edge: T, wrap: impl Fn(T) -> Edge) -> std::result::Result<Edge, String> {
        match edge.judge() {
            Ok(()) => Ok(wrap(edge)),
            Err(Fault { member, why }) => Err(format!("{member} {why}")),
        }
    }
    let (source_id, target_id) = (cells.text()?, cells.text()?);
    match kind {
        EdgeKind::SimilarTo => judged(
            SimilarTo { source_id, target_id, weight: cells.real()?, metadata: cells.json()? },
            Edge::SimilarTo,
        ),
        EdgeKind::DerivesFrom => judged(
            DerivesFrom { source_id, target_id, extraction_method: cells.text()?, confidence: cells.real()? },
            Edge::DerivesFrom,
        ),
        EdgeKind::Supersedes => judged(
            Supersedes { source_id, target_id, reason: cells.text()?, temporal_delta: cells.text()? },
            Edge::Supersedes,
        ),
        EdgeKind::TransitionedTo => judged(
            TransitionedTo {
                source_id,
                target_id,
                from_value: cells.text()?,
                to_value: cells.text()?,
                turn: cells.int()?,
                transition_type: cells.text()?,
            },
            Edge::TransitionedTo,
        ),
    }
}
