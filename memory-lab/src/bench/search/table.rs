//! An embedder that looks vectors up by number, so that search is measured and not a model.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Error, Result};

use super::vectors::Vectors;

/// Vectors by number. A text begins with the number of its vector.
pub(crate) struct Table {
    model: EmbeddingModel,
    stored: Arc<Vectors>,
    asked: Arc<Vectors>,
}

impl Table {
    pub(crate) fn new(stored: Arc<Vectors>, asked: Arc<Vectors>) -> Self {
        let model = EmbeddingModel {
            provider: "bench".to_owned(),
            model: "table".to_owned(),
            dimensions: stored.dimensions,
        };
        Self { model, stored, asked }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("model", &self.model).finish_non_exhaustive()
    }
}

#[async_trait]
impl Embedder for Table {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let vectors = match role {
            EmbedRole::Document => &self.stored,
            EmbedRole::Query => &self.asked,
        };
        texts
            .iter()
            .map(|text| {
                let number = text.split_whitespace().next().and_then(|word| word.parse::<usize>().ok());
                number
                    .map(|number| vectors.row(number).to_vec())
                    .filter(|vector| !vector.is_empty())
                    .ok_or_else(|| Error::internal("a text of the benchmark has no vector"))
            })
            .collect()
    }
}
