//! The entries of a scope as a vector store of rig: inserting documents with their vectors.

use std::fmt::Write as _;

use futures_util::stream;
use memory::backend::{Atomicity, ImportOptions, OnExisting, Record, RecordVector};
use memory::entry::value_sha256;
use memory::system::SystemClock;
use memory::{Clock, EmbeddingModel, Entry, Error, ErrorKind, Json, Key, Provider, Timestamp};
use rig_core::Embed;
use rig_core::embeddings::Embedding;
use rig_core::vector_store::{InsertDocuments, VectorStoreError};
use serde::Serialize;

use crate::embedder::single;
use crate::index::MemoryIndex;

/// Stores each document as one entry for each of its embeddings. The key is the prefix with a digest of the document, so that
/// inserting a document again does not store it twice; further embeddings get `/1`, `/2` behind it.
///
/// The vectors are stored as they are. They must be of the model that the memory was opened with, which [`RigEmbedder`] can be;
/// without one, nothing could be found by them, and they are refused with `embedder_not_configured`.
///
/// All documents of a call are stored or none where the provider serves `atomic_import`; elsewhere those before a refused one are.
///
/// [`RigEmbedder`]: crate::RigEmbedder
impl InsertDocuments for MemoryIndex {
    async fn insert_documents<Doc: Serialize + Embed + Send>(
        &self,
        documents: Vec<(Doc, Vec<Embedding>)>,
    ) -> Result<(), VectorStoreError> {
        let now = SystemClock.now();
        let mut records = Vec::new();
        for (document, embeddings) in documents {
            let text = serde_json::to_string(&document)?;
            let value: Json =
                text.parse().map_err(|error| VectorStoreError::datastore(Error::from(error)))?;
            for (number, embedding) in embeddings.into_iter().enumerate() {
                let record = self.record(&value, number, embedding, now);
                records.push(Ok(record.map_err(VectorStoreError::datastore)?));
            }
        }
        let whole = self.memory.capabilities().atomic_import;
        let options = ImportOptions::default()
            .with_on_existing(OnExisting::Replace)
            .with_atomicity(if whole { Atomicity::Scope } else { Atomicity::Record });
        let imported = self.backend()?.import_scope(&self.scope, Box::pin(stream::iter(records)), options);
        imported.await.map(drop).map_err(VectorStoreError::datastore)
    }
}

impl MemoryIndex {
    fn record(
        &self,
        value: &Json,
        number: usize,
        embedding: Embedding,
        now: Timestamp,
    ) -> memory::Result<Record> {
        let model = self.memory.embedding_model().ok_or_else(|| {
            Error::new(
                ErrorKind::EmbedderNotConfigured,
                "the memory was opened without an embedder, so nothing is found by vectors; open it with a `RigEmbedder` \
                 of the model that these come from",
            )
        })?;
        let vector = vector(model, &embedding)?;
        let mut entry = Entry::new(self.key(value, number)?, value.clone(), 1, now);
        entry.text = Some(embedding.document);
        let mut record = Record::from(entry);
        record.vectors.push(vector);
        Ok(record)
    }

    fn key(&self, value: &Json, number: usize) -> memory::Result<Key> {
        let mut key = self.prefix.clone();
        for byte in value_sha256(value) {
            let _ = write!(key, "{byte:02x}");
        }
        if number > 0 {
            let _ = write!(key, "/{number}");
        }
        Key::new(key)
    }
}

fn vector(model: &EmbeddingModel, embedding: &Embedding) -> memory::Result<RecordVector> {
    if embedding.vec.len() != model.dimensions {
        let message = format!(
            "the vector has {} numbers, and those of the memory's model {} have {}; embed with that model",
            embedding.vec.len(),
            model.model,
            model.dimensions
        );
        return Err(Error::new(ErrorKind::DimensionMismatch, message)
            .with_detail("expected", model.dimensions)
            .with_detail("actual", embedding.vec.len()));
    }
    Ok(RecordVector { model: model.clone(), vector: single(&embedding.vec), text: None })
}
