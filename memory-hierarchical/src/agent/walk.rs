//! Neighbours and paths.

use std::collections::{HashMap, HashSet};

use memory_core::{Error, Result};

use super::answers::{Neighbour, Neighbours};
use super::memory::AgentMemory;
use crate::model::{Edge, EdgeKind, Node};
use crate::rows::{Order, Page, Table};
use crate::store::{Direction, in_order};

/// Most steps of a path.
pub const MAX_STEPS: usize = 16;
/// Most memories that the search for a path visits before it finds one.
const MAX_VISITED: usize = 100_000;
/// Memories whose edges are read at once.
const CHUNK: usize = 500;

impl AgentMemory {
    /// The neighbours of a memory over edges of these kinds, at most `limit`.
    ///
    /// # Errors
    /// `not_found` for an unknown id; the store's errors.
    pub async fn neighbours(
        &self,
        id: &str,
        direction: Direction,
        kinds: &[EdgeKind],
        limit: usize,
    ) -> Result<Neighbours> {
        self.require(&[id.to_owned()]).await?;
        let (mut edges, mut total) = (Vec::new(), 0);
        for &kind in kinds {
            let table = Table::Edges(kind);
            total += self.graphs.degree(&self.agent, table, direction, id).await?;
            // As many as requested from each end, because only then is it known which come first.
            let wanted = limit.saturating_sub(edges.len());
            let mut of_kind = Vec::new();
            for column in direction.columns() {
                let page = Page { order: Order::At(column, id), after: &[], limit: wanted };
                let rows = self.graphs.page(&self.agent, table, page).await?;
                of_kind.extend(rows.into_iter().filter_map(|(_, row)| row.edge()));
            }
            in_order(&mut of_kind);
            edges.extend(of_kind.into_iter().take(wanted));
        }
        let others: HashSet<String> = edges.iter().map(|edge| edge.other_end(id).to_owned()).collect();
        let others: Vec<String> = others.into_iter().collect();
        let nodes = self.graphs.nodes(&self.agent, &others).await?;
        let nodes: HashMap<&str, &Node> = nodes.iter().map(|node| (node.id(), node)).collect();
        let beside = |edge: Edge| {
            let node = (*nodes.get(edge.other_end(id))?).clone();
            Some(Neighbour { edge, node })
        };
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        Ok(Neighbours { total, shown: edges.into_iter().filter_map(beside).collect() })
    }

    /// A shortest path of at most `max_steps` edges from one memory to another, followed in this direction; `None` if
    /// there is none. If there are several, the one whose edges come first by kind, source and target.
    ///
    /// # Errors
    /// `not_found` for an unknown id; `too_large` for more than [`MAX_STEPS`]; `result_too_large` if the search has
    /// visited 100,000 memories without success; the store's errors.
    pub async fn path(
        &self,
        from: &str,
        to: &str,
        direction: Direction,
        max_steps: usize,
    ) -> Result<Option<Vec<Edge>>> {
        if max_steps > MAX_STEPS {
            return Err(Error::too_large("path", max_steps, MAX_STEPS, "steps"));
        }
        self.require(&[from.to_owned(), to.to_owned()]).await?;
        // The edge by which each memory was reached; none for the first.
        let mut reached: HashMap<String, Option<Edge>> = HashMap::from([(from.to_owned(), None)]);
        let mut frontier = vec![from.to_owned()];
        for _ in 0..max_steps {
            if reached.contains_key(to) || frontier.is_empty() {
                break;
            }
            let mut next: HashMap<String, Edge> = HashMap::new();
            for some in frontier.chunks(CHUNK) {
                let here: HashSet<&str> = some.iter().map(String::as_str).collect();
                for edge in self.graphs.edges(&self.agent, some, direction, &EdgeKind::ALL).await? {
                    for end in onward(&edge, direction, &here) {
                        if reached.contains_key(&end) {
                            continue;
                        }
                        let first = next.entry(end).or_insert_with(|| edge.clone());
                        if (edge.kind(), edge.ends()) < (first.kind(), first.ends()) {
                            *first = edge.clone();
                        }
                    }
                }
                if reached.len() + next.len() > MAX_VISITED && !next.contains_key(to) {
                    return Err(Error::result_too_large(
                        "a path of so many steps passes too many memories; ask for fewer steps",
                    ));
                }
            }
            frontier = next.keys().cloned().collect();
            reached.extend(next.into_iter().map(|(id, edge)| (id, Some(edge))));
        }
        Ok(traced(&mut reached, to))
    }

    async fn require(&self, ids: &[String]) -> Result<()> {
        let nodes = self.graphs.nodes(&self.agent, ids).await?;
        match ids.iter().find(|id| !nodes.iter().any(|node| node.id() == id.as_str())) {
            None => Ok(()),
            Some(id) => Err(Error::not_found(format!(
                "this agent has no memory `{id}`; recall finds memories with their ids"
            ))
            .with_detail("memory_id", id.as_str())),
        }
    }
}

/// Where an edge leads from these memories.
fn onward(edge: &Edge, direction: Direction, here: &HashSet<&str>) -> Vec<String> {
    let (source, target) = edge.ends();
    let mut ends = Vec::new();
    if direction != Direction::Incoming && here.contains(source) {
        ends.push(target.to_owned());
    }
    if direction != Direction::Outgoing && here.contains(target) {
        ends.push(source.to_owned());
    }
    ends
}

/// The edges back from the end to the beginning, the first one first.
fn traced(reached: &mut HashMap<String, Option<Edge>>, to: &str) -> Option<Vec<Edge>> {
    let mut path = Vec::new();
    let mut at = to.to_owned();
    while let Some(edge) = reached.remove(&at)? {
        at = edge.other_end(&at).to_owned();
        path.push(edge);
    }
    path.reverse();
    Some(path)
}
