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
    Timestamp, Ttl,
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
    scopes: BTreeMap<Scope, Heard>,
    events: BTreeMap<String, Work>,
    /// Ids are never reused.
    count: u64,
}

/// What one scope heard.
#[derive(Debug, Default)]
struct Heard {
    facts: Vec<Held>,
    /// What was said, and the fact it became; `None` if that was forgotten.
    said: BTreeMap<String, Option<FactId>>,
}

/// A fact, and how long it lives.
#[derive(Clone, Debug)]
struct Held {
    fact: Fact,
    expires: Option<Timestamp>,
}

/// Something said: what identifies it, and the fact it becomes.
type Said = (String, Held);

/// Pending work.
#[derive(Debug)]
struct Work {
    scope: Scope,
    asked: u32,
    said: Vec<Said>,
}

impl Heard {
    fn learn(&mut self, said: Vec<Said>) {
        for (what, held) in said {
            self.said.insert(what, Some(held.fact.id.clone()));
            self.facts.push(held);
        }
    }

    /// The facts that have not expired; expired ones count as never said.
    fn live(&mut self, now: Timestamp) -> &mut Vec<Held> {
        let (said, expired) = (&mut self.said, |held: &Held| held.expires.is_some_and(|at| at <= now));
        for held in self.facts.iter().filter(|held| expired(held)) {
            said.retain(|_, id| id.as_ref() != Some(&held.fact.id));
        }
        self.facts.retain(|held| !expired(held));
        &mut self.facts
    }

    fn forget(&mut self, id: &FactId) {
        self.facts.retain(|held| held.fact.id != *id);
        self.said.values_mut().filter(|known| known.as_ref() == Some(id)).for_each(|known| *known = None);
    }

    fn fact(&self, id: &FactId) -> Option<&Fact> {
        self.facts.iter().map(|held| &held.fact).find(|fact| fact.id == *id)
    }

    /// What superseded a fact, unless that is gone.
    fn successor<'a>(&self, fact: &'a Fact) -> Option<&'a FactId> {
        fact.superseded_by.as_ref().filter(|by| self.fact(by).is_some())
    }

    /// Confirms facts, all or none. A fact whose successor is gone holds again.
    fn confirm(&mut self, ids: &[FactId], at: Timestamp) -> Result<()> {
        for id in ids {
            let fact = self.fact(id).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "there is no such fact to confirm; nothing was changed")
            })?;
            if self.successor(fact).is_some() {
                return Err(Error::new(ErrorKind::Conflict, "the fact was superseded by another"));
            }
        }
        for held in self.facts.iter_mut().filter(|held| ids.contains(&held.fact.id)) {
            held.fact.confirmed_at = held.fact.confirmed_at.max(Some(at));
            (held.fact.superseded_by, held.fact.valid_to) = (None, None);
        }
        Ok(())
    }

    /// Why facts are neither corrected nor confirmed by an add whose message is left out.
    fn cannot_change(&self, options: &AddOptions) -> Error {
        let mut named = options.supersedes.iter().chain(&options.confirms);
        if named.any(|id| self.fact(id).is_none()) {
            return Error::new(ErrorKind::NotFound, "there is no such fact; nothing was changed");
        }
        Error::new(
            ErrorKind::Conflict,
            "the message is another's by its id, or was forgotten; nothing was changed",
        )
    }

    /// Corrects and confirms facts.
    fn change(
        &mut self,
        options: &AddOptions,
        by: Option<FactId>,
        messages: &[Message],
        now: Timestamp,
    ) -> Result<()> {
        if !options.supersedes.is_empty() {
            let by = by.ok_or_else(|| Error::invalid("a correction says something"))?;
            let until = messages.iter().find_map(|message| message.at).unwrap_or(now);
            self.supersede(&options.supersedes, &by, until)?;
        }
        let at = messages.iter().filter_map(|message| message.at).max().unwrap_or(now);
        self.confirm(&options.confirms, at)
    }

    /// Ends facts in favour of another.
    fn supersede(&mut self, ids: &[FactId], by: &FactId, until: Timestamp) -> Result<()> {
        let ended = self.fact(by).is_some_and(|fact| fact.superseded_by.is_some());
        for id in ids {
            let held = self.facts.iter().find(|held| held.fact.id == *id).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "there is no such fact to supersede; nothing was changed")
            })?;
            let successor = self.successor(&held.fact);
            if ended && successor.is_none() {
                return Err(Error::new(ErrorKind::Conflict, "what was superseded corrects nothing"));
            }
            if successor.is_some_and(|other| other != by) {
                return Err(Error::new(ErrorKind::Conflict, "the fact was superseded before by another"));
            }
        }
        for held in self.facts.iter_mut().filter(|held| ids.contains(&held.fact.id)) {
            (held.fact.superseded_by, held.fact.valid_to) = (Some(by.clone()), Some(until));
        }
        Ok(())
    }
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
    capabilities.layer_idempotent = true;
    capabilities.layer_supersede = true;
    capabilities.layer_confirm = true;
    capabilities.layer_expiry = true;
    capabilities.layer_sessions = true;
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
        learned.scopes.remove(scope);
        learned.events.retain(|_, work| work.scope != *scope);
    }
}

/// The sentences of user and assistant, each with its message; whole messages if verbatim.
fn sentences(messages: &[Message], infer: bool) -> Vec<(&Message, String)> {
    let heard = messages.iter().filter(|message| matches!(message.role, Role::User | Role::Assistant));
    if !infer {
        return heard
            .map(|message| (message, message.content.clone()))
            .filter(|(_, text)| !text.trim().is_empty())
            .collect();
    }
    heard
        .flat_map(|message| {
            message.content.split(['.', '!', '?', '\n']).map(move |part| (message, part.trim()))
        })
        .filter(|(_, sentence)| sentence.chars().any(char::is_alphanumeric))
        .map(|(message, sentence)| (message, sentence.to_owned()))
        .collect()
}

/// What identifies a sentence: its message's id and its position there, or else its words, speaker and time.
fn known_by(message: &Message, place: usize, sentence: &str) -> String {
    match &message.id {
        Some(id) => format!("id {place} {id}"),
        None => format!("said {:?} {:?} {:?} {sentence}", message.role, message.name, message.at),
    }
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
        let served = &self.capabilities;
        self.require(options.infer || served.layer_verbatim, Op::Add)?;
        self.require(options.metadata.is_empty() || served.layer_metadata, Op::Add)?;
        self.require(options.supersedes.is_empty() || served.layer_supersede, Op::Add)?;
        self.require(options.confirms.is_empty() || served.layer_confirm, Op::Add)?;
        self.require(options.ttl == Ttl::Keep || served.layer_expiry, Op::Add)?;
        let now = self.clock.now();
        let mut learned = self.lock();
        let Learned { scopes, events, count } = &mut *learned;
        let heard = scopes.entry(scope.clone()).or_default();
        heard.live(now);
        let mut outcome = AddOutcome::new(AddStatus::Unknown);
        let mut said: Vec<Said> = Vec::new();
        let (mut known_fact, mut said_again, mut replaced) = (None, Vec::new(), None);
        for (place, (message, memory)) in sentences(messages, options.infer).into_iter().enumerate() {
            let what = known_by(message, place, &memory);
            // Words of a fact that was corrected may hold again; a message with an id or a time is delivered once more.
            let is_statement = message.id.is_none() && message.at.is_none();
            let ended = |id: &FactId| heard.fact(id).is_some_and(|fact| fact.superseded_by.is_some());
            let holds = |id: &Option<FactId>| !(is_statement && id.as_ref().is_some_and(ended));
            let known = heard.said.get(&what).filter(|id| served.layer_idempotent && holds(id));
            match known {
                Some(Some(id)) => {
                    known_fact = Some(id.clone());
                    let same =
                        heard.facts.iter().any(|held| held.fact.id == *id && held.fact.memory == memory);
                    if same {
                        outcome.known += 1;
                        if message.id.is_none() && message.at.is_none() {
                            said_again.push(id.clone());
                        }
                        continue;
                    }
                    if !options.again
                        || options.supersedes.as_slice() != std::slice::from_ref(id)
                        || !options.confirms.is_empty()
                        || ended(id)
                    {
                        outcome.different.push(id.clone());
                        continue;
                    }
                    replaced = Some(id.clone());
                }
                Some(None) if !options.again => {
                    outcome.forgotten += 1;
                    continue;
                }
                _ if said.iter().any(|(other, _)| *other == what) => {
                    outcome.known += 1;
                    continue;
                }
                _ => {}
            }
            *count += 1;
            let mut fact = Fact::new(FactId::new(format!("fact-{count}"))?, memory);
            fact.metadata = options.metadata.clone();
            message.metadata.iter().for_each(|(name, value)| fact.metadata.insert(name, value.clone()));
            (fact.created_at, fact.at, fact.order) = (Some(now), message.at, Some(*count));
            fact.confirmed_at = served.layer_confirm.then(|| message.at.unwrap_or(now));
            (fact.speaker, fact.role) = (message.name.clone(), Some(message.role));
            (fact.session, fact.caption) = (message.session.clone(), message.caption.clone());
            said.push((what, Held { fact, expires: options.ttl.expiry(now, None)? }));
        }
        let left_out = outcome.forgotten > 0 || !outcome.different.is_empty();
        if left_out && !(options.supersedes.is_empty() && options.confirms.is_empty()) {
            return Err(heard.cannot_change(&options));
        }
        let by = said.first().map(|(_, held)| held.fact.id.clone()).or(known_fact);
        let before = heard.facts.clone();
        if let Some(replaced) = &replaced {
            heard.forget(replaced);
        } else if let Err(error) = heard.change(&options, by, messages, now) {
            heard.facts = before;
            return Err(error);
        }
        said_again.retain(|id| heard.fact(id).is_some_and(|fact| fact.superseded_by.is_none()));
        heard.confirm(&said_again, now)?;
        let until = options.ttl.expiry(now, None)?;
        for held in heard.facts.iter_mut().filter(|held| said_again.contains(&held.fact.id)) {
            if held.expires.is_some_and(|at| until.is_none_or(|until| until > at)) {
                held.expires = until;
            }
        }
        if self.kind == LayerKind::Pending {
            *count += 1;
            let event = format!("event-{count}");
            events.insert(event.clone(), Work { scope: scope.clone(), asked: 0, said });
            outcome.status = AddStatus::Pending(Some(EventId::new(event)?));
            return Ok(outcome);
        }
        outcome.status = AddStatus::Done(said.iter().map(|(_, held)| held.fact.id.clone()).collect());
        heard.learn(said);
        Ok(outcome)
    }

    async fn recall(&self, _run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        self.require(query.threshold.is_none() || self.capabilities.layer_threshold, Op::Recall)?;
        self.require(query.as_of.is_none() || self.capabilities.layer_supersede, Op::Recall)?;
        self.require(query.unconfirmed_since.is_none() || self.capabilities.layer_confirm, Op::Recall)?;
        let question = words(&query.text);
        let unconfirmed = |fact: &Fact| {
            query.unconfirmed_since.is_none_or(|since| fact.confirmed_at.is_none_or(|at| at < since))
        };
        let held = |fact: &Fact| match query.as_of {
            None => fact.valid_to.is_none(),
            Some(at) => {
                fact.at.or(fact.created_at).is_none_or(|begins| begins <= at)
                    && fact.valid_to.is_none_or(|until| until > at)
            }
        };
        let mut learned = self.lock();
        let mut found: Vec<(f64, Fact)> = learned
            .scopes
            .get_mut(scope)
            .into_iter()
            .flat_map(|heard| heard.live(self.clock.now()).iter())
            .map(|held| &held.fact)
            .filter(|fact| held(fact) && unconfirmed(fact))
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
        let ids = work.said.iter().map(|(_, held)| held.fact.id.clone()).collect();
        if work.asked == ASKED_UNTIL_DONE {
            let said = work.said.clone();
            learned.scopes.entry(scope.clone()).or_default().learn(said);
        }
        Ok(EventStatus::Done(ids))
    }

    async fn forget(&self, _run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        self.require(self.capabilities.layer_forget, Op::Forget)?;
        let mut learned = self.lock();
        let heard = learned.scopes.entry(scope.clone()).or_default();
        let all: Vec<FactId> = heard.live(self.clock.now()).iter().map(|held| held.fact.id.clone()).collect();
        let ids = match what {
            Forget::Ids(ids) => ids,
            _ => all.clone(),
        };
        let (known, not_found): (Vec<FactId>, Vec<FactId>) = ids.into_iter().partition(|id| all.contains(id));
        known.iter().for_each(|id| heard.forget(id));
        let mut outcome = ForgetOutcome::new(u64::try_from(known.len()).ok());
        outcome.not_found = not_found;
        Ok(outcome)
    }

    async fn facts(&self, _run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        self.require(query.session.is_none() || self.capabilities.layer_sessions, Op::Facts)?;
        let mut learned = self.lock();
        let heard = learned.scopes.entry(scope.clone()).or_default();
        let facts: Vec<&Fact> = heard.live(self.clock.now()).iter().map(|held| &held.fact).collect();
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
        let asked = |fact: &&&Fact| query.session.is_none() || fact.session == query.session;
        let rest: Vec<&Fact> = facts.iter().skip(start).filter(asked).copied().collect();
        let page: Vec<Fact> = rest.iter().take(query.limit).map(|fact| (*fact).clone()).collect();
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
        let texts = |messages: &[Message], infer| -> Vec<String> {
            sentences(messages, infer).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(&said, true), ["I own a theremin", "I own a sextant"]);
        assert_eq!(texts(&[Message::new(Role::User, " … ")], true), [""; 0]);
        assert_eq!(texts(&said, false), ["I own a theremin. I own a sextant!"]);
    }

    #[test]
    fn similarity_is_the_cosine_of_words() {
        let near = similarity(&words("I own a theremin"), &words("I OWN a theremin"));
        assert!((near - 1.0).abs() < 1e-9);
        assert!((similarity(&words("theremin"), &words("I own a theremin")) - 0.5).abs() < 1e-9);
        assert_eq!(similarity(&words("*"), &words("I own")), 0.0);
    }
}
