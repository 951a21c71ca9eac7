//! The vectors of a scope as the core embeds them, and how long an embedder may take.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::backend::embedding::{Missing, ToEmbed, VectorStore};
use memory_core::embed::timed_out;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Result};
use tokio::sync::oneshot;

use super::missing;
use super::rows::{NewVector, Owner, Put};
use crate::commit::background::Signal;
use crate::commit::batch::Batch;
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::error::{Fault, closed};

/// Bytes of vectors that one transaction stores.
const STEP_BYTES: usize = 16 << 20;

/// An embedder with a timeout. The store's closing ends the wait, too.
#[derive(Debug)]
pub(crate) struct Timed {
    inner: Arc<dyn Embedder>,
    signal: Arc<Signal>,
    limit: Duration,
}

impl Timed {
    pub(crate) fn new(inner: Arc<dyn Embedder>, store: &Store) -> Self {
        let limit = Duration::from_millis(store.config.embed_timeout_ms);
        Self { inner, signal: Arc::clone(&store.signal), limit }
    }
}

#[async_trait]
impl Embedder for Timed {
    fn model(&self) -> &EmbeddingModel {
        self.inner.model()
    }

    async fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let mut embedding = self.inner.embed(texts, role);
        let mut alarm: Option<oneshot::Receiver<()>> = None;
        poll_fn(|context| {
            if let Poll::Ready(vectors) = embedding.as_mut().poll(context) {
                return Poll::Ready(vectors);
            }
            // A model in this process has answered by now.
            let alarm = alarm.get_or_insert_with(|| self.signal.alarm(self.limit));
            Pin::new(alarm).poll(context).map(|rung| match rung {
                Ok(()) => Err(timed_out(self.limit)),
                Err(_) => Err(closed()),
            })
        })
        .await
    }
}

/// The vectors of a scope.
pub(crate) struct ScopeVectors<'a> {
    pub(crate) store: &'a Arc<Store>,
    pub(crate) target: &'a Target,
}

#[async_trait]
impl VectorStore for ScopeVectors<'_> {
    fn vectors_at_once(&self, model: &EmbeddingModel) -> usize {
        STEP_BYTES / (4 * model.dimensions.max(1))
    }

    async fn store_vectors(
        &self,
        model: &EmbeddingModel,
        vectors: Vec<(ToEmbed, Vec<f32>)>,
    ) -> Result<Vec<bool>> {
        let bytes = vectors.iter().map(|(item, numbers)| numbers.len() * 4 + item.text.len()).sum();
        let cost = if vectors.len() == 1 { Cost::entry(bytes) } else { Cost::slow(bytes) };
        let (target, model) = (self.target.clone(), model.clone());
        self.store.writer.submit(cost, move |batch| store_in(batch, &target, &model, &vectors)).await
    }

    async fn missing(
        &self,
        model: &EmbeddingModel,
        except: &str,
        after: &str,
        limit: usize,
    ) -> Result<Missing> {
        missing::first(self.store, model, self.target, (except, after), limit).await
    }

    async fn count_missing(&self, model: &EmbeddingModel, except: &str) -> Result<u64> {
        missing::count(self.store, model, self.target, except).await
    }
}

fn store_in(
    batch: &mut Batch<'_>,
    target: &Target,
    model: &EmbeddingModel,
    vectors: &[(ToEmbed, Vec<f32>)],
) -> Result<Vec<bool>, Fault> {
    let now = batch.now();
    let mut stored = Vec::with_capacity(vectors.len());
    let (mut space, mut put) = (batch.space(&target.digest)?, Put::default());
    for (item, numbers) in vectors {
        let old = batch.old(&space, &item.key)?;
        let same = old.filter(|old| old.version == item.version && old.is_live(now));
        if let Some(old) = same {
            let owner = Owner { key: &item.key, version: old.version, expires_at: old.expires_at };
            let text = item.apart.then_some(item.text.as_str());
            batch.put_vectors(&mut space, owner, &[NewVector { model, text, numbers }], &mut put)?;
        }
        stored.push(same.is_some());
    }
    batch.end_vectors(target, &mut space, put);
    batch.keep(&target.digest, space);
    Ok(stored)
}
