//! Adds turns to the conversations of a store, in batches of one transaction each. Turns already there are recognised
//! by their ids, so an interrupted import can be resumed by running it again.

use std::collections::BTreeMap;

use memory::conversations::{AddPlan, KnownFact, fact_of_message, known_facts};
use memory_core::layer::{
    AddOptions, AddOutcome, AddStatus, FactId, MAX_MESSAGES_BYTES, MemoryLayer, Message, Role,
};
use memory_core::{Backend, Error, ErrorKind, Result, RunContext, Scope};

use super::format::Format;
use super::problems::Problems;
use super::readers::{Place, Turn};
use super::store::{BATCH, OnDifferent, Totals};

/// About how many bytes of text per transaction.
const BATCH_BYTES: usize = MAX_MESSAGES_BYTES / 2;
/// Most turns waiting for their transaction, across all scopes.
const PENDING: usize = 4 * BATCH;

/// A turn that waits.
struct Waiting {
    file: String,
    place: Place,
    message: Message,
}

#[derive(Default)]
struct Batch {
    waiting: Vec<Waiting>,
    bytes: usize,
}

/// Adds turns to any number of scopes of one store.
pub(crate) struct Turns<'a> {
    layer: &'a dyn MemoryLayer,
    backend: &'a dyn Backend,
    run: RunContext,
    on_different: OnDifferent,
    pub(super) again: bool,
    /// In a dry run, says what would be added.
    plan: Option<AddPlan<'a>>,
    pending: BTreeMap<Scope, Batch>,
    waiting: usize,
    /// The totals so far, by scope.
    pub(crate) totals: BTreeMap<Scope, Totals>,
    /// Turns left out because they were forgotten before.
    pub(crate) forgotten: u64,
    /// What could not be stored.
    pub(crate) problems: Problems,
    /// What was not stored because something else is there.
    pub(crate) kept: Problems,
}

impl<'a> Turns<'a> {
    pub(crate) fn new(
        layer: &'a dyn MemoryLayer,
        backend: &'a dyn Backend,
        run: RunContext,
        on_different: OnDifferent,
        again: bool,
    ) -> Self {
        Self {
            layer,
            backend,
            run,
            on_different,
            again,
            plan: None,
            pending: BTreeMap::new(),
            waiting: 0,
            totals: BTreeMap::new(),
            forgotten: 0,
            problems: Problems::default(),
            kept: Problems::default(),
        }
    }

    /// Adds nothing, but counts what would be added to a store with values of at most this many bytes.
    #[must_use]
    pub(crate) fn dry(mut self, max_value_bytes: usize) -> Self {
        self.plan = Some(AddPlan::new(self.backend, max_value_bytes));
        self
    }

    /// Whether nothing is added.
    pub(super) fn is_dry(&self) -> bool {
        self.plan.is_some()
    }

    /// Queues one turn; adds a batch once enough are queued.
    ///
    /// # Errors
    /// As [`MemoryLayer::add`].
    pub(crate) async fn push(
        &mut self,
        scope: Scope,
        file: &str,
        place: Place,
        message: Message,
    ) -> Result<()> {
        let batch = self.pending.entry(scope.clone()).or_default();
        let full = !batch.waiting.is_empty()
            && (batch.waiting.len() >= BATCH || batch.bytes + message.content.len() > BATCH_BYTES);
        if full {
            self.write(&scope).await?;
        }
        let batch = self.pending.entry(scope).or_default();
        batch.bytes += message.content.len();
        batch.waiting.push(Waiting { file: file.to_owned(), place, message });
        self.waiting += 1;
        if self.waiting >= PENDING { self.finish().await } else { Ok(()) }
    }

    /// Counts turns that already exist or were forgotten.
    pub(crate) fn count_known(&mut self, scope: &Scope, known: u64, forgotten: u64) {
        self.totals.entry(scope.clone()).or_default().unchanged += known;
        self.forgotten += forgotten;
    }

    /// Adds every queued turn.
    ///
    /// # Errors
    /// `conflict` if `on_different` is `Fail`; otherwise those of [`MemoryLayer::add`].
    pub(crate) async fn finish(&mut self) -> Result<()> {
        while let Some(scope) = self.pending.keys().next().cloned() {
            self.write(&scope).await?;
        }
        Ok(())
    }

    async fn write(&mut self, scope: &Scope) -> Result<()> {
        let Some(Batch { mut waiting, .. }) = self.pending.remove(scope) else { return Ok(()) };
        self.waiting -= waiting.len();
        while !waiting.is_empty() {
            let messages: Vec<Message> = waiting.iter().map(|waiting| waiting.message.clone()).collect();
            match self.add(scope, &messages).await {
                Ok(outcome) if outcome.different.is_empty() || self.on_different == OnDifferent::Skip => {
                    self.count(scope, &outcome, 0);
                    return self.keep_out(scope, &outcome.different, &waiting);
                }
                Ok(mut outcome) => {
                    // The others of the batch are done; those with different text follow one by one.
                    outcome.different.clear();
                    self.count(scope, &outcome, 0);
                    return self.one_by_one(scope, &waiting, true).await;
                }
                // One refused turn must not keep the others out.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge) => {
                    let index = error.details().get("index").and_then(serde_json::Value::as_u64);
                    let index = index.and_then(|index| usize::try_from(index).ok());
                    let index = if waiting.len() == 1 { Some(0) } else { index };
                    match index.filter(|index| *index < waiting.len()) {
                        Some(index) => {
                            let refused = waiting.remove(index);
                            self.problems.add(&refused.file, refused.place, error.message());
                        }
                        None => return self.one_by_one(scope, &waiting, false).await,
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Records the turns for which different text is kept.
    fn keep_out(&mut self, scope: &Scope, different: &[FactId], waiting: &[Waiting]) -> Result<()> {
        if different.is_empty() {
            return Ok(());
        }
        let mut left: Vec<&FactId> = different.iter().collect();
        let mut named = Vec::new();
        // If two in a batch collide, the last is the different one.
        for waiting in waiting.iter().rev() {
            let fact = fact_of_message(scope, &waiting.message)?;
            if let Some(at) = left.iter().position(|different| **different == fact) {
                left.swap_remove(at);
                named.push((waiting, fact));
            }
        }
        for (waiting, fact) in named.into_iter().rev() {
            let why = format!("the fact {fact} from the same place has other words");
            self.kept.add(&waiting.file, waiting.place.clone(), why);
        }
        Ok(())
    }

    /// Adds turns one by one. `counted`: all but those with different text have been counted.
    async fn one_by_one(&mut self, scope: &Scope, waiting: &[Waiting], counted: bool) -> Result<()> {
        for waiting in waiting {
            let message = std::slice::from_ref(&waiting.message);
            let outcome = match self.add(scope, message).await {
                Ok(outcome) => outcome,
                Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge) => {
                    self.problems.add(&waiting.file, waiting.place.clone(), error.message());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(fact) = outcome.different.first().cloned() else {
                if !counted {
                    self.count(scope, &outcome, 0);
                }
                continue;
            };
            match self.on_different {
                OnDifferent::Skip => {
                    self.count(scope, &outcome, 0);
                    self.keep_out(scope, &outcome.different, std::slice::from_ref(waiting))?;
                }
                OnDifferent::Replace => {
                    let known = known_facts(self.backend, scope, &[&fact]).await?;
                    if known.contains(&KnownFact::Superseded) {
                        let why = format!(
                            "the fact {fact} from the same place was corrected since and keeps its words, which would hold \
                             again; if these are to hold, forget it and import them with --again"
                        );
                        self.problems.add(&waiting.file, waiting.place.clone(), why);
                        continue;
                    }
                    let options = AddOptions::default().with_again(true).with_supersedes(vec![fact]);
                    match self.add_with(scope, message, options).await {
                        Ok(outcome) => self.count(scope, &outcome, 1),
                        Err(error) if error.kind() == ErrorKind::TooLarge => {
                            self.problems.add(&waiting.file, waiting.place.clone(), error.message());
                        }
                        Err(error) => return Err(error),
                    }
                }
                OnDifferent::Fail => {
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!(
                            "{}, {}: the fact {fact} was imported from the same place with other words; keep it with \
                             --on-different skip or replace it with --on-different replace",
                            waiting.file, waiting.place
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Adds turns, or says what adding them would do.
    pub(super) async fn add_with(
        &mut self,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        match &mut self.plan {
            Some(plan) => plan.add(scope, messages, &options).await,
            None => self.layer.add(&self.run, scope, messages, options).await,
        }
    }

    async fn add(&mut self, scope: &Scope, messages: &[Message]) -> Result<AddOutcome> {
        let options = AddOptions::default().with_again(self.again);
        let outcome = self.add_with(scope, messages, options).await?;
        if outcome.status == AddStatus::Unknown {
            return Err(Error::outcome_unknown(
                "it is not known whether the last turns were stored; run the import again, which stores only what is missing",
            ));
        }
        Ok(outcome)
    }

    /// Counts the outcome of adding turns; `replaced` of the new ones replaced others.
    pub(super) fn count(&mut self, scope: &Scope, outcome: &AddOutcome, replaced: u64) {
        let stored = match &outcome.status {
            AddStatus::Done(ids) => u64::try_from(ids.len()).unwrap_or(u64::MAX),
            _ => 0,
        };
        let totals = self.totals.entry(scope.clone()).or_default();
        totals.created += stored - replaced.min(stored);
        totals.replaced += replaced.min(stored);
        totals.unchanged += outcome.known;
        totals.kept += u64::try_from(outcome.different.len()).unwrap_or(u64::MAX);
        totals.without_vector += outcome.without_vector;
        self.forgotten += outcome.forgotten;
    }
}

/// A turn as a message. `None` for what the runtime or a tool said, which is not remembered.
pub(crate) fn message(turn: Turn, format: Format) -> Option<Message> {
    let role = match turn.role.as_deref() {
        Some("system" | "developer" | "tool" | "function") => return None,
        Some("assistant" | "ai" | "model") => Role::Assistant,
        _ => Role::User,
    };
    let (id, metadata) = (turn.key(format.name()), turn.metadata());
    let session = match turn.session_name() {
        Some(session) => format!("{}/{session}", turn.conversation),
        None => turn.conversation.clone(),
    };
    let named = !turn.speaker.trim().is_empty() && turn.role.as_deref() != Some(turn.speaker.as_str());
    let mut message = Message::new(role, turn.text).with_id(id).with_session(cut(session));
    message.name = named.then_some(turn.speaker);
    message.metadata = metadata;
    (message.at, message.caption) = (turn.time, turn.caption);
    Some(message)
}

/// The beginning of a session's name.
fn cut(mut name: String) -> String {
    let most = memory_core::layer::MAX_MESSAGE_ID_BYTES.min(name.len());
    let end = (0..=most).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    name.truncate(end);
    name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
