//! [`MemoryLayer`]: recalling and listing, with every fact as the store has it now.

use std::time::Instant;

use async_trait::async_trait;
use memory_core::embed::{EmbedRole, ask, is_of_the_text};
use memory_core::layer::{
    AddOptions, AddOutcome, AddStatus, EventId, EventStatus, Fact, FactId, FactsPage, FactsQuery, Forget,
    ForgetOutcome, Message, RecallQuery, ScoreKind, Share,
};
use memory_core::limits::{MAX_BULK_BYTES, MAX_PAGE_BYTES};
use memory_core::{
    Cursor, Entry, Error, Key, ListQuery, MemoryLayer, Op, Provider, Result, Retry, RunContext, Scope,
    Timestamp,
};

use crate::cache::{Moment, Slot};
use crate::rank::{Question, Ranked};
use crate::recall::Recall;
use crate::store::keys;
use crate::store::log::Log;
use crate::store::record::{self, Record};

/// What cursors of facts belong to.
const FACTS: &str = "facts";
/// Facts read together; an answer exceeds its byte limit by at most these.
const READ_AT_ONCE: usize = 50;

#[async_trait]
impl<P: Provider> MemoryLayer for Recall<P> {
    async fn add(
        &self,
        _run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        let started = Instant::now();
        let log = self.log(scope, Op::Add)?.observing(&self.inner.capabilities());
        let mut added = self.add_messages(&log, messages, &options).await;
        let took = started.elapsed();
        self.counts.added(added.as_ref().map(|_| messages.len()), took);
        if let Ok(outcome) = &mut added {
            outcome.drift = log.changes();
            let stored = if let AddStatus::Done(ids) = &outcome.status { ids.len() } else { 0 };
            tracing::debug!(messages = messages.len(), stored, known = outcome.known, ?took, "added");
        }
        added
    }

    async fn recall(&self, _run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        let started = Instant::now();
        let found = self.recalled(scope, query).await;
        let took = started.elapsed();
        self.counts.recalled(found.as_ref().map(Vec::len), took);
        if let Ok(facts) = &found {
            tracing::debug!(facts = facts.len(), hit = !facts.is_empty(), ?took, "recalled");
        }
        found
    }

    async fn event(&self, _run: &RunContext, _scope: &Scope, _id: &EventId) -> Result<EventStatus> {
        Err(Error::unsupported(Op::Event.as_str(), self.inner.name()))
    }

    async fn forget(&self, _run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        self.forget_facts(scope, what).await
    }

    async fn facts(&self, _run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        let log = self.log(scope, Op::Facts)?;
        let after = query.cursor.map(|cursor| Cursor::from_text(cursor).key(scope, FACTS)).transpose()?;
        if let Some(session) = &query.session {
            return self.of_session(&log, session, after.as_ref(), query.limit).await;
        }
        let mut cursor = after.map(|key| Cursor::after_key(scope, keys::LOG_PREFIX, &key));
        let (mut facts, mut bytes) = (Vec::new(), 0);
        loop {
            let mut list = ListQuery::prefix(keys::LOG_PREFIX);
            (list.cursor, list.limit) = (cursor, query.limit.saturating_sub(facts.len()).max(1));
            let page = log.backend.list(scope, list).await?;
            for entry in &page.entries {
                bytes += entry.value.len_bytes();
                facts.extend(fact(entry)?);
            }
            let last = page.entries.last().map(|entry| entry.key.clone());
            cursor = page.next;
            let (Some(_), Some(last)) = (&cursor, last) else { return Ok(FactsPage::new(facts, None)) };
            if facts.len() >= query.limit || bytes >= MAX_PAGE_BYTES {
                let next = Cursor::after_key(scope, FACTS, &last).as_str().to_owned();
                return Ok(FactsPage::new(facts, Some(next)));
            }
        }
    }
}

impl<P: Provider> Recall<P> {
    async fn recalled(&self, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        let log = self.log(scope, Op::Recall)?;
        let now = self.clock.now();
        let model = self.options.embedder.as_ref().map(|embedder| embedder.model());
        let slot = self.cache.current(&log, model, now).await?;
        let question = Question {
            vector: self.embedded(&slot, &query.text).await,
            text: query.text,
            at: Some(query.at.or(query.as_of).unwrap_or(now)),
        };
        let of = Moment { as_of: query.as_of, unconfirmed_since: query.unconfirmed_since, derived: false };
        let mut ranked = slot.state().search(&question, &self.options.weights, of, query.top_k);
        if let Some(threshold) = query.threshold {
            ranked.retain(|found| found.similarity >= threshold);
        }
        let keys: Vec<Key> = ranked.iter().map(|found| keys::log(found.number)).collect::<Result<_>>()?;
        let mut facts = Vec::with_capacity(ranked.len());
        let (mut ranked, mut bytes) = (ranked.into_iter(), 0);
        for keys in keys.chunks(READ_AT_ONCE) {
            for (entry, found) in log.entries(keys).await?.into_iter().zip(ranked.by_ref()) {
                bytes += entry.as_ref().map_or(0, |entry| entry.value.len_bytes());
                // Facts that have been forgotten since, or have expired by the store's clock, are missing.
                let Some(mut fact) = entry.as_ref().map(fact).transpose()?.flatten() else { continue };
                scored(&mut fact, found, query.explain);
                facts.push(fact);
            }
            if bytes > MAX_BULK_BYTES {
                let why =
                    format!("the facts of the answer have more than {MAX_BULK_BYTES} bytes; ask for fewer");
                return Err(Error::result_too_large(why)
                    .with_retry(Retry::Never)
                    .with_detail("limit", MAX_BULK_BYTES)
                    .with_detail("unit", "bytes"));
            }
        }
        Ok(facts)
    }

    /// A page of a session's facts. The index knows which they are, so no others are read.
    async fn of_session(
        &self,
        log: &Log<'_>,
        session: &str,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<FactsPage> {
        let model = self.options.embedder.as_ref().map(|embedder| embedder.model());
        let slot = self.cache.current(log, model, self.clock.now()).await?;
        let mut numbers = slot.state().of_session(session);
        if let Some(after) = after.map(keys::number).transpose()? {
            numbers.retain(|number| *number > after);
        }
        let all = numbers.len();
        numbers.truncate(limit);
        let keys: Vec<Key> = numbers.into_iter().map(keys::log).collect::<Result<_>>()?;
        let (mut facts, mut bytes, mut read) = (Vec::new(), 0, 0);
        for chunk in keys.chunks(READ_AT_ONCE) {
            for entry in log.entries(chunk).await?.iter().flatten() {
                bytes += entry.value.len_bytes();
                facts.extend(fact(entry)?);
            }
            read += chunk.len();
            if bytes >= MAX_PAGE_BYTES {
                break;
            }
        }
        let last = read.checked_sub(1).and_then(|last| keys.get(last)).filter(|_| read < all);
        let next = last.map(|last| Cursor::after_key(log.scope, FACTS, last));
        facts.retain(|fact| fact.session.as_deref() == Some(session));
        Ok(FactsPage::new(facts, next.map(|next| next.as_str().to_owned())))
    }

    /// The question's vector. Without one, words and the other signals still answer.
    pub(crate) async fn embedded(&self, slot: &Slot, text: &str) -> Option<Vec<f32>> {
        let embedder = self.options.embedder.as_ref()?;
        let masked = slot.state().masked(text);
        if masked.trim().is_empty() {
            return None;
        }
        match ask(embedder.as_ref(), &[&masked], EmbedRole::Query).await {
            Ok(mut vectors) => vectors.pop(),
            // For example, in a script that the model does not know.
            Err(error) if is_of_the_text(&error) => None,
            Err(error) => {
                tracing::warn!(%error, "a question is answered without its meaning");
                None
            }
        }
    }
}

/// The fact in a log entry; `None` if it is not a turn.
pub(crate) fn fact(entry: &Entry) -> Result<Option<Fact>> {
    let Record::Turn(turn) = record::read(entry)? else { return Ok(None) };
    let said = turn.said(entry);
    let mut fact = Fact::new(FactId::new(turn.id)?, turn.text);
    fact.metadata = entry.metadata.clone();
    fact.created_at = Some(entry.created_at);
    fact.provenance = turn.message;
    (fact.speaker, fact.role, fact.session) = (turn.speaker, Some(turn.role), turn.session);
    if let Some(derived) = turn.derived {
        // Nobody said it.
        fact.role = None;
        fact.valid_from = derived.valid_from.map(Timestamp::from_millis_clamped);
        let sources = derived.sources.into_iter().map(|source| FactId::new(source.id));
        fact.sources = sources.collect::<Result<_>>()?;
    }
    fact.at = turn.at.map(Timestamp::from_millis_clamped);
    fact.order = Some(keys::number(&entry.key)?);
    fact.answers = turn.answers.map(|answered| FactId::new(answered.id)).transpose()?;
    fact.caption = turn.caption;
    let confirmed = turn.confirmed_at.map_or(said, |at| at.max(said));
    fact.confirmed_at = Some(Timestamp::from_millis_clamped(confirmed));
    fact.valid_to = turn.valid_to.map(Timestamp::from_millis_clamped);
    fact.superseded_by = turn.superseded_by.map(FactId::new).transpose()?;
    Ok(Some(fact))
}

fn scored(fact: &mut Fact, found: Ranked, explain: bool) {
    (fact.score, fact.score_kind) = (Some(found.score), ScoreKind::Rank);
    fact.similarity = Some(found.similarity);
    if explain {
        fact.shares = found.shares.into_iter().map(|share| Share::new(share.signal, share.value)).collect();
    }
}
