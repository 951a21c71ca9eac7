//! Embedding what was written: after the durable write, outside every lock, stored only if the entry is still the same.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use memory_core::embed::check_embeddings;
use memory_core::{
    EmbedRole, Embedder, Embedding, EmbeddingModel, Error, ErrorKind, Key, Result, SetOutcome,
};
use tokio::sync::oneshot;

use super::rows::{NewVector, Owner, Put};
use crate::commit::batch::Batch;
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::error::{Fault, closed};

/// Texts, and their bytes, of one call to the embedder.
pub(crate) const CHUNK_TEXTS: usize = 64;
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of vectors that one transaction stores.
const STEP_BYTES: usize = 16 << 20;

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
    embedder: &Arc<dyn Embedder>,
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
    embedder: &Arc<dyn Embedder>,
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

/// Embeds entries in chunks and stores the vectors. Once the embedder itself fails, the rest is not asked for.
pub(crate) async fn many(
    store: &Store,
    embedder: &Arc<dyn Embedder>,
    target: &Target,
    wanted: Vec<Wanted>,
) -> Vec<Done> {
    let mut done = Vec::with_capacity(wanted.len());
    let mut ready: Vec<(Wanted, Result<Vec<f32>>)> = Vec::new();
    let mut ready_bytes = 0_usize;
    let mut broken: Option<(ErrorKind, String)> = None;
    let mut wanted = wanted.into_iter().peekable();
    while wanted.peek().is_some() {
        let (mut chunk, mut bytes) = (Vec::new(), 0_usize);
        while let Some(next) = wanted.next_if(|next: &Wanted| {
            chunk.is_empty() || chunk.len() < CHUNK_TEXTS && bytes + next.text.len() <= CHUNK_BYTES
        }) {
            bytes += next.text.len();
            chunk.push(next);
        }
        let embedded = match &broken {
            Some((kind, message)) => Err(Error::new(*kind, message.clone())),
            None => {
                let texts: Vec<&str> = chunk.iter().map(|wanted| wanted.text.as_str()).collect();
                texts_of(store, embedder, &texts).await
            }
        };
        match embedded {
            Ok(vectors) => {
                ready_bytes += vectors.iter().flatten().map(|vector| vector.len() * 4).sum::<usize>();
                ready.extend(chunk.into_iter().zip(vectors));
            }
            Err(error) => {
                let (kind, message) = (error.kind(), error.message().to_owned());
                let errors = chunk.into_iter().map(|wanted| (wanted, Err(Error::new(kind, message.clone()))));
                ready.extend(errors);
                broken = Some((kind, message));
            }
        }
        if ready_bytes >= STEP_BYTES {
            done.extend(keep(store, embedder.model(), target, std::mem::take(&mut ready)).await);
            ready_bytes = 0;
        }
    }
    done.extend(keep(store, embedder.model(), target, ready).await);
    done
}

/// The vectors of some texts. Where a text is at fault, each is asked for by itself, so that others still get theirs.
///
/// # Errors
/// Of the embedder, which is not to be asked again then.
async fn texts_of(
    store: &Store,
    embedder: &Arc<dyn Embedder>,
    texts: &[&str],
) -> Result<Vec<Result<Vec<f32>>>> {
    match ask(store, embedder, texts, EmbedRole::Document).await {
        Ok(vectors) => return Ok(vectors.into_iter().map(Ok).collect()),
        Err(error) if !is_of_the_text(&error) => return Err(error),
        Err(error) if texts.len() == 1 => return Ok(vec![Err(error)]),
        Err(_) => {}
    }
    let mut vectors = Vec::with_capacity(texts.len());
    for text in texts {
        match ask(store, embedder, &[text], EmbedRole::Document).await {
            Ok(one) => vectors.extend(one.into_iter().map(Ok)),
            Err(error) if is_of_the_text(&error) => vectors.push(Err(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(vectors)
}

/// The text is at fault, not the service: others may still go.
fn is_of_the_text(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge)
}

/// Asks the embedder for a limited time, and believes nothing of its reply that can be checked.
pub(crate) async fn ask(
    store: &Store,
    embedder: &Arc<dyn Embedder>,
    texts: &[&str],
    role: EmbedRole,
) -> Result<Vec<Vec<f32>>> {
    let mut embedding = embedder.embed(texts, role);
    let mut alarm: Option<oneshot::Receiver<()>> = None;
    let vectors = poll_fn(|context| {
        if let Poll::Ready(vectors) = embedding.as_mut().poll(context) {
            return Poll::Ready(vectors);
        }
        // A model in this process has answered by now.
        let limit = store.config.embed_timeout_ms;
        let alarm = alarm.get_or_insert_with(|| store.signal.alarm(Duration::from_millis(limit)));
        Pin::new(alarm).poll(context).map(|rung| match rung {
            Ok(()) => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "the embedder did not answer within {limit} ms; look after it, or allow it more time"
                ),
            )),
            Err(_) => Err(closed()),
        })
    })
    .await?;
    check_embeddings(embedder.model(), texts.len(), &vectors)?;
    Ok(vectors)
}

/// A vector to store with its entry.
struct Item {
    wanted: Wanted,
    numbers: Vec<f32>,
}

/// Stores vectors in one transaction. The write they belong to stands, whatever happens here.
async fn keep(
    store: &Store,
    model: &EmbeddingModel,
    target: &Target,
    ready: Vec<(Wanted, Result<Vec<f32>>)>,
) -> Vec<Done> {
    let mut done = Vec::with_capacity(ready.len());
    let mut items = Vec::new();
    for (wanted, embedded) in ready {
        match embedded {
            Ok(numbers) => {
                items.push(Item { wanted, numbers });
                done.push(None);
            }
            Err(error) => done.push(Some(Done::Failed(error))),
        }
    }
    let stored = if items.is_empty() {
        Ok(Vec::new())
    } else {
        let bytes = items.iter().map(|item| item.numbers.len() * 4 + item.wanted.text.len()).sum();
        let cost = if items.len() == 1 { Cost::entry(bytes) } else { Cost::slow(bytes) };
        let (target, model) = (target.clone(), model.clone());
        store.writer.submit(cost, move |batch| keep_in(batch, &target, &model, &items)).await
    };
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

/// Whether each vector was stored: its entry must be the one that was embedded.
fn keep_in(
    batch: &mut Batch<'_>,
    target: &Target,
    model: &EmbeddingModel,
    items: &[Item],
) -> Result<Vec<bool>, Fault> {
    let now = batch.now();
    let mut stored = Vec::with_capacity(items.len());
    let (mut space, mut put) = (batch.space(&target.digest)?, Put::default());
    for Item { wanted, numbers } in items {
        let old = batch.old(&space, &wanted.key)?;
        let same = old.filter(|old| old.version == wanted.version && old.is_live(now));
        if let Some(old) = same {
            let owner = Owner { key: &wanted.key, version: old.version, expires_at: old.expires_at };
            let text = wanted.apart.then_some(wanted.text.as_str());
            batch.put_vectors(&mut space, owner, &[NewVector { model, text, numbers }], &mut put)?;
        }
        stored.push(same.is_some());
    }
    batch.end_vectors(target, &mut space, put);
    batch.keep(&target.digest, space);
    Ok(stored)
}
