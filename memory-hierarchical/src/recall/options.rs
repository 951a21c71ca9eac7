//! What a recall is asked and answers.

use memory_core::limits::{DEFAULT_TOP_K, MAX_QUERY_BYTES};
use memory_core::{Error, Result};
use serde::Serialize;

use crate::model::{EdgeKind, Node};

/// Most hits of a recall.
const MAX_TOP_K: usize = 1_000;
/// Most steps of a walk.
const MAX_STEPS: usize = 4;

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
}

impl Default for RecallOptions {
    fn default() -> Self {
        Self { top_k: DEFAULT_TOP_K, steps: 2, decay: 0.5 }
    }
}

impl RecallOptions {
    /// Sets the most hits.
    #[must_use]
    pub const fn with_top_k(mut self, top_k: usize) -> Self {
        self.top_k = top_k;
        self
    }

    /// Sets the edges to walk.
    #[must_use]
    pub const fn with_steps(mut self, steps: usize) -> Self {
        self.steps = steps;
        self
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

/// A recalled memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GraphHit {
    /// The memory.
    pub node: Node,
    /// 0 to 1: how well its own words match, or what the walk left of the score of the memory where it began.
    pub score: f64,
    /// Whether a newer memory has superseded it.
    pub is_superseded: bool,
    /// How the walk reached it from a memory that the words found; empty where they found this one.
    pub path: Vec<Step>,
}
