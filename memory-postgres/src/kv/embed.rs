//! Embedding what was written: after the durable write, outside every lock, stored only if the entry is still the same.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::embed::{embed_documents, is_of_the_text};
use memory_core::{
    EmbedRole, Embedder, Embedding, EmbeddingModel, Error, ErrorKind, Key, Result, SetOutcome,
};
use tokio_postgres::types::Type;

use crate::kv::bulk::literal;
use crate::kv::row::{column, signed};
use crate::kv::target::{ModelValues, Target, Value};
use crate::store::Store;

/// Entries whose vectors one statement stores, and that are embedded before it does.
pub(crate) const STEP: usize = 256;

/// The longest vector that pgvector's type takes.
pub(crate) const MAX_VECTOR: usize = 16_000;

/// An embedder that is waited for only so long.
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

/// An entry that wants a vector.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) version: u64,
    pub(crate) text: String,
    /// Whether `text` is another than the entry's search text, so that it is to be kept beside the vector.
    pub(crate) apart: bool,
}

impl Wanted {
    /// An entry that was just written. `None`: a text without anything in it has no meaning to find.
    pub(crate) fn written(key: Key, version: u64, text: String) -> Option<Self> {
        (!text.trim().is_empty()).then_some(Self { key, version, text, apart: false })
    }
}

/// What became of an entry that wanted a vector.
#[derive(Debug)]
pub(crate) enum Done {
    Stored,
    /// It was written anew meanwhile, or has expired.
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
    target: &Target,
    wanted: Option<Wanted>,
) -> Embedding {
    let Some(wanted) = wanted else { return Embedding::Skipped };
    let done = many(store, embedder, target, vec![wanted]).await;
    done.into_iter().next().map_or(Embedding::Skipped, Embedding::from)
}

/// Embeds what one bulk insert wrote: of several items with the same key the last is what is stored. `item` gives the key
/// of an item and, if it is to be embedded, its text.
pub(crate) async fn bulk(
    store: &Store,
    embedder: &dyn Embedder,
    target: &Target,
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

/// Embeds entries and stores their vectors, some at a time. Once the embedder itself fails, the rest is not asked for.
pub(crate) async fn many(
    store: &Store,
    embedder: &dyn Embedder,
    target: &Target,
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

/// Stores vectors in one transaction. The write they belong to stands, whatever happens here.
async fn keep(
    store: &Store,
    model: &EmbeddingModel,
    target: &Target,
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
    target: &Target,
    items: &[(&Wanted, Numbers)],
) -> Result<Vec<bool>> {
    let (texts, model) = (target.texts(), ModelValues::from(Some(model)));
    let now = store.time.parameter();
    let keys: Vec<&str> = items.iter().map(|(wanted, _)| wanted.key.as_str()).collect();
    let versions: Vec<i64> = items.iter().map(|(wanted, _)| signed(wanted.version)).collect();
    let apart: Vec<Option<&str>> =
        items.iter().map(|(wanted, _)| wanted.apart.then_some(wanted.text.as_str())).collect();
    let embeddings: Vec<Option<&str>> =
        items.iter().map(|(_, numbers)| numbers.embedding.as_deref()).collect();
    let exacts: Vec<Option<&str>> = items.iter().map(|(_, numbers)| numbers.exact.as_deref()).collect();
    let mut values = Vec::with_capacity(12);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 1] = [(&now, Type::INT8)];
    values.extend(own);
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

/// A vector as it is stored.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// What the engine compares; `None`: more than it can.
    pub(crate) embedding: Option<String>,
    /// The very numbers, where those are others.
    pub(crate) exact: Option<String>,
}

impl Numbers {
    pub(crate) fn of(vector: &[f32]) -> Self {
        if vector.len() > MAX_VECTOR {
            return Self { embedding: None, exact: Some(literal(vector)) };
        }
        match comparable(vector) {
            None => Self { embedding: Some(literal(vector)), exact: None },
            Some(scaled) => Self { embedding: Some(literal(&scaled)), exact: Some(literal(vector)) },
        }
    }
}

/// The direction of a vector whose squares the engine's 32 bits do not hold; `None`: they do.
#[allow(clippy::cast_possible_truncation, reason = "to the 32 bits that a vector has")]
pub(crate) fn comparable(vector: &[f32]) -> Option<Vec<f32>> {
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    let fits = (1e-10..1e10).contains(&norm);
    (!fits).then(|| vector.iter().map(|x| (f64::from(*x) / norm) as f32).collect())
}
