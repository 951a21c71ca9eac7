//! What a graph from a file must keep to. One rule for both modes of import: a file with a fault is refused whole, with the
//! place of the fault, before anything is written. A count of rows that were silently left out is not a graph that somebody
//! can rely on, and whoever wrote the file can mend the place.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use memory_core::{Error, ErrorKind, Result};
use serde_json::Value;

use super::graph::Graph;
use super::tables::{Tables, edge_table};
use crate::limits::{MAX_ID_BYTES, MAX_SHORT_BYTES};
use crate::model::{DerivesFrom, EdgeKind, Episodic, Semantic, SimilarTo, Supersedes, TransitionedTo};

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

/// PostgreSQL keeps no text with U+0000.
fn texts(texts: &[(&'static str, &str)]) -> Judged {
    texts.iter().try_for_each(|(member, text)| judge(!text.contains('\0'), member, "contains U+0000"))
}

fn tags(tags: &[String]) -> Judged {
    judge(!tags.iter().any(|tag| tag.contains('\0')), "tags", "contain U+0000")
}

/// A number beyond what a double holds would read back as something else.
fn metadata(value: &Value) -> Judged {
    fn is_finite(value: &Value) -> bool {
        match value {
            Value::Number(number) => number.as_f64().is_some_and(f64::is_finite),
            Value::Array(items) => items.iter().all(is_finite),
            Value::Object(members) => members.values().all(is_finite),
            _ => true,
        }
    }
    judge(is_finite(value), "metadata", "has a number out of range")
}

/// A row that can be judged by itself.
pub(crate) trait Row: PartialEq {
    fn judge(&self) -> Judged;
}

impl Row for Semantic {
    fn judge(&self) -> Judged {
        id("memory_id", &self.memory_id)?;
        share("confidence", self.confidence)?;
        judge(self.entity_name.len() <= MAX_SHORT_BYTES, "entity_name", "is longer than 1,024 bytes")?;
        texts(&[
            ("memory_id", &self.memory_id),
            ("concept", &self.concept),
            ("content", &self.content),
            ("source_id", &self.source_id),
            ("created_at", &self.created_at),
            ("entity_name", &self.entity_name),
        ])?;
        tags(&self.tags)?;
        metadata(&self.metadata)
    }
}

impl Row for Episodic {
    fn judge(&self) -> Judged {
        id("memory_id", &self.memory_id)?;
        texts(&[
            ("memory_id", &self.memory_id),
            ("content", &self.content),
            ("source_label", &self.source_label),
            ("created_at", &self.created_at),
        ])?;
        tags(&self.tags)?;
        metadata(&self.metadata)
    }
}

impl Row for SimilarTo {
    fn judge(&self) -> Judged {
        share("weight", self.weight)?;
        metadata(&self.metadata)
    }
}

impl Row for DerivesFrom {
    fn judge(&self) -> Judged {
        share("confidence", self.confidence)?;
        texts(&[("extraction_method", &self.extraction_method)])
    }
}

impl Row for Supersedes {
    fn judge(&self) -> Judged {
        texts(&[("reason", &self.reason), ("temporal_delta", &self.temporal_delta)])
    }
}

impl Row for TransitionedTo {
    fn judge(&self) -> Judged {
        texts(&[
            ("from_value", &self.from_value),
            ("to_value", &self.to_value),
            ("transition_type", &self.transition_type),
        ])
    }
}

fn refused(place: String, why: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{place} {why}; nothing was imported: mend the file, or export it again"),
    )
    .with_detail("place", place)
}

fn each<T: Row>(table: &str, rows: &[T]) -> Result<()> {
    rows.iter().enumerate().try_for_each(|(index, row)| {
        row.judge().map_err(|fault| refused(format!("{table}[{index}].{}", fault.member), fault.why))
    })
}

/// Whether a memory of the file is semantic, and its place in the table.
type Known<'a> = HashMap<&'a str, (bool, usize)>;

/// Which rows are repeated by later ones: a memory may be repeated as it is, never as something else.
fn repeated_nodes<'a, T: Row>(
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
    /// Checks everything that can be seen in the file, and takes out what it repeats: equal memories, and edges of a kind between
    /// the same two after the first. Returns how many of each.
    ///
    /// `is_whole`: the ends of its edges must be in the file too. Otherwise the graph may have them.
    ///
    /// # Errors
    /// `corrupt` with the place.
    pub(super) fn check(&mut self, is_whole: bool) -> Result<Tables<u64>> {
        each("semantic_nodes", &self.semantic)?;
        each("episodic_nodes", &self.episodic)?;
        each(edge_table(EdgeKind::SimilarTo), &self.similar_to)?;
        each(edge_table(EdgeKind::DerivesFrom), &self.derives_from)?;
        each(edge_table(EdgeKind::Supersedes), &self.supersedes)?;
        each(edge_table(EdgeKind::TransitionedTo), &self.transitioned_to)?;
        let mut known = Known::new();
        let semantic = repeated_nodes(&mut known, true, &self.semantic, |node| &node.memory_id)?;
        let episodic = repeated_nodes(&mut known, false, &self.episodic, |node| &node.memory_id)?;
        let edges = [
            ends(
                EdgeKind::SimilarTo,
                &known,
                is_whole,
                self.similar_to.iter().map(|e| (&*e.source_id, &*e.target_id)),
            )?,
            ends(
                EdgeKind::DerivesFrom,
                &known,
                is_whole,
                self.derives_from.iter().map(|e| (&*e.source_id, &*e.target_id)),
            )?,
            ends(
                EdgeKind::Supersedes,
                &known,
                is_whole,
                self.supersedes.iter().map(|e| (&*e.source_id, &*e.target_id)),
            )?,
            ends(
                EdgeKind::TransitionedTo,
                &known,
                is_whole,
                self.transitioned_to.iter().map(|e| (&*e.source_id, &*e.target_id)),
            )?,
        ];
        let [similar_to, derives_from, supersedes, transitioned_to] = edges;
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

/// Checks the ends of edges; which of them repeat an earlier one.
fn ends<'a>(
    kind: EdgeKind,
    known: &Known<'_>,
    is_whole: bool,
    edges: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Vec<usize>> {
    let (mut seen, mut repeated) = (HashMap::new(), Vec::new());
    for (index, (source, target)) in edges.enumerate() {
        let wants_semantic = kind != EdgeKind::DerivesFrom;
        for (member, id, semantic) in [("source_id", source, true), ("target_id", target, wants_semantic)] {
            let fault = match known.get(id) {
                Some((kind, _)) if *kind == semantic => continue,
                Some(_) => "is the id of a memory of the other kind",
                None if is_whole || id.contains('\0') => "is the id of no memory of the file",
                None => continue,
            };
            return Err(refused(format!("{}[{index}].{member}", edge_table(kind)), fault));
        }
        if seen.insert((source, target), ()).is_some() {
            repeated.push(index);
        }
    }
    Ok(repeated)
}

/// Takes out the rows at these places, which are in ascending order.
fn without<T>(rows: &mut Vec<T>, places: &[usize]) -> u64 {
    let (mut index, mut next) = (0, places.iter().peekable());
    rows.retain(|_| {
        let goes = next.next_if_eq(&&index).is_some();
        index += 1;
        !goes
    });
    u64::try_from(places.len()).unwrap_or(u64::MAX)
}
