//! One agent's graph in memory, as far as recall needs it. It holds no text.

use std::collections::{BTreeSet, HashMap};
use std::mem::size_of;
use std::sync::Arc;

use memory_core::lexical::{LexicalHit, LexicalIndex};

use crate::model::{Edge, EdgeKind, Node};
use crate::rows::Row;

/// An edge, seen from one of its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) to: u32,
    pub(super) kind: EdgeKind,
    pub(super) is_forward: bool,
    /// Its weight or confidence; 1 for kinds without.
    pub(super) strength: f64,
}

/// A graph without its texts.
#[derive(Debug, Default)]
pub(super) struct GraphIndex {
    /// The revision that it is up to; 0: nothing was read.
    pub(super) revision: u64,
    ids: Vec<Arc<str>>,
    by_id: HashMap<Arc<str>, u32>,
    is_superseded: Vec<bool>,
    links: Vec<Vec<Link>>,
    /// Memories that gained edges since [`settle`](Self::settle).
    unsettled: BTreeSet<u32>,
    words: LexicalIndex<u32>,
    link_count: usize,
    id_bytes: usize,
}

impl GraphIndex {
    /// Takes over what the graph gained. Memories come before the edges at them.
    pub(super) fn apply(&mut self, row: &Row) {
        match row {
            Row::Node(node) => self.add_node(node),
            Row::Edge(edge) => self.add_edge(edge),
        }
    }

    fn add_node(&mut self, node: &Node) {
        if self.by_id.contains_key(node.id()) {
            return;
        }
        // A graph ends long before the numbers do.
        let Ok(number) = u32::try_from(self.ids.len()) else { return };
        let id: Arc<str> = node.id().into();
        self.id_bytes += id.len();
        self.ids.push(Arc::clone(&id));
        self.by_id.insert(id, number);
        self.is_superseded.push(false);
        self.links.push(Vec::new());
        self.words.insert(number, &words(node), None);
    }

    fn add_edge(&mut self, edge: &Edge) {
        let (source, target) = edge.ends();
        let (Some(&source), Some(&target)) = (self.by_id.get(source), self.by_id.get(target)) else { return };
        let (kind, strength) = (edge.kind(), strength(edge));
        for (from, to, is_forward) in [(source, target, true), (target, source, false)] {
            if let Some(links) = self.links.get_mut(place(from)) {
                links.push(Link { to, kind, is_forward, strength });
                self.link_count += 1;
                self.unsettled.insert(from);
            }
        }
        if kind == EdgeKind::Supersedes
            && let Some(is_superseded) = self.is_superseded.get_mut(place(target))
        {
            *is_superseded = true;
        }
    }

    /// Puts the edges at each memory in the order in which walks take them: the strongest first, then by the id at the other
    /// end.
    pub(super) fn settle(&mut self) {
        for number in std::mem::take(&mut self.unsettled) {
            let Some(links) = self.links.get_mut(place(number)) else { continue };
            let mut links = std::mem::take(links);
            links.sort_by(|a, b| {
                let (id_a, id_b) = (self.id(a.to), self.id(b.to));
                b.strength
                    .total_cmp(&a.strength)
                    .then_with(|| (id_a, a.kind, a.is_forward).cmp(&(id_b, b.kind, b.is_forward)))
            });
            if let Some(place) = self.links.get_mut(place(number)) {
                *place = links;
            }
        }
    }

    /// The memories whose words match best.
    pub(super) fn matches(&self, query: &str, limit: usize) -> Vec<LexicalHit<u32>> {
        self.words.search(query, |_| true, limit)
    }

    /// The edges at a memory, in the order of [`settle`](Self::settle).
    pub(super) fn links(&self, number: u32) -> &[Link] {
        self.links.get(place(number)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn id(&self, number: u32) -> &str {
        self.ids.get(place(number)).map_or("", |id| id)
    }

    pub(super) fn is_superseded(&self, number: u32) -> bool {
        self.is_superseded.get(place(number)).copied().unwrap_or_default()
    }

    /// Bytes on the heap, estimated.
    pub(super) fn bytes(&self) -> usize {
        let per_node = 2 * size_of::<Arc<str>>() + size_of::<Vec<Link>>() + 32;
        self.words.heap_bytes()
            + self.ids.len() * per_node
            + self.id_bytes
            + self.link_count * size_of::<Link>() * 3 / 2
    }
}

fn place(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What is found by its words.
fn words(node: &Node) -> String {
    match node {
        Node::Semantic(node) => {
            format!("{}\n{}\n{}\n{}", node.concept, node.content, node.entity_name, node.tags.join("\n"))
        }
        Node::Episodic(node) => format!("{}\n{}", node.content, node.tags.join("\n")),
    }
}

/// A file may bring what a write refuses; a walk never gains.
fn strength(edge: &Edge) -> f64 {
    match edge {
        Edge::SimilarTo(edge) => edge.weight.clamp(0.0, 1.0),
        Edge::DerivesFrom(edge) => edge.confidence.clamp(0.0, 1.0),
        Edge::Supersedes(_) | Edge::TransitionedTo(_) => 1.0,
    }
}
