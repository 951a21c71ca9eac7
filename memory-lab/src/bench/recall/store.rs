//! The store with one conversation, behind `Checked`, through trait objects.

use std::path::Path;
use std::sync::Arc;

use memory::Memory;
use memory::system::{RandomIds, SystemClock};
use memory_core::layer::{AddOptions, FactsQuery, MAX_MESSAGES_BYTES, RecallQuery};
use memory_core::{
    Backend, Error, MemoryLayer, Result, RunContext, Scope, ScopeId, SearchMode, SearchQuery, TenantId,
};
use memory_recall::{Recall, RecallOptions};
use memory_sqlite::{SqliteConfig, SqliteProvider};

use super::turns::Turns;

/// Messages of one `add`, at most.
const BATCH: usize = 500;

/// Whether turns have vectors: those of the model that comes with the product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Words,
    Meaning,
}

#[derive(Clone)]
pub(super) struct Store {
    memory: Memory,
    run: RunContext,
    scope: Scope,
}

impl Store {
    pub(super) async fn open(dir: &Path, kind: Kind) -> Result<Self> {
        let provider =
            SqliteProvider::open(dir.join("recall.db"), SqliteConfig::default(), Arc::new(SystemClock))?;
        let mut options = RecallOptions::default().with_memory_bytes(usize::MAX);
        if kind == Kind::Meaning {
            options = options.with_embedder(Arc::new(memory_model::BundledEmbedder::new()?));
        }
        let recall = Recall::new(provider, options, Arc::new(SystemClock), Arc::new(RandomIds));
        Ok(Self {
            memory: Memory::new(Arc::new(recall))?,
            run: RunContext::new(TenantId::new("bench")?, ScopeId::new("bench")?, ScopeId::new("run")?),
            scope: Scope::agent("bench", "recall")?,
        })
    }

    fn layer(&self) -> Result<&dyn MemoryLayer> {
        self.memory.layer().ok_or_else(|| Error::unsupported("recall", self.memory.name()))
    }

    fn backend(&self) -> Result<&dyn Backend> {
        self.memory.backend().ok_or_else(|| Error::unsupported("search", self.memory.name()))
    }

    /// Adds sessions, over and over, until there are `turns` turns. Returns the bytes of their words.
    pub(super) async fn load(
        &self,
        said: &Turns,
        turns: usize,
        mut so_far: impl FnMut(usize) -> Result<()>,
    ) -> Result<usize> {
        let (mut stored, mut bytes) = (0, 0);
        for (number, session) in said.sessions.iter().cycle().enumerate() {
            let rest = turns - stored;
            let mut messages: Vec<_> = session.iter().take(rest).cloned().collect();
            for (at, message) in messages.iter_mut().enumerate() {
                message.session = Some(format!("session {number}"));
                message.id = Some(format!("{number}:{at}"));
                bytes += message.content.len();
            }
            let mut rest = messages.as_slice();
            while !rest.is_empty() {
                let mut size = 0;
                let fitting = rest.iter().take(BATCH).take_while(|message| {
                    size += message.content.len();
                    size <= MAX_MESSAGES_BYTES
                });
                let (batch, after) = rest.split_at(fitting.count().max(1));
                self.layer()?.add(&self.run, &self.scope, batch, AddOptions::default().verbatim()).await?;
                rest = after;
            }
            stored += messages.len();
            so_far(stored)?;
            if stored >= turns {
                break;
            }
        }
        Ok(bytes)
    }

    pub(super) async fn recall(&self, questions: &[String], question: usize) -> Result<()> {
        let query = RecallQuery::new(asked(questions, question));
        self.layer()?.recall(&self.run, &self.scope, query).await.map(drop)
    }

    pub(super) async fn search(&self, questions: &[String], question: usize) -> Result<()> {
        let query = SearchQuery::new(asked(questions, question)).with_mode(SearchMode::Lexical);
        self.backend()?.search(&self.scope, query).await.map(drop)
    }

    /// Reads every turn once.
    pub(super) async fn list_all(&self) -> Result<()> {
        let mut query = FactsQuery::default();
        query.limit = 1_000;
        loop {
            let page = self.layer()?.facts(&self.run, &self.scope, query.clone()).await?;
            if page.next.is_none() {
                return Ok(());
            }
            query.cursor = page.next;
        }
    }

    /// Recalls from a scope without turns.
    pub(super) async fn recall_nothing(&self) -> Result<()> {
        let empty = Scope::agent("bench", "empty")?;
        self.layer()?.recall(&self.run, &empty, RecallQuery::new("anything")).await.map(drop)
    }
}

fn asked(questions: &[String], question: usize) -> &str {
    questions.get(question % questions.len().max(1)).map_or("", String::as_str)
}
