//! Walks from the memories that match the words along edges, with scores decaying at every step. The best way is always
//! continued first and, at each memory, the strongest edge. So the cost of a recall grows with its answer, not with the
//! number of edges at a memory.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::index::{GraphIndex, Link};
use super::options::{RecallOptions, Step};

/// Memories that match the words and from which a walk starts.
const SEEDS: usize = 50;

/// A memory with its place in the answer.
pub(super) struct Ranked {
    pub(super) number: u32,
    pub(super) score: f64,
    pub(super) path: Vec<Step>,
}

/// A way to a memory.
struct Way<'a> {
    score: f64,
    number: u32,
    id: &'a str,
    steps: usize,
    /// The edge it took last, and from which way; `None` if the words matched the memory.
    last: Option<Last<'a>>,
}

#[derive(Clone, Copy)]
struct Last<'a> {
    before: usize,
    at: usize,
    from: &'a str,
    link: Link,
}

/// By score; if equal, the memory with the smaller id comes first, then the shorter way. Internal numbers must not
/// decide, because they depend on when the index was read.
impl Ord for Way<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let last = |way: &Self| way.last.map(|last| (last.from, last.link.kind, last.link.is_forward));
        self.score
            .total_cmp(&other.score)
            .then_with(|| other.id.cmp(self.id))
            .then_with(|| other.steps.cmp(&self.steps))
            .then_with(|| last(other).cmp(&last(self)))
    }
}

impl PartialOrd for Way<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Way<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Way<'_> {}

struct Walk<'a> {
    index: &'a GraphIndex,
    options: &'a RecallOptions,
    open: BinaryHeap<Way<'a>>,
    /// The ways from which others continue.
    walked: Vec<Way<'a>>,
}

/// The best memories for a query: those that nothing superseded first, then by score, then by id; and whether the walk ended
/// before it had looked everywhere and found enough.
pub(super) fn ranked(index: &GraphIndex, query: &str, options: &RecallOptions) -> (Vec<Ranked>, bool) {
    let mut walk = Walk { index, options, open: BinaryHeap::new(), walked: Vec::new() };
    for (place, hit) in index.matches(query, SEEDS.max(options.top_k)).into_iter().enumerate() {
        let steps = if place < SEEDS { 0 } else { options.steps };
        let (number, id) = (hit.key, index.id(hit.key));
        walk.open.push(Way { score: hit.score, number, id, steps, last: None });
    }
    // The fewest steps of a way to each memory.
    let mut reached: HashMap<u32, usize> = HashMap::new();
    let (mut current, mut superseded) = (Vec::new(), Vec::new());
    let mut looks = 0..options.looks;
    while current.len() < options.top_k && looks.next().is_some() {
        let Some(way) = walk.open.pop() else { break };
        if let Some(last) = way.last {
            walk.look(last.before, last.at + 1);
        }
        let known = reached.get(&way.number).copied();
        if known.is_some_and(|steps| steps <= way.steps) {
            continue;
        }
        reached.insert(way.number, way.steps);
        if known.is_none() {
            let into = if index.is_superseded(way.number) { &mut superseded } else { &mut current };
            if into.len() < options.top_k {
                into.push(Ranked { number: way.number, score: way.score, path: walk.path(&way) });
            }
        }
        if way.steps < options.steps {
            walk.walked.push(way);
            walk.look(walk.walked.len() - 1, 0);
        }
    }
    let truncated = current.len() < options.top_k && !walk.open.is_empty();
    current.append(&mut superseded);
    current.truncate(options.top_k);
    (current, truncated)
}

impl<'a> Walk<'a> {
    /// Takes up the way over one of the edges at the end of a way, which are ordered by strength: a later one is never better.
    fn look(&mut self, before: usize, at: usize) {
        let index = self.index;
        let Some(way) = self.walked.get(before) else { return };
        let Some(link) = index.link(way.number, at) else { return };
        let score = way.score * self.options.decay * link.strength;
        if score > 0.0 {
            let last = Some(Last { before, at, from: way.id, link });
            let steps = way.steps + 1;
            self.open.push(Way { score, number: link.to, id: index.id(link.to), steps, last });
        }
    }

    /// The steps from a memory that the words found.
    fn path(&self, way: &Way<'a>) -> Vec<Step> {
        let (mut steps, mut at) = (Vec::new(), way);
        while let Some(Last { before, from, link, .. }) = at.last {
            let (from, to) = (from.to_owned(), at.id.to_owned());
            steps.push(Step { kind: link.kind, from, to, is_forward: link.is_forward });
            let Some(earlier) = self.walked.get(before) else { break };
            at = earlier;
        }
        steps.reverse();
        steps
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::model::{Edge, Node, Semantic, SimilarTo, Supersedes};
    use crate::recall::options::MAX_LOOKS;
    use crate::rows::Row;

    fn rows(seed: u64) -> Vec<Row> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        let id = |at: u64| format!("n{at}");
        let count = 3 + below(12);
        let node = |at| {
            let content = if at % 3 == 0 { "proxy" } else { "cache" };
            Row::Node(Node::Semantic(Semantic { memory_id: id(at), ..Semantic::new("", content) }))
        };
        let mut rows: Vec<Row> = (0..count).map(node).collect();
        for _ in 0..below(40) {
            let (source_id, target_id) = (id(below(count)), id(below(count)));
            rows.push(Row::Edge(if below(6) == 0 {
                Edge::Supersedes(Supersedes {
                    source_id,
                    target_id,
                    reason: String::new(),
                    temporal_delta: String::new(),
                })
            } else {
                let weight = [0.0, 0.25, 0.5, 0.9, 1.0][usize::try_from(below(5)).unwrap()];
                Edge::SimilarTo(SimilarTo { source_id, target_id, weight, metadata: json!({}) })
            }));
        }
        rows
    }

    fn index(rows: &[Row]) -> GraphIndex {
        let mut index = GraphIndex::default();
        rows.iter().for_each(|row| index.apply(row));
        index
    }

    fn answer(index: &GraphIndex, options: &RecallOptions) -> Vec<(String, f64, usize)> {
        let found = ranked(index, "proxy", options).0.into_iter();
        found.map(|one| (index.id(one.number).to_owned(), one.score, one.path.len())).collect()
    }

    /// Every way with this many steps, one after another.
    fn naive(index: &GraphIndex, options: &RecallOptions) -> Vec<(String, f64)> {
        let mut best: BTreeMap<u32, f64> =
            index.matches("proxy", SEEDS).into_iter().map(|hit| (hit.key, hit.score)).collect();
        for _ in 0..options.steps {
            for (number, score) in best.clone() {
                for link in (0..).map_while(|at| index.link(number, at)) {
                    let left = score * options.decay * link.strength;
                    let known = best.get(&link.to).copied().unwrap_or(0.0);
                    if left > known {
                        best.insert(link.to, left);
                    }
                }
            }
        }
        let mut all: Vec<(u32, f64)> = best.into_iter().collect();
        all.sort_by(|(a, of_a), (b, of_b)| {
            let last = index.is_superseded(*a).cmp(&index.is_superseded(*b));
            last.then_with(|| of_b.total_cmp(of_a)).then_with(|| index.id(*a).cmp(index.id(*b)))
        });
        all.truncate(options.top_k);
        all.into_iter().map(|(number, score)| (index.id(number).to_owned(), score)).collect()
    }

    #[test]
    fn it_finds_what_every_way_together_finds() {
        for seed in 0..400 {
            let (rows, steps) = (rows(seed), usize::try_from(seed % 5).unwrap());
            let index = index(&rows);
            for top_k in [1, 4, 50] {
                let options = RecallOptions::default().with_top_k(top_k).with_steps(steps);
                let found = answer(&index, &options);
                let plain: Vec<_> = found.iter().map(|(id, score, _)| (id.clone(), *score)).collect();
                assert_eq!(plain, naive(&index, &options), "seed {seed}, {top_k} of {steps} steps");
                assert!(found.iter().all(|(.., path)| *path <= steps), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_walk_that_ends_before_it_has_looked_everywhere_says_so() {
        let rows: Vec<Row> = ["a", "b", "c"]
            .map(|id| {
                Row::Node(Node::Semantic(Semantic { memory_id: id.to_owned(), ..Semantic::new("", "proxy") }))
            })
            .into();
        let index = index(&rows);
        for (looks, top_k, truncated) in
            [(1, 3, true), (2, 3, true), (3, 3, false), (3, 4, false), (1, 1, false)]
        {
            let options = RecallOptions::default().with_top_k(top_k).with_looks(looks);
            let (found, is_cut) = ranked(&index, "proxy", &options);
            assert_eq!((found.len(), is_cut), (looks.min(top_k), truncated), "{looks} looks for {top_k}");
        }
    }

    #[test]
    fn the_order_in_which_edges_were_read_does_not_decide() {
        for seed in 0..100 {
            let mut rows = rows(seed);
            let options = RecallOptions::default().with_top_k(5);
            let first = answer(&index(&rows), &options);
            let edges = rows.iter().position(|row| matches!(row, Row::Edge(_))).unwrap_or(rows.len());
            rows[..edges].reverse();
            rows[edges..].reverse();
            assert_eq!(answer(&index(&rows), &options), first, "seed {seed}");
            // Some of them were added after a walk had put the others in order.
            let late = edges + (rows.len() - edges) / 2;
            let mut index = index(&rows[..late]);
            answer(&index, &options);
            rows[late..].iter().for_each(|row| index.apply(row));
            assert_eq!(answer(&index, &options), first, "seed {seed}");
        }
    }

    /// Regression: a walk looked at 50,000 edges in their stored order and found nothing beyond them.
    #[test]
    fn the_strongest_of_very_many_edges_is_found_wherever_it_is() {
        let node = |id: String, content: &str| {
            Row::Node(Node::Semantic(Semantic { memory_id: id, ..Semantic::new("", content) }))
        };
        let many = MAX_LOOKS + 1;
        let mut rows = vec![node("hub".to_owned(), "proxy")];
        rows.extend((0..many).map(|at| node(format!("n{at:05}"), "")));
        rows.extend((0..many).map(|at| {
            let weight = if at == many - 1 { 1.0 } else { 0.5 };
            let (source_id, target_id) = ("hub".to_owned(), format!("n{at:05}"));
            Row::Edge(Edge::SimilarTo(SimilarTo { source_id, target_id, weight, metadata: json!({}) }))
        }));
        let found = answer(&index(&rows), &RecallOptions::default().with_top_k(3).with_steps(4));
        let ids: Vec<&str> = found.iter().map(|(id, ..)| id.as_str()).collect();
        assert_eq!(ids, ["hub", "n50000", "n00000"]);
    }
}
