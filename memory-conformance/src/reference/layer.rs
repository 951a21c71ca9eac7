//! The reference conversational layer: a sentence is a fact, and a question finds facts that share its words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::layer::{
    AddOptions, AddOutcome, AddStatus, EventId, EventStatus, Fact, FactId, FactsPage, FactsQuery, Forget,
    ForgetOutcome, Message, RecallQuery, Role, ScoreKind,
};
use memory_core::{
    Capabilities, Clock, Cursor, Error, ErrorKind, Key, MemoryLayer, Op, Result, RunContext, Scope,
};

/// How often an event is polled before it is done.
const ASKED_UNTIL_DONE: u32 = 2;

/// When the reference layer learns, and what its scores mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerKind {
    /// Immediately. Scores are similarities.
    Sync,
    /// Once its event was polled. Scores are ranks: a fraction of the similarity to which the threshold applies.
    Pending,
}

/// Shared by all handles on a store.
#[derive(Debug, Default)]
pub(super) struct Learned {
    facts: BTreeMap<Scope, Vec<Fact>>,
    events: BTreeMap<String, Work>,
    /// Ids are never reused.
    count: u64,
}

/// Pending work.
#[derive(Debug)]
struct Work {
    scope: Scope,
    asked: u32,
    facts: Vec<Fact>,
}

/// The layer of a [`Reference`](crate::Reference).
#[derive(Clone, Debug)]
pub(super) struct ReferenceLayer {
    pub(super) kind: LayerKind,
    pub(super) learned: Arc<Mutex<Learned>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) capabilities: Capabilities,
    pub(super) provider: &'static str,
}

/// What a layer of that kind advertises.
pub(super) fn advertise(kind: LayerKind, capabilities: &mut Capabilities) {
    capabilities.memory_layer = true;
    capabilities.layer_sync = kind == LayerKind::Sync;
    capabilities.layer_events = kind == LayerKind::Pending;
    capabilities.layer_forget = true;
    capabilities.layer_verbatim = true;
    capabilities.layer_metadata = true;
    capabilities.layer_threshold = true;
    capabilities.layer_ids = true;
}

impl ReferenceLayer {
    fn lock(&self) -> MutexGuard<'_, Learned> {
        // A panic elsewhere leaves no partial change: each is one insert or remove.
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require(&self, advertised: bool, op: Op) -> Result<()> {
        if advertised { Ok(()) } else { Err(Error::unsupported(op.as_str(), self.provider)) }
    }

    /// Removes everything about a scope.
    pub(super) fn end(&self, scope: &Scope) {
        let mut learned = self.lock();
        learned.facts.remove(scope);
        learned.events.retain(|_, work| work.scope != *scope);
    }
}

/// The sentences of user and assistant; whole messages if verbatim.
fn sentences(messages: &[Message], infer: bool) -> Vec<String> {
    let heard = messages.iter().filter(|message| matches!(message.role, Role::User | Role::Assistant));
    if !infer {
        return heard.map(|message| message.content.clone()).filter(|text| !text.trim().is_empty()).collect();
    }
    heard
        .flat_map(|message| message.content.split(['.', '!', '?', '\n']))
        .map(str::trim)
        .filter(|sentence| sentence.chars().any(char::is_alphanumeric))
        .map(str::to_owned)
        .collect()
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Cosine of two sets of words.
fn similarity(question: &BTreeSet<String>, fact: &BTreeSet<String>) -> f64 {
    let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let (both, product) =
        (count(question.intersection(fact).count()), count(question.len()) * count(fact.len()));
    if product > 0.0 { both / product.sqrt() } else { 0.0 }
}

fn unknown_event() -> Error {
    Error::new(ErrorKind::NotFound, "this scope has no such event; use the id that `add` returned")
}

#[async_trait]
impl MemoryLayer for ReferenceLayer {
    async fn add(
        &self,
        _run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        self.require(options.infer || self.capabilities.layer_verbatim, Op::Add)?;
        self.require(options.metadata.is_empty() || self.capabilities.layer_metadata, Op::Add)?;
        let mut learned = self.lock();
        let known: BTreeSet<String> =
            learned.facts.get(scope).into_iter().flatten().map(|fact| fact.memory.clone()).collect();
        let mut facts = Vec::new();
        for memory in sentences(messages, options.infer) {
            if options.infer && known.contains(&memory) {
                continue;
            }
            learned.count += 1;
            let mut fact = Fact::new(FactId::new(format!("fact-{}", learned.count))?, memory);
            fact.metadata = options.metadata.clone();
            fact.created_at = Some(self.clock.now());
            facts.push(fact);
        }
        if self.kind == LayerKind::Pending {
            learned.count += 1;
            let event = format!("event-{}", learned.count);
            learned.events.insert(event.clone(), Work { scope: scope.clone(), asked: 0, facts });
            return Ok(AddOutcome::new(AddStatus::Pending(Some(EventId::new(event)?))));
        }
        let ids = facts.iter().map(|fact| fact.id.clone()).collect();
        learned.facts.entry(scope.clone()).or_default().extend(facts);
        Ok(AddOutcome::new(AddStatus::Done(ids)))
    }

    async fn recall(&self, _run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        self.require(query.threshold.is_none() || self.capabilities.layer_threshold, Op::Recall)?;
        let question = words(&query.text);
        let learned = self.lock();
        let mut found: Vec<(f64, Fact)> = learned
            .facts
            .get(scope)
            .into_iter()
            .flatten()
            .map(|fact| (similarity(&question, &words(&fact.memory)), fact.clone()))
            .filter(|(similarity, _)| *similarity > 0.0 && *similarity >= query.threshold.unwrap_or(0.0))
            .collect();
        found.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.id.cmp(&y.id)));
        found.truncate(query.top_k);
        let scored = |(similarity, mut fact): (f64, Fact)| {
            (fact.score, fact.score_kind) = match self.kind {
                LayerKind::Sync => (Some(similarity), ScoreKind::Similarity),
                LayerKind::Pending => (Some(similarity / 2.5), ScoreKind::Rank),
            };
            fact
        };
        Ok(found.into_iter().map(scored).collect())
    }

    async fn event(&self, _run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus> {
        self.require(self.capabilities.layer_events, Op::Event)?;
        let mut learned = self.lock();
        let work = learned
            .events
            .get_mut(id.as_str())
            .filter(|work| work.scope == *scope)
            .ok_or_else(unknown_event)?;
        work.asked = work.asked.saturating_add(1);
        if work.asked < ASKED_UNTIL_DONE {
            return Ok(EventStatus::Pending);
        }
        let ids = work.facts.iter().map(|fact| fact.id.clone()).collect();
        if work.asked == ASKED_UNTIL_DONE {
            let facts = work.facts.clone();
            learned.facts.entry(scope.clone()).or_default().extend(facts);
        }
        Ok(EventStatus::Done(ids))
    }

    async fn forget(&self, _run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        self.require(self.capabilities.layer_forget, Op::Forget)?;
        let mut learned = self.lock();
        let facts = learned.facts.entry(scope.clone()).or_default();
        let before = facts.len();
        let mut outcome = ForgetOutcome::default();
        match what {
            Forget::Ids(ids) => {
                outcome.not_found =
                    ids.iter().filter(|id| facts.iter().all(|fact| fact.id != **id)).cloned().collect();
                facts.retain(|fact| !ids.contains(&fact.id));
            }
            _ => facts.clear(),
        }
        outcome.forgotten = u64::try_from(before.saturating_sub(facts.len())).ok();
        Ok(outcome)
    }

    async fn facts(&self, _run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        let learned = self.lock();
        let facts = learned.facts.get(scope).map_or(&[][..], Vec::as_slice);
        let start = match query.cursor {
            None => 0,
            Some(cursor) => {
                let after = Cursor::from_text(cursor).key(scope, "facts")?;
                facts
                    .iter()
                    .position(|fact| fact.id.as_str() == after.as_str())
                    .map_or(facts.len(), |at| at + 1)
            }
        };
        let rest = facts.get(start..).unwrap_or_default();
        let page: Vec<Fact> = rest.iter().take(query.limit).cloned().collect();
        let next = match page.last() {
            Some(last) if rest.len() > page.len() => {
                Some(Cursor::after_key(scope, "facts", &Key::new(last.id.as_str())?).as_str().to_owned())
            }
            _ => None,
        };
        Ok(FactsPage::new(page, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_a_fact_and_blank_text_is_not() {
        let said =
            [Message::new(Role::User, "I own a theremin. I own a sextant!"), Message::new(Role::Tool, "x y")];
        assert_eq!(sentences(&said, true), ["I own a theremin", "I own a sextant"]);
        assert_eq!(sentences(&[Message::new(Role::User, " … ")], true), [""; 0]);
        assert_eq!(sentences(&said, false), ["I own a theremin. I own a sextant!"]);
    }

    #[test]
    fn similarity_is_the_cosine_of_words() {
        let near = similarity(&words("I own a theremin"), &words("I OWN a theremin"));
        assert!((near - 1.0).abs() < 1e-9);
        assert!((similarity(&words("theremin"), &words("I own a theremin")) - 0.5).abs() < 1e-9);
        assert_eq!(similarity(&words("*"), &words("I own")), 0.0);
    }
}
