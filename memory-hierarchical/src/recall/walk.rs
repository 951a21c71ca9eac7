//! From the memories that the words found along edges, the score decaying with every step.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::index::{GraphIndex, Link};
use super::options::{RecallOptions, Step};

/// Memories found by words from which a walk begins.
const SEEDS: usize = 50;
/// Edges that one walk looks at; the best memories are walked on first.
const MAX_LOOKS: usize = 50_000;

/// A memory that a walk reached.
struct Reached {
    score: f64,
    /// Where it was reached from, and over what; `None` for one that the words found.
    by: Option<(u32, Link)>,
}

/// A memory with its place in the answer.
pub(super) struct Ranked {
    pub(super) number: u32,
    pub(super) score: f64,
    pub(super) path: Vec<Step>,
}

/// The best memories for a query: those that nothing superseded first, then by score, then by id.
pub(super) fn ranked(index: &GraphIndex, query: &str, options: &RecallOptions) -> Vec<Ranked> {
    let mut reached: HashMap<u32, Reached> = HashMap::new();
    let mut frontier = Vec::new();
    for hit in index.matches(query, SEEDS.max(options.top_k)) {
        reached.insert(hit.key, Reached { score: hit.score, by: None });
        frontier.push(hit.key);
    }
    frontier.truncate(SEEDS);
    let mut looks = 0;
    for _ in 0..options.steps {
        frontier = step(index, options, frontier, &mut reached, &mut looks);
    }
    let mut order: Vec<(u32, f64)> = reached.iter().map(|(number, one)| (*number, one.score)).collect();
    order.sort_by(|a, b| in_answer(index, *a, *b));
    order.truncate(options.top_k);
    let with_path = |(number, score)| Ranked { number, score, path: path(index, &reached, number) };
    order.into_iter().map(with_path).collect()
}

/// One step from each memory of the frontier. Returns what it improved, the best first.
fn step(
    index: &GraphIndex,
    options: &RecallOptions,
    frontier: Vec<u32>,
    reached: &mut HashMap<u32, Reached>,
    looks: &mut usize,
) -> Vec<u32> {
    // All of them begin with the score that they had before this step.
    let begun: Vec<(u32, f64)> =
        frontier.into_iter().filter_map(|number| Some((number, reached.get(&number)?.score))).collect();
    let mut improved = Vec::new();
    for (from, score) in begun {
        for link in index.links(from) {
            *looks += 1;
            if *looks > MAX_LOOKS {
                break;
            }
            let left = score * options.decay * link.strength;
            if left <= 0.0 || reached.get(&link.to).is_some_and(|known| known.score >= left) {
                continue;
            }
            reached.insert(link.to, Reached { score: left, by: Some((from, *link)) });
            improved.push(link.to);
        }
    }
    let score = |number: &u32| reached.get(number).map_or(0.0, |one| one.score);
    improved.sort_unstable();
    improved.dedup();
    improved.sort_by(|a, b| score(b).total_cmp(&score(a)).then_with(|| index.id(*a).cmp(index.id(*b))));
    improved
}

fn in_answer(index: &GraphIndex, (a, score_a): (u32, f64), (b, score_b): (u32, f64)) -> Ordering {
    index
        .is_superseded(a)
        .cmp(&index.is_superseded(b))
        .then_with(|| score_b.total_cmp(&score_a))
        .then_with(|| index.id(a).cmp(index.id(b)))
}

/// The steps from a memory that the words found. Scores fall along them, so they do not come back.
fn path(index: &GraphIndex, reached: &HashMap<u32, Reached>, number: u32) -> Vec<Step> {
    let (mut steps, mut at) = (Vec::new(), number);
    while let Some((from, link)) = reached.get(&at).and_then(|one| one.by) {
        steps.push(Step {
            kind: link.kind,
            from: index.id(from).to_owned(),
            to: index.id(at).to_owned(),
            is_forward: link.is_forward,
        });
        at = from;
        if steps.len() > reached.len() {
            break;
        }
    }
    steps.reverse();
    steps
}
