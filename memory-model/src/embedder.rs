//! The model as an embedder.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Error, Result};

use crate::table::Table;

/// The provider of [`BundledEmbedder::model`].
pub const BUNDLED_PROVIDER: &str = "bundled";

static FILE: &[u8] = include_bytes!("../data/model.bin");
static TABLE: LazyLock<std::result::Result<Arc<Table<'static>>, String>> =
    LazyLock::new(|| Table::read(FILE).map(Arc::new).map_err(|error| error.to_string()));

/// The model that comes with this crate.
#[derive(Clone, Debug)]
pub struct BundledEmbedder {
    model: EmbeddingModel,
    table: Arc<Table<'static>>,
}

impl BundledEmbedder {
    /// The embedder. The first call of a process reads the model, in a few milliseconds.
    ///
    /// # Errors
    /// `internal` where the model's file was damaged before the crate was compiled.
    pub fn new() -> Result<Self> {
        let table = TABLE.clone().map_err(Error::internal)?;
        let model = EmbeddingModel {
            provider: BUNDLED_PROVIDER.to_owned(),
            model: table.name().to_owned(),
            dimensions: table.dimensions(),
        };
        Ok(Self { model, table })
    }
}

#[async_trait]
impl Embedder for BundledEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], _role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let embed = |(index, text): (usize, &&str)| {
            self.table.embed(text).ok_or_else(|| {
                Error::invalid(format!(
                    "text {index} has no vector: the model knows none of its words; it can be stored and found by words alone"
                ))
                .with_detail("index", index)
            })
        };
        texts.iter().enumerate().map(embed).collect()
    }
}
