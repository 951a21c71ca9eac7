//! [`GraphRecall`].

use std::collections::HashMap;
use std::sync::Arc;

use memory_core::Result;

use super::cache::Cache;
use super::options::{GraphHit, RecallOptions, Recalled};
use super::walk::{Ranked, ranked};
use crate::model::{Agent, Node};
use crate::store::GraphStore;

/// How often to retry a graph that keeps being replaced.
const ATTEMPTS: usize = 5;

/// Default limit of the memory for graphs: 256 MiB.
pub const DEFAULT_MEMORY_BYTES: usize = 256 << 20;

/// Recall over graphs. It keeps an index of each recently used graph, kept current by the graph's revision.
#[derive(Debug)]
pub struct GraphRecall {
    graphs: Arc<dyn GraphStore>,
    cache: Cache,
}

impl GraphRecall {
    /// Recall over these graphs, with at most this many bytes of indexes in addition to that of the graph in use.
    #[must_use]
    pub fn new(graphs: Arc<dyn GraphStore>, memory_bytes: usize) -> Self {
        Self { graphs, cache: Cache::new(memory_bytes) }
    }

    /// The memories of an agent that match a query, or are within a few edges of one that does. Superseded ones come
    /// last; the rest is ordered by score, then by id.
    ///
    /// A memory's score is the BM25 of its words as a share of the query's maximum. Each step along an edge multiplies
    /// the score by [`decay`](RecallOptions::decay) and by the edge's weight or confidence; the best way counts.
    ///
    /// # Errors
    /// `invalid_argument` and `too_large` for options out of range; the store's errors.
    pub async fn recall(&self, agent: &Agent, query: &str, options: &RecallOptions) -> Result<Recalled> {
        options.check(query)?;
        let mut recalled = Recalled::default();
        for _ in 0..ATTEMPTS {
            let (answer, is_whole) = self.recall_once(agent, query, options).await?;
            recalled = answer;
            if is_whole {
                break;
            }
        }
        Ok(recalled)
    }

    /// A recall, and whether everything it found was still there.
    async fn recall_once(
        &self,
        agent: &Agent,
        query: &str,
        options: &RecallOptions,
    ) -> Result<(Recalled, bool)> {
        let slot = self.cache.current(self.graphs.as_ref(), agent).await?;
        let (found, truncated) = {
            let index = slot.index();
            let (best, truncated) = ranked(&index, query, options);
            let named = |one: Ranked| (index.id(one.number).to_owned(), index.is_superseded(one.number), one);
            (best.into_iter().map(named).collect::<Vec<_>>(), truncated)
        };
        let ids: Vec<String> = found.iter().map(|(id, ..)| id.clone()).collect();
        let nodes = self.graphs.nodes(agent, &ids).await?;
        let mut nodes: HashMap<String, Node> =
            nodes.into_iter().map(|node| (node.id().to_owned(), node)).collect();
        let is_whole = nodes.len() == ids.len();
        // Memories removed meanwhile are left out.
        let hit = |(id, is_superseded, one): (String, bool, Ranked)| {
            let node = nodes.remove(&id)?;
            Some(GraphHit { node, score: one.score, is_superseded, path: one.path })
        };
        Ok((Recalled { hits: found.into_iter().filter_map(hit).collect(), truncated }, is_whole))
    }
}
