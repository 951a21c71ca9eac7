//! The conversational operations.

use std::collections::BTreeSet;

use memory_core::layer::{
    AddOptions, AddStatus, ContextBlock, EventId, EventStatus, Fact, FactId, FactsQuery, Forget as What,
    MAX_CONTEXT_TOKENS, MemoryLayer, RecallQuery, approximate_tokens,
};
use memory_core::limits::{DEFAULT_PAGE, DEFAULT_TOP_K, MAX_PAGE};
use memory_core::{DriftChange, Error, Result, Scope, ScopeKind};
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::{Budget, raw, text};
use super::kv::{check_count, ttl};
use super::memory_tool::MemoryTool;
use super::ops::{Add, DEFAULT_SCOPE, Event, Forget, ListFacts, Recall, ToolOp};
use crate::audit::{AuditFact, Facts};
use crate::conversations::merged;

/// How many facts go into a block of text, unless the call says.
const CONTEXT_FACTS: usize = 50;

/// The status of added messages.
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
    /// As of [`AddOutcome`](memory_core::layer::AddOutcome).
    #[serde(skip_serializing_if = "is_zero")]
    known: u64,
    #[serde(skip_serializing_if = "is_zero")]
    forgotten: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    different: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "is_zero")]
    without_vector: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl<'a> Status<'a> {
    fn plain(status: &'static str) -> Self {
        Self {
            status,
            ids: None,
            event: None,
            reason: None,
            truncated: None,
            known: 0,
            forgotten: 0,
            different: Vec::new(),
            without_vector: 0,
        }
    }

    fn done(ids: &'a [FactId], max_answer_bytes: usize) -> Result<Self> {
        let kept = Budget::new(max_answer_bytes).fit(ids)?;
        Ok(Self { truncated: Some(kept.len() < ids.len()), ids: Some(kept), ..Self::plain("done") })
    }
}

/// A fact too large for an answer on its own, without its large parts.
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

    /// Runs a conversation's write as this run's own: the run has seen what it changes.
    async fn conversing<T>(
        &self,
        scope: &Scope,
        write: impl Future<Output = Result<T>>,
        changes: impl FnOnce(&T) -> &[DriftChange],
    ) -> Result<T> {
        match self.memory.backend() {
            Some(backend) => self.drift.guard(backend).conversing(scope, write, changes).await,
            None => write.await,
        }
    }

    pub(super) async fn add(&self, op: Add) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let facts = |ids: Option<Vec<String>>| {
            ids.unwrap_or_default().into_iter().map(FactId::new).collect::<Result<_>>()
        };
        let mut options = AddOptions::default()
            .with_metadata(op.metadata.unwrap_or_default())
            .with_supersedes(facts(op.supersedes)?)
            .with_confirms(facts(op.confirms)?)
            .with_again(op.again.unwrap_or_default())
            .with_ttl(ttl(op.ttl_seconds, None)?)
            .with_quota(self.policy.quota);
        options.infer = op.infer.unwrap_or(true);
        let adding = self.layer(ToolOp::Add)?.add(&self.run, &scope, &op.messages, options);
        let outcome = self.conversing(&scope, adding, |outcome| &outcome.drift).await?;
        let mut status = match &outcome.status {
            AddStatus::Done(ids) => Status::done(ids, self.policy.max_answer_bytes)?,
            AddStatus::Pending(event) => Status { event: event.as_ref(), ..Status::plain("pending") },
            // A status that only a newer version knows may not mean done.
            _ => Status::plain("unknown"),
        };
        (status.known, status.forgotten) = (outcome.known, outcome.forgotten);
        status.different = Budget::new(self.policy.max_answer_bytes / 4).fit(&outcome.different)?;
        status.without_vector = outcome.without_vector;
        text(&status)
    }

    pub(super) async fn event(&self, op: Event) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let layer = self.layer(ToolOp::Event)?;
        let status = layer.event(&self.run, &scope, &EventId::new(op.event)?).await?;
        text(&match &status {
            EventStatus::Done(ids) => Status::done(ids, self.policy.max_answer_bytes)?,
            EventStatus::Failed(reason) => Status { reason: Some(reason), ..Status::plain("failed") },
            // A status that only a newer version knows may not be final.
            _ => Status::plain("pending"),
        })
    }

    /// The scopes that a `recall` searches: those that it names, or else all that this run may use.
    fn recalled_scopes(
        &self,
        one: Option<ScopeKind>,
        several: Option<Vec<ScopeKind>>,
    ) -> Result<Vec<(ScopeKind, Scope)>> {
        let kinds = match (one, several) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("`recall` takes `scope` or `scopes`, not both"));
            }
            (None, Some(kinds)) if kinds.is_empty() => {
                return Err(Error::invalid("`scopes` is empty; name at least one scope, or leave it out"));
            }
            (None, Some(kinds)) => BTreeSet::from_iter(kinds),
            (None, None) if !self.memory_kinds().is_empty() => self.memory_kinds(),
            (asked, None) => BTreeSet::from([asked.unwrap_or(DEFAULT_SCOPE)]),
        };
        kinds.into_iter().map(|kind| Ok((kind, self.memory_scope(Some(kind))?))).collect()
    }

    /// Answers a `recall`; `audit` records what the caller is given, and why.
    pub(super) async fn recall(&self, op: Recall, audit: Option<&mut Facts<'_>>) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            #[serde(skip_serializing_if = "Option::is_none")]
            context: Option<ContextBlock>,
            facts: Vec<Box<RawValue>>,
            truncated: bool,
        }
        let layer = self.layer(ToolOp::Recall)?;
        let most = self.memory.capabilities().max_top_k;
        let asked =
            op.top_k.unwrap_or(if op.max_tokens.is_some() { CONTEXT_FACTS.min(most) } else { DEFAULT_TOP_K });
        check_count("top_k", asked, most, "facts")?;
        let top_k = asked.min(self.policy.max_rows);
        let explain = op.explain.unwrap_or_default();
        let mut query = RecallQuery::new(op.query).with_top_k(top_k).with_explain(explain || audit.is_some());
        (query.threshold, query.as_of) = (op.threshold, op.as_of);
        query.unconfirmed_since = op.unconfirmed_since;
        let scopes = self.recalled_scopes(op.scope, op.scopes)?;
        let (several, mut recalled, mut more) = (scopes.len() > 1, Vec::new(), false);
        for (kind, scope) in scopes {
            let mut found = layer.recall(&self.run, &scope, query.clone()).await?;
            more |= found.len() > top_k || (top_k < asked && found.len() == top_k);
            found.truncate(top_k);
            recalled.push((kind, found));
        }
        let mut found = merged(recalled, top_k);
        let context = match op.max_tokens {
            None => None,
            Some(tokens) => {
                check_count("max_tokens", tokens, MAX_CONTEXT_TOKENS, "tokens")?;
                let facts: Vec<Fact> = found.iter().map(|(_, fact)| fact.clone()).collect();
                // A block is mostly ASCII: four bytes per token, and at most half of the answer.
                let tokens = tokens.min(self.policy.max_answer_bytes / 8);
                let block = ContextBlock::of(&facts, tokens, &approximate_tokens);
                let shown: BTreeSet<&FactId> = block.sources.iter().flat_map(|source| &source.ids).collect();
                found.retain(|(_, fact)| shown.contains(&fact.id));
                Some(block)
            }
        };
        let taken = context.as_ref().map(raw).transpose()?.map_or(0, |block| block.get().len());
        let noted = audit.map(|audit| {
            let noted: Vec<AuditFact> = found.iter().map(|(kind, fact)| AuditFact::of(*kind, fact)).collect();
            (audit, noted)
        });
        if !explain {
            found.iter_mut().for_each(|(_, fact)| fact.shares.clear());
        }
        let facts = self.fitting(found.iter().map(|(kind, fact)| (several.then_some(*kind), fact)), taken)?;
        if let Some((audit, noted)) = noted {
            audit.recalled(noted.into_iter().take(facts.len()));
        }
        text(&Answer { context, truncated: more || facts.len() < found.len(), facts })
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
        check_count("limit", asked, MAX_PAGE, "facts")?;
        let mut query = FactsQuery::default();
        (query.cursor, query.limit) = (op.cursor, asked.min(self.policy.max_rows));
        loop {
            let page = layer.facts(&self.run, &scope, query.clone()).await?;
            let facts = self.fitting(page.facts.iter().map(|fact| (None, fact)), 0)?;
            if facts.len() == page.facts.len() || query.limit == 1 {
                return text(&Answer { facts, truncated: page.next.is_some(), next: page.next });
            }
            // Only the layer knows where a shorter page would continue, so ask it for one. The first fact always fits,
            // so this ends.
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
        let forgetting = self.layer(ToolOp::Forget)?.forget(&self.run, &scope, what);
        let outcome = self.conversing(&scope, forgetting, |outcome| &outcome.drift).await?;
        let not_found = Budget::new(self.policy.max_answer_bytes).fit(&outcome.not_found)?;
        text(&Answer {
            forgotten: outcome.forgotten,
            truncated: not_found.len() < outcome.not_found.len(),
            not_found,
            remains: outcome.remains,
        })
    }

    /// As many facts, from the first, as fit into an answer of which `taken` bytes are used. A fact that alone exceeds
    /// it comes without its text.
    fn fitting<'a>(
        &self,
        facts: impl Iterator<Item = (Option<ScopeKind>, &'a Fact)>,
        taken: usize,
    ) -> Result<Vec<Box<RawValue>>> {
        #[derive(Serialize)]
        struct OfScope<'a> {
            scope: ScopeKind,
            #[serde(flatten)]
            fact: &'a Fact,
        }
        let mut budget = Budget::new(self.policy.max_answer_bytes.saturating_sub(taken));
        let mut kept = Vec::new();
        for (scope, fact) in facts {
            let mut row = match scope {
                Some(scope) => raw(&OfScope { scope, fact })?,
                None => raw(fact)?,
            };
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
