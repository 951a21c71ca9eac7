//! The conversational operations.

use memory_core::layer::{AddOptions, AddStatus, EventId, FactId, Forget as What, MemoryLayer, RecallQuery};
use memory_core::limits::DEFAULT_TOP_K;
use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::value::RawValue;

use super::MemoryTool;
use super::answer::{Budget, text};
use super::kv::check_count;
use super::ops::{Add, Forget, Recall, ToolOp};

impl MemoryTool {
    fn layer(&self, op: ToolOp) -> Result<&dyn MemoryLayer> {
        self.memory.layer().ok_or_else(|| self.unsupported(op))
    }

    pub(super) async fn add(&self, op: Add) -> Result<String> {
        #[derive(Serialize)]
        struct Answer<'a> {
            status: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            ids: Option<Vec<Box<RawValue>>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            event: Option<&'a EventId>,
            #[serde(skip_serializing_if = "Option::is_none")]
            truncated: Option<bool>,
        }
        let scope = self.memory_scope(op.scope)?;
        let mut options = AddOptions::default().with_metadata(op.metadata.unwrap_or_default());
        options.infer = op.infer.unwrap_or(true);
        let outcome = self.layer(ToolOp::Add)?.add(&self.run, &scope, &op.messages, options).await?;
        let plain = |status| Answer { status, ids: None, event: None, truncated: None };
        text(&match &outcome.status {
            AddStatus::Done(ids) => {
                let kept = Budget::new(self.policy.max_answer_bytes).fit(ids)?;
                Answer { truncated: Some(kept.len() < ids.len()), ids: Some(kept), ..plain("done") }
            }
            AddStatus::Pending(event) => Answer { event: event.as_ref(), ..plain("pending") },
            // A status of a newer contract is not known to be done.
            _ => plain("unknown"),
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
        let facts = Budget::new(self.policy.max_answer_bytes).fit(&found)?;
        text(&Answer { truncated: more || facts.len() < found.len(), facts })
    }

    pub(super) async fn forget(&self, op: Forget) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            forgotten: Option<u64>,
            not_found: Vec<Box<RawValue>>,
            truncated: bool,
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
        })
    }
}
