//! The model as an embedder.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Error, Result};

use crate::table::{Identity, Table};

/// The provider of [`BundledEmbedder::model`].
pub const BUNDLED_PROVIDER: &str = "bundled";

static FILE: &[u8] = include_bytes!("../data/model.bin");
static TABLE: LazyLock<std::result::Result<Arc<Table<'static>>, String>> =
    LazyLock::new(|| Table::read(FILE).map(Arc::new).map_err(|error| error.to_string()));

/// The model that comes with this crate.
#[derive(Clone, Debug)]
pub struct BundledEmbedder {
    model: EmbeddingModel,
}

impl BundledEmbedder {
    /// The embedder. The first text that a process embeds reads the model, in a few milliseconds.
    ///
    /// # Errors
    /// `internal` where the model's file was damaged before the crate was compiled.
    pub fn new() -> Result<Self> {
        let (Identity { name, dimensions, .. }, _) =
            Identity::read(FILE).map_err(|error| Error::internal(error.to_string()))?;
        let model =
            EmbeddingModel { provider: BUNDLED_PROVIDER.to_owned(), model: name.to_owned(), dimensions };
        Ok(Self { model })
    }
}

#[async_trait]
impl Embedder for BundledEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], _role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let table = TABLE.clone().map_err(Error::internal)?;
        let embed = |(index, text): (usize, &&str)| {
            table.embed(text).ok_or_else(|| {
                Error::invalid(format!(
                    "text {index} has no vector: the model knows none of its words; it can be stored and found by words alone"
                ))
                .with_detail("index", index)
            })
        };
        texts.iter().enumerate().map(embed).collect()
    }
}
