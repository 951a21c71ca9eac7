//! Conversations of rig's agents, kept by a [`MemoryLayer`](memory::MemoryLayer).

use memory::layer::{AddOptions, AddStatus, Fact, FactsQuery, Forget, MemoryLayer, Message as Said, Role};
use memory::limits::MAX_PAGE;
use memory::system::{RandomIds, SystemClock};
use memory::{Clock, Error, ErrorKind, IdGen, Memory, Provider, RunContext, Scope};
use rig_core::id::ConversationId;
use rig_core::memory::{ConversationMemory, MemoryError};
use rig_core::message::{AssistantContent, Message, UserContent};
use rig_core::wasm_compat::WasmBoxedFuture;

/// The history of conversations, for `AgentBuilder::memory`: each is a session of a scope, in which
/// [`recall`](memory::MemoryLayer::recall) finds what was said in any of them.
///
/// What is kept is what was said: the text of each message of the user and of the assistant, with its time. Calls of tools and their
/// results, reasoning, pictures and files are not, nor are system messages; a history that is loaded has none.
///
/// # Errors
/// `MemoryError::Backend`, which is the [`memory::Error`].
#[derive(Clone, Debug)]
pub struct History {
    memory: Memory,
    run: RunContext,
    scope: Scope,
}

impl History {
    /// Conversations of a scope of this run.
    ///
    /// # Errors
    /// `capability_unsupported` if the provider does not keep messages apart, as they were said and by session. SQLite and PostgreSQL do, with the
    /// feature `recall`.
    pub fn new(memory: Memory, run: RunContext, scope: Scope) -> memory::Result<Self> {
        let capabilities = memory.capabilities();
        let keeps_messages = capabilities.layer_verbatim
            && capabilities.layer_idempotent
            && capabilities.layer_sync
            && capabilities.layer_forget
            && capabilities.layer_sessions;
        if memory.layer().is_none() || !keeps_messages {
            return Err(Error::unsupported("verbatim messages", memory.name()));
        }
        Ok(Self { memory, run, scope })
    }

    fn layer(&self) -> memory::Result<&dyn MemoryLayer> {
        self.memory.layer().ok_or_else(|| Error::unsupported("add", self.memory.name()))
    }

    async fn said_in(&self, conversation: &ConversationId) -> memory::Result<Vec<Fact>> {
        let (layer, mut said, mut query) = (self.layer()?, Vec::new(), FactsQuery::default());
        query.limit = MAX_PAGE;
        query.session = Some(conversation.as_str().to_owned());
        loop {
            let page = layer.facts(&self.run, &self.scope, query.clone()).await?;
            said.extend(page.facts);
            query.cursor = page.next;
            if query.cursor.is_none() {
                return Ok(said);
            }
        }
    }

    async fn add(&self, conversation: &ConversationId, messages: Vec<Message>) -> memory::Result<()> {
        let now = SystemClock.now();
        let said = messages.iter().filter_map(text_of).map(|(role, text)| {
            // Saying the same twice is two messages.
            let id = format!("{:032x}", RandomIds.fresh());
            Said::new(role, text).with_session(conversation.as_str().to_owned()).with_id(id).with_at(now)
        });
        let said: Vec<Said> = said.collect();
        if said.is_empty() {
            return Ok(());
        }
        let options = AddOptions::default().verbatim();
        match self.layer()?.add(&self.run, &self.scope, &said, options).await?.status {
            AddStatus::Done(_) => Ok(()),
            _ => Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "the messages may or may not have been kept; load the conversation before you go on",
            )),
        }
    }

    async fn forget(&self, conversation: &ConversationId) -> memory::Result<()> {
        let said = self.said_in(conversation).await?;
        for some in said.chunks(MAX_PAGE) {
            let ids = some.iter().map(|fact| fact.id.clone()).collect();
            self.layer()?.forget(&self.run, &self.scope, Forget::Ids(ids)).await?;
        }
        Ok(())
    }
}

impl ConversationMemory for History {
    fn load<'a>(
        &'a self,
        conversation: &'a ConversationId,
    ) -> WasmBoxedFuture<'a, Result<Vec<Message>, MemoryError>> {
        Box::pin(async move {
            let said = self.said_in(conversation).await.map_err(MemoryError::backend)?;
            Ok(said.into_iter().filter_map(message).collect())
        })
    }

    fn append<'a>(
        &'a self,
        conversation: &'a ConversationId,
        messages: Vec<Message>,
    ) -> WasmBoxedFuture<'a, Result<(), MemoryError>> {
        Box::pin(async move { self.add(conversation, messages).await.map_err(MemoryError::backend) })
    }

    fn clear<'a>(&'a self, conversation: &'a ConversationId) -> WasmBoxedFuture<'a, Result<(), MemoryError>> {
        Box::pin(async move { self.forget(conversation).await.map_err(MemoryError::backend) })
    }
}

/// What was said, if anything was.
fn text_of(message: &Message) -> Option<(Role, String)> {
    let (role, texts): (Role, Vec<&str>) = match message {
        Message::System { .. } => return None,
        Message::User { content } => {
            let texts = content.iter().filter_map(|content| match content {
                UserContent::Text(text) => Some(text.text.as_str()),
                _ => None,
            });
            (Role::User, texts.collect())
        }
        Message::Assistant(said) => {
            let texts = said.content.iter().filter_map(|content| match content {
                AssistantContent::Text(text) => Some(text.text.as_str()),
                _ => None,
            });
            (Role::Assistant, texts.collect())
        }
    };
    let text = texts.join("\n");
    (!text.trim().is_empty()).then_some((role, text))
}

fn message(fact: Fact) -> Option<Message> {
    match fact.role? {
        Role::User => Some(Message::user(fact.memory)),
        Role::Assistant => Some(Message::assistant(fact.memory)),
        Role::System | Role::Tool => None,
    }
}
