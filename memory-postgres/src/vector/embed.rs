//! The vectors of a scope as the core embeds them, and how long an embedder may take.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::backend::embedding::{Missing, ToEmbed, VectorStore};
use memory_core::embed::timed_out;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Result};
use tokio_postgres::types::Type;

use crate::store::Store;
use crate::store::columns::{column, signed};
use crate::store::parameters::{ModelValues, Value};
use crate::store::scope_ref::ScopeRef;
use crate::vector::missing;
use crate::vector::numbers::Numbers;

/// Vectors that are stored by one statement.
const STEP: usize = 256;

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
            Err(_) => Err(timed_out(self.limit)),
        }
    }
}

/// The vectors of a scope.
pub(crate) struct ScopeVectors<'a> {
    pub(crate) store: &'a Store,
    pub(crate) target: &'a ScopeRef,
}

#[async_trait]
impl VectorStore for ScopeVectors<'_> {
    fn vectors_at_once(&self, _: &EmbeddingModel) -> usize {
        STEP
    }

    async fn store_vectors(
        &self,
        model: &EmbeddingModel,
        vectors: Vec<(ToEmbed, Vec<f32>)>,
    ) -> Result<Vec<bool>> {
        let model = ModelValues::from(Some(model));
        let now = self.store.time.parameter();
        let numbers: Vec<Numbers> = vectors.iter().map(|(_, vector)| Numbers::of(vector)).collect();
        let keys: Vec<&str> = vectors.iter().map(|(item, _)| item.key.as_str()).collect();
        let versions: Vec<i64> = vectors.iter().map(|(item, _)| signed(item.version)).collect();
        let apart: Vec<Option<&str>> =
            vectors.iter().map(|(item, _)| item.apart.then_some(item.text.as_str())).collect();
        let embeddings: Vec<Option<&str>> =
            numbers.iter().map(|numbers| numbers.embedding.as_deref()).collect();
        let exacts: Vec<Option<&str>> = numbers.iter().map(|numbers| numbers.exact.as_deref()).collect();
        let mut values = self.target.parameters([(&now, Type::INT8)]);
        values.extend(model.values());
        let own: [Value<'_>; 5] = [
            (&keys, Type::TEXT_ARRAY),
            (&versions, Type::INT8_ARRAY),
            (&apart, Type::TEXT_ARRAY),
            (&embeddings, Type::TEXT_ARRAY),
            (&exacts, Type::TEXT_ARRAY),
        ];
        values.extend(own);
        column(&self.store.write(&self.store.statements.vectors, &values).await?, 0, "outcome")
    }

    async fn missing(
        &self,
        model: &EmbeddingModel,
        except: &str,
        after: &str,
        limit: usize,
    ) -> Result<Missing> {
        missing::first(self.store, model, self.target, (except, after), true, limit).await
    }

    async fn count_missing(&self, model: &EmbeddingModel, except: &str) -> Result<u64> {
        missing::count(self.store, model, self.target, except).await
    }
}
