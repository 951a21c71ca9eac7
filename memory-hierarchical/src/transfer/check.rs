//! The rules for a graph from a file, the same for both modes of import. A file with a fault is refused as a whole,
//! with the place of the fault, before anything is written: nobody could rely on a graph from which rows were silently
//! dropped, and whoever wrote the file can fix the place.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use super::circles::on_circles;
use super::graph::Graph;
use super::tables::Tables;
use crate::limits::{MAX_ID_BYTES, MAX_ROW_BYTES, MAX_SHORT_BYTES, is_within_depth};
use crate::model::{
    DerivesFrom, Edge, EdgeKind, Episodic, Node, Semantic, SimilarTo, Supersedes, TransitionedTo,
};
use crate::rows::{Row, Table};

/// What is wrong with a member of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) member: &'static str,
    pub(crate) why: &'static str,
}

type Judged = std::result::Result<(), Fault>;

fn judge(is_fine: bool, member: &'static str, why: &'static str) -> Judged {
    if is_fine { Ok(()) } else { Err(Fault { member, why }) }
}

fn id(member: &'static str, id: &str) -> Judged {
    judge(!id.is_empty(), member, "is empty")?;
    judge(id.len() <= MAX_ID_BYTES, member, "is longer than 255 bytes")
}

fn share(member: &'static str, number: f64) -> Judged {
    judge((0.0..=1.0).contains(&number), member, "is not within 0 and 1")
}

/// What is stored of members, in bytes.
type Bytes = std::result::Result<usize, Fault>;

/// A row has to fit into every store.
fn fits(bytes: usize, member: &'static str) -> Judged {
    judge(bytes <= MAX_ROW_BYTES, member, "makes the row longer than 4,000,000 bytes")
}

/// PostgreSQL keeps no text with U+0000. Tags and metadata are written as JSON, which escapes it.
fn texts(texts: &[(&'static str, &str)]) -> Bytes {
    texts.iter().try_fold(0, |bytes, (member, text)| {
        judge(!text.contains('\0'), member, "contains U+0000")?;
        Ok(bytes + text.len())
    })
}

fn written(value: &(impl Serialize + ?Sized)) -> usize {
    serde_json::to_vec(value).map_or(MAX_ROW_BYTES + 1, |text| text.len())
}

/// A number outside the range of a double would read back as something else.
fn metadata(value: &Value) -> Bytes {
    fn is_finite(value: &Value) -> bool {
        match value {
            Value::Number(number) => number.as_f64().is_some_and(f64::is_finite),
            Value::Array(items) => items.iter().all(is_finite),
            Value::Object(members) => members.values().all(is_finite),
            _ => true,
        }
    }
    judge(is_within_depth(value), "metadata", "is nested deeper than 127 levels")?;
    judge(is_finite(value), "metadata", "has a number out of range")?;
    Ok(written(value))
}

/// What can be judged from one row alone.
pub(crate) trait Judge {
    fn judge(&self) -> Judged;
}

impl Judge for Row {
    fn judge(&self) -> Judged {
        match self {
            Self::Node(Node::Semantic(node)) => node.judge(),
            Self::Node(Node::Episodic(node)) => node.judge(),
            Self::Edge(Edge::SimilarTo(edge)) => edge.judge(),
            Self::Edge(Edge::DerivesFrom(edge)) => edge.judge(),
            Self::Edge(Edge::Supersedes(edge)) => edge.judge(),
            Self::Edge(Edge::TransitionedTo(edge)) => edge.judge(),
        }
    }
}

impl Judge for Semantic {
    fn judge(&self) -> Judged {
        id("memory_id", &self.memory_id)?;
        share("confidence", self.confidence)?;
        judge(self.entity_name.len() <= MAX_SHORT_BYTES, "entity_name", "is longer than 1,024 bytes")?;
        let bytes = texts(&[
            ("memory_id", &self.memory_id),
            ("concept", &self.concept),
            ("content", &self.content),
            ("source_id", &self.source_id),
            ("created_at", &self.created_at),
            ("entity_name", &self.entity_name),
        ])?;
        fits(bytes + written(&self.tags) + metadata(&self.metadata)?, "content")
    }
}

impl Judge for Episodic {
    fn judge(&self) -> Judged {
        id("memory_id", &self.memory_id)?;
        let bytes = texts(&[
            ("memory_id", &self.memory_id),
            ("content", &self.content),
            ("source_label", &self.source_label),
            ("created_at", &self.created_at),
        ])?;
        fits(bytes + written(&self.tags) + metadata(&self.metadata)?, "content")
    }
}

impl Judge for SimilarTo {
    fn judge(&self) -> Judged {
        share("weight", self.weight)?;
        fits(metadata(&self.metadata)?, "metadata")
    }
}

impl Judge for DerivesFrom {
    fn judge(&self) -> Judged {
        share("confidence", self.confidence)?;
        fits(texts(&[("extraction_method", &self.extraction_method)])?, "extraction_method")
    }
}

impl Judge for Supersedes {
    fn judge(&self) -> Judged {
        fits(texts(&[("reason", &self.reason), ("temporal_delta", &self.temporal_delta)])?, "reason")
    }
}

impl Judge for TransitionedTo {
    fn judge(&self) -> Judged {
        let bytes = texts(&[
            ("from_value", &self.from_value),
            ("to_value", &self.to_value),
            ("transition_type", &self.transition_type),
        ])?;
        fits(bytes, "from_value")
    }
}

fn refused(place: String, why: &str) -> Error {
    Error::corrupt(format!("{place} {why}; nothing was imported: mend the file, or export it again"))
        .with_detail("place", place)
}

fn each<T: Judge>(table: &str, rows: &[T]) -> Result<()> {
    rows.iter().enumerate().try_for_each(|(index, row)| {
        row.judge().map_err(|fault| refused(format!("{table}[{index}].{}", fault.member), fault.why))
    })
}

/// Whether a memory of the file is semantic, and its place in the table.
type Known<'a> = HashMap<&'a str, (bool, usize)>;

/// Finds rows that later ones repeat: a memory may be repeated unchanged, never with other content.
fn repeated_nodes<'a, T: PartialEq>(
    known: &mut Known<'a>,
    is_semantic: bool,
    rows: &'a [T],
    id: impl Fn(&T) -> &str,
) -> Result<Vec<usize>> {
    let table = if is_semantic { "semantic_nodes" } else { "episodic_nodes" };
    let mut repeated = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        match known.entry(id(row)) {
            Entry::Vacant(place) => {
                place.insert((is_semantic, index));
            }
            Entry::Occupied(first) => {
                let (kind, first) = *first.get();
                if kind != is_semantic || rows.get(first) != Some(row) {
                    return Err(refused(
                        format!("{table}[{index}].memory_id"),
                        "is the id of another memory of the file, which says something else",
                    ));
                }
                repeated.push(index);
            }
        }
    }
    Ok(repeated)
}

impl Graph {
    /// Checks everything that can be checked in the file, and removes repetitions: equal memories, and further edges of
    /// the same kind between the same two. Returns how many of each.
    ///
    /// `there`: what the graph has into which the file is merged; its edges may end there too.
    ///
    /// # Errors
    /// `corrupt` with the place.
    pub(super) fn check(&mut self, there: Option<&There>) -> Result<Tables<u64>> {
        each("semantic_nodes", &self.semantic)?;
        each("episodic_nodes", &self.episodic)?;
        each("similar_to_edges", &self.similar_to)?;
        each("derives_from_edges", &self.derives_from)?;
        each("supersedes_edges", &self.supersedes)?;
        each("transitioned_to_edges", &self.transitioned_to)?;
        let mut known = Known::new();
        let semantic = repeated_nodes(&mut known, true, &self.semantic, |node| &node.memory_id)?;
        let episodic = repeated_nodes(&mut known, false, &self.episodic, |node| &node.memory_id)?;
        let nodes = Nodes { known, there };
        let similar_to =
            nodes.repeated(EdgeKind::SimilarTo, &self.similar_to, |e| (&e.source_id, &e.target_id))?;
        let derives_from =
            nodes.repeated(EdgeKind::DerivesFrom, &self.derives_from, |e| (&e.source_id, &e.target_id))?;
        let supersedes =
            nodes.repeated(EdgeKind::Supersedes, &self.supersedes, |e| (&e.source_id, &e.target_id))?;
        let transitioned_to = nodes
            .repeated(EdgeKind::TransitionedTo, &self.transitioned_to, |e| (&e.source_id, &e.target_id))?;
        check_circles(&self.supersedes, there)?;
        Ok(Tables {
            semantic_nodes: without(&mut self.semantic, &semantic),
            episodic_nodes: without(&mut self.episodic, &episodic),
            similar_to_edges: without(&mut self.similar_to, &similar_to),
            derives_from_edges: without(&mut self.derives_from, &derives_from),
            supersedes_edges: without(&mut self.supersedes, &supersedes),
            transitioned_to_edges: without(&mut self.transitioned_to, &transitioned_to),
        })
    }
}

/// What the graph has of the memories at which a file's edges end.
#[derive(Debug, Default)]
pub(super) struct There {
    pub(super) semantic: HashSet<String>,
    pub(super) episodic: HashSet<String>,
    /// The ends of its `SUPERSEDES` edges.
    pub(super) supersedes: HashSet<(String, String)>,
}

/// Refuses edges that form a circle of memories superseding each other.
fn check_circles(edges: &[Supersedes], there: Option<&There>) -> Result<()> {
    let given = edges.iter().map(|edge| (edge.source_id.as_str(), edge.target_id.as_str()));
    let held = there.into_iter().flat_map(|there| &there.supersedes);
    let all = given.chain(held.map(|(source, target)| (source.as_str(), target.as_str())));
    let is_new = |edge: &Supersedes| {
        let ends = (edge.source_id.clone(), edge.target_id.clone());
        there.is_none_or(|there| !there.supersedes.contains(&ends))
    };
    match on_circles(all).into_iter().find(|place| edges.get(*place).is_some_and(is_new)) {
        Some(place) => {
            let why = "is part of a circle of memories that supersede each other";
            Err(refused(format!("supersedes_edges[{place}]"), why))
        }
        None => Ok(()),
    }
}

/// The memories of a file, and those of the graph it is merged into.
struct Nodes<'a> {
    known: Known<'a>,
    there: Option<&'a There>,
}

impl Nodes<'_> {
    /// Whether the id belongs to a semantic memory. What the graph already has stays as it is.
    fn is_semantic(&self, id: &str) -> Option<bool> {
        match self.there {
            Some(there) if there.semantic.contains(id) => Some(true),
            Some(there) if there.episodic.contains(id) => Some(false),
            _ => self.known.get(id).map(|(is_semantic, _)| *is_semantic),
        }
    }

    /// Checks the ends of edges; returns which edges repeat an earlier one.
    fn repeated<T>(
        &self,
        kind: EdgeKind,
        edges: &[T],
        ends: impl Fn(&T) -> (&str, &str),
    ) -> Result<Vec<usize>> {
        let (mut seen, mut repeated) = (HashSet::new(), Vec::new());
        for (index, edge) in edges.iter().enumerate() {
            let (source, target) = ends(edge);
            let wants_semantic = Table::of_targets(kind) == Table::Semantic;
            for (member, id, semantic) in [("source_id", source, true), ("target_id", target, wants_semantic)]
            {
                let fault = match self.is_semantic(id) {
                    Some(is_semantic) if is_semantic == semantic => continue,
                    Some(_) => "is the id of a memory of the other kind",
                    None if self.there.is_some() => "is the id of no memory of the file or the graph",
                    None => "is the id of no memory of the file",
                };
                return Err(refused(format!("{}[{index}].{member}", Table::Edges(kind).name()), fault));
            }
            if !seen.insert((source, target)) {
                repeated.push(index);
            }
        }
        Ok(repeated)
    }
}

/// Removes the rows at these places, which are in ascending order.
fn without<T>(rows: &mut Vec<T>, places: &[usize]) -> u64 {
    let (mut index, mut next) = (0, places.iter().peekable());
    rows.retain(|_| {
        let goes = next.next_if_eq(&&index).is_some();
        index += 1;
        !goes
    });
    u64::try_from(places.len()).unwrap_or(u64::MAX)
}
