//! How knowledge about an entity changed.

use std::collections::{BTreeSet, HashMap};

use memory_core::{Error, Result};

use super::answers::HistoryEntry;
use super::memory::AgentMemory;
use crate::model::{Edge, EdgeKind, Node, Semantic};
use crate::rows::{Order, Page, Row, Table};
use crate::store::Direction;

/// Most memories of an entity.
const MAX_HISTORY: usize = 10_000;

impl AgentMemory {
    /// What was and is known about an entity, oldest first. A memory comes after those that it supersedes and the one
    /// it is a transition from; otherwise order is by time and id.
    ///
    /// # Errors
    /// `too_large` for an entity with more than 10,000 memories; the store's errors.
    pub async fn history(&self, entity: &str) -> Result<Vec<HistoryEntry>> {
        let page = Page { order: Order::Entity(entity), after: &[], limit: MAX_HISTORY + 1 };
        let rows = self.graphs.page(&self.agent, Table::Semantic, page).await?;
        let semantic = |(_, row)| if let Row::Node(Node::Semantic(node)) = row { Some(node) } else { None };
        let memories: Vec<Semantic> = rows.into_iter().filter_map(semantic).collect();
        if memories.len() > MAX_HISTORY {
            return Err(Error::too_large("history", memories.len(), MAX_HISTORY, "memories"));
        }
        let ids: Vec<String> = memories.iter().map(|memory| memory.memory_id.clone()).collect();
        let kinds = [EdgeKind::Supersedes, EdgeKind::TransitionedTo];
        let edges = self.graphs.edges(&self.agent, &ids, Direction::Both, &kinds).await?;
        Ok(in_order(memories, &edges))
    }
}

/// Sorts memories so that each follows those at which its edges end. Among those free to come next, the oldest does; a
/// circle is broken in the same way.
fn in_order(memories: Vec<Semantic>, edges: &[Edge]) -> Vec<HistoryEntry> {
    let mut waits: HashMap<&str, usize> = HashMap::new();
    let mut followers: HashMap<&str, Vec<&Edge>> = HashMap::new();
    let known: BTreeSet<&str> = memories.iter().map(|memory| memory.memory_id.as_str()).collect();
    let within = |edge: &&Edge| {
        let (source, target) = edge.ends();
        source != target && known.contains(source) && known.contains(target)
    };
    for edge in edges.iter().filter(within) {
        let (source, target) = edge.ends();
        *waits.entry(source).or_default() += 1;
        followers.entry(target).or_default().push(edge);
    }
    // Memories that wait for nothing come first, then the oldest. Times are compared as the given text, so that
    // ordering never fails.
    let key = |memory: &Semantic, waits: &HashMap<&str, usize>| {
        let open = waits.get(memory.memory_id.as_str()).copied().unwrap_or_default();
        (open, memory.created_at.clone(), memory.memory_id.clone())
    };
    let by_id: HashMap<&str, &Semantic> =
        memories.iter().map(|memory| (memory.memory_id.as_str(), memory)).collect();
    let mut queue: BTreeSet<(usize, String, String)> =
        memories.iter().map(|memory| key(memory, &waits)).collect();
    let mut ordered = Vec::with_capacity(memories.len());
    while let Some((_, _, id)) = queue.pop_first() {
        for edge in followers.get(id.as_str()).into_iter().flatten() {
            let Some(memory) = by_id.get(edge.ends().0) else { continue };
            if !queue.remove(&key(memory, &waits)) {
                continue;
            }
            if let Some(open) = waits.get_mut(edge.ends().0) {
                *open = open.saturating_sub(1);
            }
            queue.insert(key(memory, &waits));
        }
        ordered.push(id);
    }
    let mut entries = Vec::with_capacity(ordered.len());
    let mut from = grouped(edges.iter().filter(within), |edge| edge.ends().0);
    let supersedes = edges.iter().filter(|edge| edge.kind() == EdgeKind::Supersedes);
    let mut superseded = grouped(supersedes, |edge| edge.ends().1);
    for id in ordered {
        let Some(memory) = by_id.get(id.as_str()) else { continue };
        let newer = superseded.remove(id.as_str()).unwrap_or_default();
        entries.push(HistoryEntry {
            memory: (*memory).clone(),
            from: from.remove(id.as_str()).unwrap_or_default(),
            superseded_by: newer.into_iter().map(|edge| edge.ends().0.to_owned()).collect(),
        });
    }
    entries
}

/// Edges by one of their ends.
fn grouped<'a>(
    edges: impl Iterator<Item = &'a Edge>,
    end: impl Fn(&'a Edge) -> &'a str,
) -> HashMap<&'a str, Vec<Edge>> {
    let mut groups: HashMap<&str, Vec<Edge>> = HashMap::new();
    for edge in edges {
        groups.entry(end(edge)).or_default().push(edge.clone());
    }
    groups
}
