//! One agent's graph in memory, with what recall needs. Contains no text.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::mem::size_of;
use std::sync::{Arc, OnceLock};

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

/// The edges at a memory.
#[derive(Debug, Default)]
struct Links {
    /// As they came.
    all: Vec<Link>,
    /// Their places in walking order, from the first walk on: most memories are never walked from.
    order: OnceLock<Vec<u32>>,
}

impl Links {
    fn push(&mut self, link: Link, ids: &[Arc<str>]) {
        if let Some(order) = self.order.get_mut() {
            let earlier = |known: &u32| {
                self.all
                    .get(place(*known))
                    .is_some_and(|known| in_order(known, &link, ids) != Ordering::Greater)
            };
            order.insert(order.partition_point(earlier), numbered(self.all.len()));
        }
        self.all.push(link);
    }

    fn at(&self, at: usize, ids: &[Arc<str>]) -> Option<Link> {
        let order = self.order.get_or_init(|| {
            let mut all: Vec<(u32, &Link)> = (0..).zip(&self.all).collect();
            all.sort_by(|(_, a), (_, b)| in_order(a, b, ids));
            all.into_iter().map(|(number, _)| number).collect()
        });
        order.get(at).and_then(|&number| self.all.get(place(number))).copied()
    }
}

/// The strongest first, then by the id at the other end.
fn in_order(a: &Link, b: &Link, ids: &[Arc<str>]) -> Ordering {
    let rest = |link: &Link| (id_of(ids, link.to), link.kind, link.is_forward);
    b.strength.total_cmp(&a.strength).then_with(|| rest(a).cmp(&rest(b)))
}

fn id_of(ids: &[Arc<str>], number: u32) -> &str {
    ids.get(place(number)).map_or("", |id| id)
}

/// A graph without its texts.
#[derive(Debug, Default)]
pub(super) struct GraphIndex {
    /// The revision it reflects; 0 if nothing was read.
    pub(super) revision: u64,
    ids: Vec<Arc<str>>,
    by_id: HashMap<Arc<str>, u32>,
    is_superseded: Vec<bool>,
    links: Vec<Links>,
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
        // A graph cannot grow beyond the range of the numbers.
        let Ok(number) = u32::try_from(self.ids.len()) else { return };
        let id: Arc<str> = node.id().into();
        self.id_bytes += id.len();
        self.ids.push(Arc::clone(&id));
        self.by_id.insert(id, number);
        self.is_superseded.push(false);
        self.links.push(Links::default());
        self.words.insert(number, &words(node), None);
    }

    fn add_edge(&mut self, edge: &Edge) {
        let (source, target) = edge.ends();
        let (Some(&source), Some(&target)) = (self.by_id.get(source), self.by_id.get(target)) else { return };
        let (kind, strength) = (edge.kind(), strength(edge));
        for (from, to, is_forward) in [(source, target, true), (target, source, false)] {
            if let Some(links) = self.links.get_mut(place(from)) {
                links.push(Link { to, kind, is_forward, strength }, &self.ids);
                self.link_count += 1;
            }
        }
        if kind == EdgeKind::Supersedes
            && let Some(is_superseded) = self.is_superseded.get_mut(place(target))
        {
            *is_superseded = true;
        }
    }

    /// The memories whose words match best.
    pub(super) fn matches(&self, query: &str, limit: usize) -> Vec<LexicalHit<u32>> {
        self.words.search(query, |_| true, limit)
    }

    /// One of the edges at a memory: the strongest is the first; of equal ones, the one to the smaller id.
    pub(super) fn link(&self, number: u32, at: usize) -> Option<Link> {
        self.links.get(place(number))?.at(at, &self.ids)
    }

    pub(super) fn id(&self, number: u32) -> &str {
        id_of(&self.ids, number)
    }

    pub(super) fn is_superseded(&self, number: u32) -> bool {
        self.is_superseded.get(place(number)).copied().unwrap_or_default()
    }

    /// Bytes on the heap, estimated.
    pub(super) fn bytes(&self) -> usize {
        let per_node = 2 * size_of::<Arc<str>>() + size_of::<Links>() + 32;
        self.words.heap_bytes()
            + self.ids.len() * per_node
            + self.id_bytes
            + self.link_count * (size_of::<Link>() + size_of::<u32>()) * 3 / 2
    }
}

/// A graph cannot grow beyond the range of the numbers.
fn numbered(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
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

/// A file may contain values that a write refuses; a walk must never gain.
fn strength(edge: &Edge) -> f64 {
    match edge {
        Edge::SimilarTo(edge) => edge.weight.clamp(0.0, 1.0),
        Edge::DerivesFrom(edge) => edge.confidence.clamp(0.0, 1.0),
        Edge::Supersedes(_) | Edge::TransitionedTo(_) => 1.0,
    }
}
