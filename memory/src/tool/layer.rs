//! The conversational operations.

use memory_core::layer::{
    AddOptions, AddStatus, EventId, EventStatus, Fact, FactId, FactsQuery, Forget as What, MemoryLayer,
    RecallQuery,
};
use memory_core::limits::{DEFAULT_PAGE, DEFAULT_TOP_K, MAX_PAGE};
use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::{Budget, raw, text};
use super::kv::check_count;
use super::memory_tool::MemoryTool;
use super::ops::{Add, Event, Forget, ListFacts, Recall, ToolOp};

/// The status of messages that were added.
#[derive(Serialize)]
struct Status<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<Vec<Box<RawValue>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

impl<'a> Status<'a> {
    fn plain(status: &'static str) -> Self {
        Self { status, ids: None, event: None, reason: None, truncated: None }
    }

    fn done(ids: &'a [FactId], max_answer_bytes: usize) -> Result<Self> {
        let kept = Budget::new(max_answer_bytes).fit(ids)?;
        Ok(Self { truncated: Some(kept.len() < ids.len()), ids: Some(kept), ..Self::plain("done") })
    }
}

/// A fact that alone exceeds the answer, without its large parts.
#[derive(Serialize)]
struct LargeFact<'a> {
    id: &'a FactId,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    omitted_bytes: usize,
}

impl MemoryTool {
    fn layer(&self, op: ToolOp) -> Result<&dyn MemoryLayer> {
        match self.memory.layer() {
            Some(layer) if self.serves(op, &self.memory.capabilities()) => Ok(layer),
            _ => Err(self.unsupported(op)),
        }
    }

    pub(super) async fn add(&self, op: Add) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let mut options = AddOptions::default().with_metadata(op.metadata.unwrap_or_default());
        options.infer = op.infer.unwrap_or(true);
        let outcome = self.layer(ToolOp::Add)?.add(&self.run, &scope, &op.messages, options).await?;
        text(&match &outcome.status {
            AddStatus::Done(ids) => Status::done(ids, self.policy.max_answer_bytes)?,
            AddStatus::Pending(event) => Status { event: event.as_ref(), ..Status::plain("pending") },
            // An unknown status of a newer version is not known to be done.
            _ => Status::plain("unknown"),
        })
    }

    pub(super) async fn event(&self, op: Event) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let layer = self.layer(ToolOp::Event)?;
        let status = layer.event(&self.run, &scope, &EventId::new(op.event)?).await?;
        text(&match &status {
            EventStatus::Done(ids) => Status::done(ids, self.policy.max_answer_bytes)?,
            EventStatus::Failed(reason) => Status { reason: Some(reason), ..Status::plain("failed") },
            // An unknown status of a newer version is not known to be final.
            _ => Status::plain("pending"),
        })
    }

    pub(super) async fn recall(&self, op: Recall) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            facts: Vec<Box<RawValue>>,
            truncated: bool,
        }
        let scope = self.memory_scope(op.scope)?;
        let asked = op.top_k.unwrap_or(DEFAULT_TOP_K);
        check_count("top_k", asked, self.memory.capabilities().max_top_k)?;
        let top_k = asked.min(self.policy.max_rows);
        let mut query = RecallQuery::new(op.query).with_top_k(top_k);
        query.threshold = op.threshold;
        let mut found = self.layer(ToolOp::Recall)?.recall(&self.run, &scope, query).await?;
        let more = found.len() > top_k || (top_k < asked && found.len() == top_k);
        found.truncate(top_k);
        let facts = self.fitting(&found)?;
        text(&Answer { truncated: more || facts.len() < found.len(), facts })
    }

    pub(super) async fn list_facts(&self, op: ListFacts) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            facts: Vec<Box<RawValue>>,
            truncated: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            next: Option<String>,
        }
        let scope = self.memory_scope(op.scope)?;
        let layer = self.layer(ToolOp::Facts)?;
        let asked = op.limit.unwrap_or(DEFAULT_PAGE);
        check_count("limit", asked, MAX_PAGE)?;
        let mut query = FactsQuery::default();
        (query.cursor, query.limit) = (op.cursor, asked.min(self.policy.max_rows));
        loop {
            let page = layer.facts(&self.run, &scope, query.clone()).await?;
            let facts = self.fitting(&page.facts)?;
            if facts.len() == page.facts.len() || query.limit == 1 {
                return text(&Answer { facts, truncated: page.next.is_some(), next: page.next });
            }
            // Only the layer knows where a shorter page would continue, so it is asked for one. The first fact always
            // fits, so this ends.
            query.limit = facts.len().clamp(1, query.limit.saturating_sub(1).max(1));
        }
    }

    pub(super) async fn forget(&self, op: Forget) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            forgotten: Option<u64>,
            not_found: Vec<Box<RawValue>>,
            truncated: bool,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            remains: Vec<String>,
        }
        let scope = self.memory_scope(op.scope)?;
        let what = match (op.ids, op.all.unwrap_or_default()) {
            (Some(ids), false) => What::Ids(ids.into_iter().map(FactId::new).collect::<Result<_>>()?),
            (None, true) => What::All,
            _ => return Err(Error::invalid("`forget` takes exactly one of `ids` and `all`: true")),
        };
        let outcome = self.layer(ToolOp::Forget)?.forget(&self.run, &scope, what).await?;
        let not_found = Budget::new(self.policy.max_answer_bytes).fit(&outcome.not_found)?;
        text(&Answer {
            forgotten: outcome.forgotten,
            truncated: not_found.len() < outcome.not_found.len(),
            not_found,
            remains: outcome.remains,
        })
    }

    /// The leading facts that fit into an answer; one that alone exceeds it comes without its words.
    fn fitting(&self, facts: &[Fact]) -> Result<Vec<Box<RawValue>>> {
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let mut kept = Vec::new();
        for fact in facts {
            let mut row = raw(fact)?;
            if !budget.could_ever_take(&row) {
                row = raw(&LargeFact { id: &fact.id, score: fact.score, omitted_bytes: fact.memory.len() })?;
            }
            if !budget.take(&row) {
                break;
            }
            kept.push(row);
        }
        Ok(kept)
    }
}
