//! Embedding what was written: after the durable write, outside every lock, and stored only if the entry is unchanged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::embed::{embed_documents, is_of_the_text};
use memory_core::{
    EmbedRole, Embedder, Embedding, EmbeddingModel, Error, ErrorKind, Key, Result, SetOutcome,
};
use tokio_postgres::types::Type;

use crate::store::Store;
use crate::store::columns::{column, signed};
use crate::store::parameters::{ModelValues, Value};
use crate::store::scope_ref::ScopeRef;
use crate::vector::numbers::Numbers;

/// Entries that are embedded, and then stored by one statement.
pub(crate) const STEP: usize = 256;

/// An embedder with a timeout.
#[derive(Debug)]
pub(crate) struct Timed {
    inner: Arc<dyn Embedder>,
    limit: Duration,
}

impl Timed {
    pub(crate) fn new(inner: Arc<dyn Embedder>, limit: Duration) -> Self {
        Self { inner, limit }
    }
}

#[async_trait]
impl Embedder for Timed {
    fn model(&self) -> &EmbeddingModel {
        self.inner.model()
    }

    async fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        match tokio::time::timeout(self.limit, self.inner.embed(texts, role)).await {
            Ok(vectors) => vectors,
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "the embedder did not answer within {} ms; look after it, or allow it more time",
                    self.limit.as_millis()
                ),
            )),
        }
    }
}

/// An entry to embed.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) text: String,
    /// Whether `text` is not the entry's search text, so that it is stored beside the vector.
    pub(crate) apart: bool,
}

impl Wanted {
    /// An entry that was just written; `None` where its text is blank.
    pub(crate) fn written(key: Key, version: u64, text: String) -> Option<Self> {
        (!text.trim().is_empty()).then_some(Self { key, version, text, apart: false })
    }
}

/// What became of an entry to embed.
#[derive(Debug)]
pub(crate) enum Done {
    Stored,
    /// It was overwritten meanwhile, or has expired.
    Overtaken,
    Failed(Error),
}

impl From<Done> for Embedding {
    fn from(done: Done) -> Self {
        match done {
            Done::Stored => Self::Stored,
            Done::Overtaken => Self::Skipped,
            Done::Failed(error) => Self::Failed(error.message().to_owned()),
        }
    }
}

/// Embeds one entry that was written.
pub(crate) async fn one(
    store: &Store,
    embedder: &dyn Embedder,
    target: &ScopeRef,
    wanted: Option<Wanted>,
) -> Embedding {
    let Some(wanted) = wanted else { return Embedding::Skipped };
    let done = many(store, embedder, target, vec![wanted]).await;
    done.into_iter().next().map_or(Embedding::Skipped, Embedding::from)
}

/// Embeds what one bulk insert wrote. Of several items with the same key the last is stored. `item` gives the key of an
/// item and, if it is to be embedded, its text.
pub(crate) async fn bulk(
    store: &Store,
    embedder: &dyn Embedder,
    target: &ScopeRef,
    outcomes: &mut [SetOutcome],
    item: impl Fn(usize) -> Option<(Key, Option<String>)>,
) {
    let mut last: HashMap<Key, (usize, Option<Wanted>)> = HashMap::new();
    for (at, outcome) in outcomes.iter().enumerate().filter(|(_, outcome)| outcome.written) {
        let Some((key, text)) = item(at) else { continue };
        let wanted = text.and_then(|text| Wanted::written(key.clone(), outcome.version, text));
        last.insert(key, (at, wanted));
    }
    let mut all: Vec<(usize, Wanted)> =
        last.into_values().filter_map(|(at, wanted)| Some((at, wanted?))).collect();
    all.sort_unstable_by_key(|(at, _)| *at);
    let (places, all): (Vec<usize>, Vec<Wanted>) = all.into_iter().unzip();
    let done = many(store, embedder, target, all).await;
    for (at, done) in places.into_iter().zip(done) {
        if let Some(outcome) = outcomes.get_mut(at) {
            outcome.embedding = done.into();
        }
    }
}

/// Embeds entries and stores their vectors, a few at a time. Once the embedder itself fails, it is not called again.
pub(crate) async fn many(
    store: &Store,
    embedder: &dyn Embedder,
    target: &ScopeRef,
    wanted: Vec<Wanted>,
) -> Vec<Done> {
    let mut done = Vec::with_capacity(wanted.len());
    let mut broken: Option<(ErrorKind, String)> = None;
    for step in wanted.chunks(STEP) {
        if let Some((kind, message)) = &broken {
            done.extend(step.iter().map(|_| Done::Failed(Error::new(*kind, message.clone()))));
            continue;
        }
        let texts: Vec<&str> = step.iter().map(|wanted| wanted.text.as_str()).collect();
        let vectors = embed_documents(embedder, &texts).await;
        broken = vectors.iter().rev().find_map(|vector| match vector {
            Err(error) if !is_of_the_text(error) => Some((error.kind(), error.message().to_owned())),
            _ => None,
        });
        done.extend(keep(store, embedder.model(), target, step, vectors).await);
    }
    done
}

/// Stores vectors in one transaction. The write they belong to stands whatever happens here.
async fn keep(
    store: &Store,
    model: &EmbeddingModel,
    target: &ScopeRef,
    wanted: &[Wanted],
    vectors: Vec<Result<Vec<f32>>>,
) -> Vec<Done> {
    let mut items = Vec::new();
    let mut done = Vec::with_capacity(wanted.len());
    for (wanted, vector) in wanted.iter().zip(vectors) {
        match vector {
            Ok(numbers) => {
                items.push((wanted, Numbers::of(&numbers)));
                done.push(None);
            }
            Err(error) => done.push(Some(Done::Failed(error))),
        }
    }
    let stored = if items.is_empty() { Ok(Vec::new()) } else { send(store, model, target, &items).await };
    match stored {
        Ok(stored) => {
            let mut stored = stored.into_iter();
            let of_stored = |stored: Option<bool>| match stored {
                Some(true) => Done::Stored,
                _ => Done::Overtaken,
            };
            done.into_iter().map(|done| done.unwrap_or_else(|| of_stored(stored.next()))).collect()
        }
        Err(error) => {
            let failed = || Done::Failed(Error::new(error.kind(), error.message().to_owned()));
            done.into_iter().map(|done| done.unwrap_or_else(failed)).collect()
        }
    }
}

async fn send(
    store: &Store,
    model: &EmbeddingModel,
    target: &ScopeRef,
    items: &[(&Wanted, Numbers)],
) -> Result<Vec<bool>> {
    let model = ModelValues::from(Some(model));
    let now = store.time.parameter();
    let keys: Vec<&str> = items.iter().map(|(wanted, _)| wanted.key.as_str()).collect();
    let versions: Vec<i64> = items.iter().map(|(wanted, _)| signed(wanted.version)).collect();
    let apart: Vec<Option<&str>> =
        items.iter().map(|(wanted, _)| wanted.apart.then_some(wanted.text.as_str())).collect();
    let embeddings: Vec<Option<&str>> =
        items.iter().map(|(_, numbers)| numbers.embedding.as_deref()).collect();
    let exacts: Vec<Option<&str>> = items.iter().map(|(_, numbers)| numbers.exact.as_deref()).collect();
    let mut values = target.parameters([(&now, Type::INT8)]);
    values.extend(model.values());
    let own: [Value<'_>; 5] = [
        (&keys, Type::TEXT_ARRAY),
        (&versions, Type::INT8_ARRAY),
        (&apart, Type::TEXT_ARRAY),
        (&embeddings, Type::TEXT_ARRAY),
        (&exacts, Type::TEXT_ARRAY),
    ];
    values.extend(own);
    column(&store.write(&store.statements.vectors, &values).await?, 0, "outcome")
}
