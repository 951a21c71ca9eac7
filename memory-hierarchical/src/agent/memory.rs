//! [`AgentMemory`]: what one agent stores and links.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use memory_core::{Clock, Error, ErrorKind, IdGen, Result, Retry};

use super::answers::Stats;
use crate::limits::{check_content, check_entity, check_id, check_metadata, check_share, check_tags, short};
use crate::model::{Agent, Edge, EdgeKind, Episodic, Node, Semantic, Supersedes, TransitionedTo};
use crate::store::{Direction, GraphStore, GraphWrite, Stored};

/// Longest chain of memories that supersede each other.
const MAX_CHAIN: usize = 10_000;

/// The memory of one agent. Cheap to clone.
#[derive(Clone)]
pub struct AgentMemory {
    pub(super) graphs: Arc<dyn GraphStore>,
    pub(super) agent: Agent,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
}

impl fmt::Debug for AgentMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentMemory").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl AgentMemory {
    /// The memory of this agent in these graphs.
    #[must_use]
    pub fn new(
        graphs: Arc<dyn GraphStore>,
        agent: Agent,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Self {
        Self { graphs, agent, clock, ids }
    }

    /// Whose memory it is.
    #[must_use]
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Stores knowledge; an empty id or time is filled in. Returns it as stored.
    ///
    /// # Errors
    /// `invalid_argument` and `too_large` for a field beyond the [limits](crate::limits); `conflict` if the id is
    /// taken; the store's errors.
    pub async fn store_semantic(&self, mut node: Semantic) -> Result<Semantic> {
        self.complete(&mut node.memory_id, &mut node.created_at);
        check_id(&node.memory_id)?;
        short("concept", &node.concept)?;
        check_said(&node.content)?;
        check_share("confidence", node.confidence)?;
        short("source_id", &node.source_id)?;
        check_tags(&node.tags)?;
        check_metadata(&node.metadata)?;
        check_entity(&node.entity_name)?;
        let mut write = self.graphs.write(&self.agent).await?;
        let stored = write.add_semantic(std::slice::from_ref(&node)).await;
        ended(write, stored.and_then(|stored| fresh(stored, &node.memory_id))).await?;
        Ok(node)
    }

    /// Stores an event; an empty id or time is filled in. Returns it as stored.
    ///
    /// # Errors
    /// As [`store_semantic`](Self::store_semantic).
    pub async fn store_episodic(&self, mut node: Episodic) -> Result<Episodic> {
        self.complete(&mut node.memory_id, &mut node.created_at);
        check_id(&node.memory_id)?;
        check_said(&node.content)?;
        short("source_label", &node.source_label)?;
        check_tags(&node.tags)?;
        check_metadata(&node.metadata)?;
        let mut write = self.graphs.write(&self.agent).await?;
        let stored = write.add_episodic(std::slice::from_ref(&node)).await;
        ended(write, stored.and_then(|stored| fresh(stored, &node.memory_id))).await?;
        Ok(node)
    }

    /// Stores an edge of any kind. Returns `false` if the two memories already have one of this kind and direction,
    /// which stays as it is.
    ///
    /// # Errors
    /// `invalid_argument` for a confidence or weight outside 0 to 1; `not_found` where an end is missing or of the
    /// wrong kind; `conflict` for a `SUPERSEDES` edge that closes a circle; the store's errors.
    pub async fn link(&self, edge: Edge) -> Result<bool> {
        check_edge(&edge)?;
        let mut write = self.graphs.write(&self.agent).await?;
        let done = self.link_in(write.as_mut(), &edge).await;
        ended(write, done).await
    }

    /// Marks a memory as replaced by a newer one, the edge's source.
    ///
    /// # Errors
    /// Those of [`link`](Self::link); `conflict` if the newer one has been superseded, directly or indirectly, by the
    /// older.
    pub async fn supersede(&self, edge: Supersedes) -> Result<bool> {
        self.link(Edge::Supersedes(edge)).await
    }

    /// Records that a value changed: the edge's source holds the value after, its target the value before.
    ///
    /// # Errors
    /// As [`link`](Self::link).
    pub async fn transition(&self, edge: TransitionedTo) -> Result<bool> {
        self.link(Edge::TransitionedTo(edge)).await
    }

    /// The memories with these ids, of either kind; unknown ids are left out.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn nodes(&self, ids: &[String]) -> Result<Vec<Node>> {
        self.graphs.nodes(&self.agent, ids).await
    }

    /// How much the agent remembers.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn stats(&self) -> Result<Stats> {
        let counts = self.graphs.counts(&self.agent).await?;
        Ok(Stats { counts, revision: self.graphs.revision(&self.agent).await? })
    }

    fn complete(&self, id: &mut String, created_at: &mut String) {
        if id.is_empty() {
            *id = format!("{:032x}", self.ids.fresh());
        }
        if created_at.is_empty() {
            *created_at = self.clock.now().to_string();
        }
    }

    async fn link_in(&self, write: &mut dyn GraphWrite, edge: &Edge) -> Result<bool> {
        if let Edge::Supersedes(Supersedes { source_id, target_id, .. }) = edge {
            self.check_no_circle(source_id, target_id).await?;
        }
        Ok(write.add_edges(std::slice::from_ref(edge)).await?.stored > 0)
    }

    /// Refuses to supersede something that supersedes the newer memory; usually nothing does. The caller is the agent's
    /// only writer, so what is committed cannot change during this.
    async fn check_no_circle(&self, newer: &str, older: &str) -> Result<()> {
        let mut seen: HashSet<String> = HashSet::from([newer.to_owned()]);
        let mut frontier = vec![newer.to_owned()];
        while !frontier.is_empty() {
            if frontier.iter().any(|id| id == older) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "`{newer}` cannot supersede `{older}`, by which it is itself superseded; store a new memory instead"
                    ),
                )
                .with_retry(Retry::Never)
                .with_detail("source_id", newer)
                .with_detail("target_id", older));
            }
            if seen.len() > MAX_CHAIN {
                return Err(Error::too_large(
                    "chain of superseded memories",
                    seen.len(),
                    MAX_CHAIN,
                    "memories",
                ));
            }
            let kinds = [EdgeKind::Supersedes];
            let edges = self.graphs.edges(&self.agent, &frontier, Direction::Incoming, &kinds).await?;
            frontier = edges.iter().map(|edge| edge.ends().0.to_owned()).collect();
            frontier.retain(|id| seen.insert(id.clone()));
        }
        Ok(())
    }
}

fn check_edge(edge: &Edge) -> Result<()> {
    match edge {
        Edge::SimilarTo(edge) => {
            check_share("weight", edge.weight)?;
            check_metadata(&edge.metadata)
        }
        Edge::DerivesFrom(edge) => {
            check_share("confidence", edge.confidence)?;
            short("extraction_method", &edge.extraction_method)
        }
        Edge::Supersedes(edge) => {
            short("reason", &edge.reason)?;
            short("temporal_delta", &edge.temporal_delta)
        }
        Edge::TransitionedTo(edge) => {
            short("from_value", &edge.from_value)?;
            short("to_value", &edge.to_value)?;
            short("transition_type", &edge.transition_type)
        }
    }
}

/// A file may hold memories without content; new ones must have some.
fn check_said(content: &str) -> Result<()> {
    if content.trim().is_empty() {
        return Err(Error::invalid("the content of the memory is blank; say what is known or what happened"));
    }
    check_content(content)
}

fn fresh(stored: Stored, id: &str) -> Result<()> {
    if stored.stored > 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Conflict,
        format!("this agent has a memory `{id}` already; give another id or none"),
    )
    .with_retry(Retry::Never)
    .with_detail("memory_id", id))
}

/// Commits what succeeded and undoes the rest.
async fn ended<T>(write: Box<dyn GraphWrite + '_>, done: Result<T>) -> Result<T> {
    match done {
        Ok(value) => write.commit().await.map(|()| value),
        Err(error) => {
            // If undoing fails, the transaction has already ended on its own.
            drop(write.rollback().await);
            Err(error)
        }
    }
}
