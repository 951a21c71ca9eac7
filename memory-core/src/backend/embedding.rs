//! How a backend embeds what was written: after the durable write, outside every lock. A vector is stored only if its
//! entry is still the one that was embedded.

use std::collections::HashMap;

use async_trait::async_trait;

use super::write::{Embedding, ReembedOptions, ReembedOutcome, SetOutcome};
use crate::embed::{CHUNK_TEXTS, Embedder, EmbeddingModel, embed_documents, is_of_the_text};
use crate::error::{Error, ErrorKind, Result};
use crate::scope::Key;

/// The warning of a vector search in a scope where entries have vectors of other models only.
pub const STALE: &str = "entries were embedded by another model; they are found by words alone until `memory reembed` embeds them";

/// An entry to embed.
#[derive(Clone, Debug)]
pub struct ToEmbed {
    /// Its key.
    pub key: Key,
    /// The version that has the text.
    pub version: u64,
    /// The text.
    pub text: String,
    /// Whether `text` differs from the entry's search text and so is stored beside the vector.
    pub apart: bool,
}

impl ToEmbed {
    /// An entry and its search text; `None` for a blank one.
    #[must_use]
    pub fn new(key: Key, version: u64, text: String) -> Option<Self> {
        (!text.trim().is_empty()).then_some(Self { key, version, text, apart: false })
    }

    /// The same, marking the text as different from the entry's search text.
    #[must_use]
    pub fn with_text_apart(mut self) -> Self {
        self.apart = true;
        self
    }
}

/// What became of an entry to embed.
#[derive(Debug)]
enum Embedded {
    Stored,
    /// Overwritten in the meantime, or expired.
    Overtaken,
    Failed(Error),
}

impl From<Embedded> for Embedding {
    fn from(embedded: Embedded) -> Self {
        match embedded {
            Embedded::Stored => Self::Stored,
            Embedded::Overtaken => Self::Skipped,
            Embedded::Failed(error) => Self::Failed(error.message().to_owned()),
        }
    }
}

/// Entries that lack a vector.
#[derive(Debug, Default)]
pub struct Missing {
    /// Those with a text to embed, in the order of their keys.
    pub items: Vec<ToEmbed>,
    /// Key of the last entry looked at, with or without text; `None` if there are no more.
    pub last: Option<String>,
}

/// The vectors of one scope.
#[async_trait]
pub trait VectorStore: Sync {
    /// How many vectors of the model one transaction stores.
    fn vectors_at_once(&self, model: &EmbeddingModel) -> usize;

    /// Stores vectors in one transaction. Returns, for each, whether it was stored: only if its entry is live and still
    /// has the version that was embedded.
    ///
    /// # Errors
    /// Those of a write.
    async fn store_vectors(
        &self,
        model: &EmbeddingModel,
        vectors: Vec<(ToEmbed, Vec<f32>)>,
    ) -> Result<Vec<bool>>;

    /// The first entries after a key (the empty key comes before all others) that lack a vector of the model. Keys that
    /// begin with `except` are skipped, unless it is empty.
    ///
    /// # Errors
    /// Those of a read.
    async fn missing(
        &self,
        model: &EmbeddingModel,
        except: &str,
        after: &str,
        limit: usize,
    ) -> Result<Missing>;

    /// How many entries have a text but no vector of the model; skips the same keys as [`missing`](Self::missing).
    ///
    /// # Errors
    /// Those of a read.
    async fn count_missing(&self, model: &EmbeddingModel, except: &str) -> Result<u64>;
}

/// Embeds one entry after its write.
pub async fn embed_written(
    store: &dyn VectorStore,
    embedder: &dyn Embedder,
    item: Option<ToEmbed>,
) -> Embedding {
    let Some(item) = item else { return Embedding::Skipped };
    let embedded = embed_all(store, embedder, vec![item]).await;
    embedded.into_iter().next().map_or(Embedding::Skipped, Embedding::from)
}

/// Embeds the items of a bulk insert. If a key occurs several times, the last item is stored. `item` returns an item's
/// key and, if it is to be embedded, its text.
pub async fn embed_bulk(
    store: &dyn VectorStore,
    embedder: &dyn Embedder,
    outcomes: &mut [SetOutcome],
    item: impl Fn(usize) -> Option<(Key, Option<String>)>,
) {
    let mut last: HashMap<Key, (usize, Option<ToEmbed>)> = HashMap::new();
    for (at, outcome) in outcomes.iter().enumerate().filter(|(_, outcome)| outcome.written) {
        let Some((key, text)) = item(at) else { continue };
        let item = text.and_then(|text| ToEmbed::new(key.clone(), outcome.version, text));
        last.insert(key, (at, item));
    }
    let mut items: Vec<(usize, ToEmbed)> =
        last.into_values().filter_map(|(at, item)| Some((at, item?))).collect();
    items.sort_unstable_by_key(|(at, _)| *at);
    let (places, items): (Vec<usize>, Vec<ToEmbed>) = items.into_iter().unzip();
    let embedded = embed_all(store, embedder, items).await;
    for (at, embedded) in places.into_iter().zip(embedded) {
        if let Some(outcome) = outcomes.get_mut(at) {
            outcome.embedding = embedded.into();
        }
    }
}

/// Embeds entries that lack a vector of the embedder's model, up to a limit (EMB-4, EMB-17).
///
/// # Errors
/// Those of the embedder and the store; vectors already stored stay.
pub async fn reembed(
    store: &dyn VectorStore,
    embedder: &dyn Embedder,
    options: ReembedOptions,
) -> Result<ReembedOutcome> {
    let mut outcome = ReembedOutcome::default();
    if !options.dry_run {
        let (mut left, mut after) = (options.limit, String::new());
        while left > 0 {
            let missing =
                store.missing(embedder.model(), &options.except, &after, left.min(CHUNK_TEXTS)).await?;
            let Some(last) = missing.last else { break };
            after = last;
            let mut failure = None;
            for embedded in embed_all(store, embedder, missing.items).await {
                match embedded {
                    Embedded::Stored => {
                        outcome.embedded += 1;
                        left = left.saturating_sub(1);
                    }
                    // The writer that overwrote it has embedded it.
                    Embedded::Overtaken => left = left.saturating_sub(1),
                    // It does not count against the limit, or it would block the entries after it forever.
                    Embedded::Failed(error) if is_of_the_text(&error) => outcome.failed += 1,
                    Embedded::Failed(error) => failure = Some(error),
                }
            }
            if let Some(error) = failure {
                return Err(error);
            }
        }
    }
    outcome.remaining = store.count_missing(embedder.model(), &options.except).await?;
    if options.dry_run {
        outcome.embedded = outcome.remaining.min(u64::try_from(options.limit).unwrap_or(u64::MAX));
    }
    Ok(outcome)
}

/// Embeds entries and stores their vectors, one transaction's worth at a time. Once the embedder itself fails, it is
/// not called again.
async fn embed_all(store: &dyn VectorStore, embedder: &dyn Embedder, items: Vec<ToEmbed>) -> Vec<Embedded> {
    let most = store.vectors_at_once(embedder.model()).max(1);
    let mut embedded = Vec::with_capacity(items.len());
    let mut broken: Option<(ErrorKind, String)> = None;
    let mut items = items.into_iter();
    loop {
        let step: Vec<ToEmbed> = items.by_ref().take(most).collect();
        if step.is_empty() {
            return embedded;
        }
        if let Some((kind, message)) = &broken {
            embedded.extend(step.iter().map(|_| Embedded::Failed(Error::new(*kind, message.clone()))));
            continue;
        }
        let texts: Vec<&str> = step.iter().map(|item| item.text.as_str()).collect();
        let vectors = embed_documents(embedder, &texts).await;
        broken = vectors.iter().rev().find_map(|vector| match vector {
            Err(error) if !is_of_the_text(error) => Some((error.kind(), error.message().to_owned())),
            _ => None,
        });
        embedded.extend(keep(store, embedder.model(), step, vectors).await);
    }
}

/// Stores one batch of vectors. The write they belong to stands whatever happens here.
async fn keep(
    store: &dyn VectorStore,
    model: &EmbeddingModel,
    items: Vec<ToEmbed>,
    vectors: Vec<Result<Vec<f32>>>,
) -> Vec<Embedded> {
    let mut embedded = Vec::with_capacity(items.len());
    let mut to_store = Vec::new();
    for (item, vector) in items.into_iter().zip(vectors) {
        match vector {
            Ok(numbers) => {
                to_store.push((item, numbers));
                embedded.push(None);
            }
            Err(error) => embedded.push(Some(Embedded::Failed(error))),
        }
    }
    let stored =
        if to_store.is_empty() { Ok(Vec::new()) } else { store.store_vectors(model, to_store).await };
    match stored {
        Ok(stored) => {
            let mut stored = stored.into_iter();
            let of_stored = |stored: Option<bool>| match stored {
                Some(true) => Embedded::Stored,
                _ => Embedded::Overtaken,
            };
            embedded.into_iter().map(|done| done.unwrap_or_else(|| of_stored(stored.next()))).collect()
        }
        Err(error) => {
            let failed = || Embedded::Failed(Error::new(error.kind(), error.message().to_owned()));
            embedded.into_iter().map(|done| done.unwrap_or_else(failed)).collect()
        }
    }
}
