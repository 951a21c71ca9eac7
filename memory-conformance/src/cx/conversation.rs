//! A scope's conversation for the cases about the layer.

use std::fmt;
use std::thread;
use std::time::Duration;

use memory_core::layer::{
    AddOptions, AddOutcome, AddStatus, EventId, EventStatus, Fact, FactId, FactsQuery, Forget, ForgetOutcome,
    MemoryLayer, Message, RecallQuery, Role,
};
use memory_core::{Result, RunContext, Scope};

use crate::check::{CaseResult, Stop, check};
use crate::cx::Cx;

/// How often pending work is polled.
const ASKED: u64 = 200;
/// The longest pause between two polls, in milliseconds.
const LONGEST_WAIT: u64 = 100;
/// Most pages of a listing.
const PAGES: usize = 100;

/// One scope, used by one run.
#[derive(Clone)]
pub(crate) struct Conversation<'a> {
    cx: &'a Cx,
    layer: &'a dyn MemoryLayer,
    /// The scope.
    pub(crate) scope: Scope,
    /// The speaker.
    pub(crate) run: RunContext,
}

impl fmt::Debug for Conversation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// A sentence that teaches a word. Layers extract facts with language models, so it is simple.
pub(crate) fn about(word: &str) -> String {
    format!("I own a {word}.")
}

/// Whether a fact is about a word.
pub(crate) fn mentions(fact: &Fact, word: &str) -> bool {
    fact.memory.to_lowercase().contains(&word.to_lowercase())
}

/// One message of the user.
pub(crate) fn user(text: &str) -> Vec<Message> {
    vec![Message::new(Role::User, text)]
}

impl Cx {
    /// The conversation of a fresh scope with a fresh run.
    pub(crate) fn conversation(&self) -> CaseResult<Conversation<'_>> {
        self.conversation_in(self.scope()?)
    }

    /// The conversation of that scope with a fresh run of its tenant.
    pub(crate) fn conversation_in(&self, scope: Scope) -> CaseResult<Conversation<'_>> {
        let run = self.run_of(&scope.tenant)?;
        Ok(Conversation { cx: self, layer: self.store().layer(), scope, run })
    }
}

impl<'a> Conversation<'a> {
    /// The same conversation through another handle.
    #[must_use]
    pub(crate) fn through(&self, layer: &'a dyn MemoryLayer) -> Self {
        Self { layer, ..self.clone() }
    }

    /// Adds messages and returns the immediate status.
    pub(crate) async fn add(&self, messages: &[Message], options: AddOptions) -> Result<AddStatus> {
        Ok(self.layer.add(&self.run, &self.scope, messages, options).await?.status)
    }

    /// Adds messages and returns the whole outcome.
    pub(crate) async fn tell(&self, messages: &[Message], options: AddOptions) -> Result<AddOutcome> {
        self.layer.add(&self.run, &self.scope, messages, options).await
    }

    /// Adds messages, waits until they are done, and returns the outcome with the named facts.
    pub(crate) async fn told(&self, messages: &[Message], options: AddOptions) -> CaseResult<AddOutcome> {
        let mut outcome = self.tell(messages, options).await?;
        if let AddStatus::Pending(Some(event)) = &outcome.status {
            outcome.status = AddStatus::Done(self.done(event).await?);
        }
        Ok(outcome)
    }

    /// Adds messages, waits until they are done, and returns the named facts.
    pub(crate) async fn add_and_wait(
        &self,
        messages: &[Message],
        options: AddOptions,
    ) -> CaseResult<Vec<FactId>> {
        match self.add(messages, options).await? {
            AddStatus::Done(ids) => Ok(ids),
            AddStatus::Pending(Some(event)) => self.done(&event).await,
            AddStatus::Pending(None) => Ok(Vec::new()),
            other => Err(Stop::failed(format_args!("an add with a known outcome was reported as {other:?}"))),
        }
    }

    /// Waits until an event is done, and returns the named facts.
    pub(crate) async fn done(&self, event: &EventId) -> CaseResult<Vec<FactId>> {
        for asked in 0..ASKED {
            match self.layer.event(&self.run, &self.scope, event).await? {
                EventStatus::Done(ids) => return Ok(ids),
                EventStatus::Failed(why) => {
                    return Err(Stop::failed(format_args!("an add failed: {why}")));
                }
                _ => pause(asked),
            }
        }
        Err(Stop::failed("an event stayed pending"))
    }

    /// Teaches a word, waits until a fact about it is listed, and returns its id.
    pub(crate) async fn learn(&self, word: &str) -> CaseResult<FactId> {
        self.add_and_wait(&user(&about(word)), AddOptions::default()).await?;
        self.wait_for(word).await
    }

    /// Waits until a fact about a word is listed, and returns its id. It may come late only without `layer_sync` and
    /// without an event.
    pub(crate) async fn wait_for(&self, word: &str) -> CaseResult<FactId> {
        let capabilities = self.cx.capabilities();
        let patience = if capabilities.layer_sync || capabilities.layer_events { 1 } else { ASKED };
        for asked in 0..patience {
            if let Some(fact) = self.facts().await?.into_iter().find(|fact| mentions(fact, word)) {
                return Ok(fact.id);
            }
            if asked + 1 < patience {
                pause(asked);
            }
        }
        Err(Stop::failed(format_args!("nothing about `{word}` is listed, though it was added")))
    }

    /// Teaches several words, each in a separate `add`.
    pub(crate) async fn learn_all(&self, words: &[&str]) -> CaseResult<Vec<FactId>> {
        let mut ids = Vec::new();
        for word in words {
            ids.push(self.learn(word).await?);
        }
        Ok(ids)
    }

    /// Searches.
    pub(crate) async fn recall(&self, text: &str) -> Result<Vec<Fact>> {
        self.recall_with(RecallQuery::new(text)).await
    }

    /// Searches.
    pub(crate) async fn recall_with(&self, query: RecallQuery) -> Result<Vec<Fact>> {
        self.layer.recall(&self.run, &self.scope, query).await
    }

    /// Every fact, page by page.
    pub(crate) async fn facts(&self) -> CaseResult<Vec<Fact>> {
        Ok(self.pages(100).await?.concat())
    }

    /// Every page of at most that many facts.
    pub(crate) async fn pages(&self, limit: usize) -> CaseResult<Vec<Vec<Fact>>> {
        self.pages_of(None, limit).await
    }

    /// As [`pages`](Self::pages), of a session.
    pub(crate) async fn pages_of(&self, session: Option<&str>, limit: usize) -> CaseResult<Vec<Vec<Fact>>> {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let mut query = asking(cursor, limit);
            query.session = session.map(str::to_owned);
            let page = self.listed(query).await?;
            pages.push(page.facts);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(pages);
            }
            check!(pages.len() < PAGES, "the listing of a few facts has no end: {PAGES} pages and a cursor");
        }
    }

    /// One page.
    pub(crate) async fn page(
        &self,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<memory_core::layer::FactsPage> {
        self.listed(asking(cursor, limit)).await
    }

    /// The page that answers a query.
    pub(crate) async fn listed(&self, query: FactsQuery) -> Result<memory_core::layer::FactsPage> {
        self.layer.facts(&self.run, &self.scope, query).await
    }

    /// Queries an event.
    pub(crate) async fn event(&self, event: &EventId) -> Result<EventStatus> {
        self.layer.event(&self.run, &self.scope, event).await
    }

    /// Forgets these facts.
    pub(crate) async fn forget(&self, ids: &[FactId]) -> Result<ForgetOutcome> {
        self.layer.forget(&self.run, &self.scope, Forget::Ids(ids.to_vec())).await
    }

    /// Forgets every fact.
    pub(crate) async fn forget_all(&self) -> Result<ForgetOutcome> {
        self.layer.forget(&self.run, &self.scope, Forget::All).await
    }

    /// Fails the case unless exactly these words are known, both listed and recalled; `strange` are other scopes'
    /// words.
    pub(crate) async fn knows_only(&self, words: &[&str], strange: &[&str]) -> CaseResult {
        let facts = self.facts().await?;
        let who = (self.scope.kind, self.scope.id.as_str());
        for word in words {
            check!(facts.iter().any(|fact| mentions(fact, word)), "`{word}` is not listed in {who:?}");
            let found = self.recall(word).await?;
            check!(found.iter().any(|fact| mentions(fact, word)), "`{word}` is not recalled in {who:?}");
        }
        for word in strange {
            check!(
                !facts.iter().any(|fact| mentions(fact, word)),
                "`{word}` of another is listed in {who:?}"
            );
            let found = self.recall(word).await?;
            check!(
                !found.iter().any(|fact| mentions(fact, word)),
                "`{word}` of another is recalled in {who:?}"
            );
        }
        Ok(())
    }
}

fn asking(cursor: Option<String>, limit: usize) -> FactsQuery {
    let mut query = FactsQuery::default();
    query.cursor = cursor;
    query.limit = limit;
    query
}

/// Blocks this thread, which belongs to the case.
fn pause(asked: u64) {
    if asked > 0 {
        thread::sleep(Duration::from_millis((asked * 5).min(LONGEST_WAIT)));
    }
}
