//! The options of a recall, and its answer.

use memory_core::limits::{DEFAULT_TOP_K, MAX_QUERY_BYTES};
use memory_core::{Error, Result};
use serde::Serialize;

use crate::model::{EdgeKind, Node};

/// Most hits of a recall.
const MAX_TOP_K: usize = 1_000;
/// Most steps of a walk.
const MAX_STEPS: usize = 4;
/// Most memories and edges that a walk looks at.
pub(super) const MAX_LOOKS: usize = 50_000;

/// How to recall.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecallOptions {
    /// Most hits: 1 to 1,000. Default 10.
    pub top_k: usize,
    /// Edges to walk from a memory that the words found: 0 to 4. Default 2.
    pub steps: usize,
    /// What is left of the score after each step, times the weight or confidence of the edge: 0 to 1. Default 0.5.
    pub decay: f64,
    /// Most memories that the words found and edges from them to look at: 1 to 50,000. Default 50,000.
    pub looks: usize,
}

impl Default for RecallOptions {
    fn default() -> Self {
        Self { top_k: DEFAULT_TOP_K, steps: 2, decay: 0.5, looks: MAX_LOOKS }
    }
}

impl RecallOptions {
    memory_core::setters! {
        with_top_k(top_k: usize);
        with_steps(steps: usize);
        with_looks(looks: usize);
    }

    pub(super) fn check(&self, query: &str) -> Result<()> {
        if query.len() > MAX_QUERY_BYTES {
            return Err(Error::too_large("query", query.len(), MAX_QUERY_BYTES, "bytes"));
        }
        if self.top_k == 0 {
            return Err(Error::invalid("a recall of no hits; ask for 1 to 1,000"));
        }
        if self.top_k > MAX_TOP_K {
            return Err(Error::too_large("top_k", self.top_k, MAX_TOP_K, "hits"));
        }
        if self.steps > MAX_STEPS {
            return Err(Error::too_large("walk", self.steps, MAX_STEPS, "steps"));
        }
        if self.looks == 0 {
            return Err(Error::invalid("a walk that looks at nothing; let it look at 1 to 50,000"));
        }
        if self.looks > MAX_LOOKS {
            return Err(Error::too_large("walk", self.looks, MAX_LOOKS, "looks"));
        }
        if !(0.0..=1.0).contains(&self.decay) {
            return Err(Error::invalid(format!("decay is {}; give a number from 0 to 1", self.decay)));
        }
        Ok(())
    }
}

/// An edge that a walk took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its kind.
    pub kind: EdgeKind,
    /// Where the walk came from.
    pub from: String,
    /// Where it went.
    pub to: String,
    /// Whether it went from the edge's source to its target.
    pub is_forward: bool,
}

/// What a recall found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recalled {
    /// The best first.
    pub hits: Vec<GraphHit>,
    /// Whether the walk used up its [looks](RecallOptions::looks) before it found as many hits as requested. There may
    /// then be more within the steps, but none better than those returned, superseded ones aside.
    pub truncated: bool,
}

/// A recalled memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphHit {
    /// The memory.
    pub node: Node,
    /// 0 to 1: how well its own words match, or what is left of the starting memory's score after the walk.
    pub score: f64,
    /// Whether a newer memory has superseded it.
    pub is_superseded: bool,
    /// How the walk reached it from a memory that matched the words; empty if this one matched.
    pub path: Vec<Step>,
}
