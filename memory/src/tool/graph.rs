//! The operations on the calling agent's graph. The run, never the call, determines whose graph it is.

use std::sync::Arc;

use memory_core::limits::{DEFAULT_MAX_TOP_K, DEFAULT_TOP_K};
use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{Budget, raw, text};
use super::memory_tool::MemoryTool;
use super::ops::{EdgeWord, NodeWord, RecallGraph, Relate, Remember, ToolOp};
use crate::hierarchical::tenants::TenantGraphs;
use crate::hierarchical::{
    Agent, DerivesFrom, Edge, Episodic, GraphHit, Node, RecallOptions, Recalled, Semantic, SimilarTo, Step,
    Supersedes, TransitionedTo,
};
use crate::policy::GraphAccess;

/// A hit as the tool shows it.
#[derive(Serialize)]
struct HitAnswer<'a> {
    score: f64,
    superseded: bool,
    memory: &'a Node,
    #[serde(skip_serializing_if = "<[Step]>::is_empty")]
    path: &'a [Step],
}

/// A hit too large for an answer on its own, without its large parts.
#[derive(Serialize)]
struct LargeHit<'a> {
    score: f64,
    superseded: bool,
    memory_id: &'a str,
    omitted_bytes: usize,
}

impl MemoryTool {
    /// The graphs of this run's tenant, and the agent that owns the graph. `name` is the operation's name as called.
    pub(super) async fn own_graph(&self, op: ToolOp, name: &str) -> Result<(Arc<TenantGraphs>, Agent)> {
        self.granted_as(op, name)?;
        if !self.serves(op, &self.memory.capabilities()) {
            return Err(self.unsupported(op));
        }
        let agent = Agent::new(self.run.agent.as_str()).map_err(|error| {
            let message = format!(
                "this agent can have no graph: {}; continue without, or ask the operator",
                error.message()
            );
            error.retold(message)
        })?;
        Ok((self.memory.graphs(&self.run.tenant).await?, agent))
    }

    pub(super) async fn remember(&self, op: Remember) -> Result<String> {
        #[derive(Serialize)]
        struct Answer<'a> {
            memory_id: &'a str,
            created_at: &'a str,
        }
        let (graphs, agent) = self.own_graph(ToolOp::Remember, ToolOp::Remember.as_str()).await?;
        let memory = graphs.memory_of(agent);
        let (memory_id, source) = (op.memory_id.unwrap_or_default(), op.source.unwrap_or_default());
        let tags = op.tags.unwrap_or_default();
        let stored = match op.kind.unwrap_or(NodeWord::Semantic) {
            NodeWord::Semantic => {
                let node = Semantic {
                    memory_id,
                    confidence: op.confidence.unwrap_or(1.0),
                    source_id: source,
                    tags,
                    entity_name: op.entity.unwrap_or_default(),
                    ..Semantic::new(op.concept.unwrap_or_default(), op.content)
                };
                let node = memory.store_semantic(node).await?;
                (node.memory_id, node.created_at)
            }
            NodeWord::Episodic => {
                let only = [("concept", op.concept.is_some()), ("entity", op.entity.is_some())];
                let only = only.into_iter().chain([("confidence", op.confidence.is_some())]);
                if let Some((field, _)) = only.into_iter().find(|(_, is_given)| *is_given) {
                    return Err(Error::invalid(format!("what happened has no `{field}`; leave it out"))
                        .with_detail("field", field));
                }
                let node = memory
                    .store_episodic(Episodic { memory_id, tags, ..Episodic::new(op.content, source) })
                    .await?;
                (node.memory_id, node.created_at)
            }
        };
        text(&Answer { memory_id: &stored.0, created_at: &stored.1 })
    }

    pub(super) async fn relate(&self, op: Relate) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            is_new: bool,
        }
        let (graphs, agent) = self.own_graph(ToolOp::Relate, ToolOp::Relate.as_str()).await?;
        if op.relation == EdgeWord::Supersedes && self.policy.graph < Some(GraphAccess::Supersede) {
            return Err(Error::scope_denied(
                "the operator does not let this agent replace memories; use `transitioned_to`, or ask the operator",
            )
            .with_detail("operation", ToolOp::Relate.as_str())
            .with_detail("relation", "supersedes"));
        }
        let (is_transition, has_weight) = (
            op.relation == EdgeWord::TransitionedTo,
            matches!(op.relation, EdgeWord::SimilarTo | EdgeWord::DerivesFrom),
        );
        for (field, is_given, is_had) in [
            ("weight", op.weight.is_some(), has_weight),
            ("from_value", op.from_value.is_some(), is_transition),
            ("to_value", op.to_value.is_some(), is_transition),
            ("turn", op.turn.is_some(), is_transition),
        ] {
            if is_given && !is_had {
                let message = format!("an edge of this relation has no `{field}`; leave it out");
                return Err(Error::invalid(message).with_detail("field", field));
            }
        }
        let is_new = graphs.memory_of(agent).link(edge(op)).await?;
        text(&Answer { is_new })
    }

    pub(super) async fn recall_graph(&self, op: RecallGraph) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            hits: Vec<Box<serde_json::value::RawValue>>,
            truncated: bool,
        }
        let (graphs, agent) = self.own_graph(ToolOp::RecallGraph, ToolOp::RecallGraph.as_str()).await?;
        let asked = op.top_k.unwrap_or(DEFAULT_TOP_K);
        if asked > DEFAULT_MAX_TOP_K {
            return Err(Error::too_large("top_k", asked, DEFAULT_MAX_TOP_K, "hits"));
        }
        let mut options = RecallOptions::default().with_top_k(asked.min(self.policy.max_rows));
        if let Some(steps) = op.steps {
            options = options.with_steps(steps);
        }
        let Recalled { hits: found, truncated } = graphs.recall.recall(&agent, &op.query, &options).await?;
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let mut hits = Vec::new();
        for hit in &found {
            let shown = within(hit, &budget)?;
            if !budget.take(&shown) {
                break;
            }
            hits.push(shown);
        }
        let is_cut = asked > self.policy.max_rows && found.len() == self.policy.max_rows;
        text(&Answer { truncated: truncated || is_cut || hits.len() < found.len(), hits })
    }
}

fn edge(op: Relate) -> Edge {
    let (source_id, target_id) = (op.source_id, op.target_id);
    let (strength, reason) = (op.weight.unwrap_or(1.0), op.reason.unwrap_or_default());
    match op.relation {
        EdgeWord::SimilarTo => {
            let mut metadata = Map::new();
            if !reason.is_empty() {
                metadata.insert("reason".to_owned(), Value::String(reason));
            }
            Edge::SimilarTo(SimilarTo { source_id, target_id, weight: strength, metadata: metadata.into() })
        }
        EdgeWord::DerivesFrom => Edge::DerivesFrom(DerivesFrom {
            source_id,
            target_id,
            extraction_method: reason,
            confidence: strength,
        }),
        EdgeWord::Supersedes => {
            Edge::Supersedes(Supersedes { source_id, target_id, reason, temporal_delta: String::new() })
        }
        EdgeWord::TransitionedTo => Edge::TransitionedTo(TransitionedTo {
            source_id,
            target_id,
            from_value: op.from_value.unwrap_or_default(),
            to_value: op.to_value.unwrap_or_default(),
            turn: op.turn.unwrap_or_default(),
            transition_type: reason,
        }),
    }
}

/// The whole hit, or if it alone exceeds `budget`, its id and how much is left out.
fn within(hit: &GraphHit, budget: &Budget) -> Result<Box<serde_json::value::RawValue>> {
    let (score, superseded) = (hit.score, hit.is_superseded);
    let whole = raw(&HitAnswer { score, superseded, memory: &hit.node, path: &hit.path })?;
    if budget.could_ever_take(&whole) {
        return Ok(whole);
    }
    raw(&LargeHit { score, superseded, memory_id: hit.node.id(), omitted_bytes: whole.get().len() })
}
