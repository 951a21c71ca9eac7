//! Embeds texts among the arguments before anything runs.

use std::sync::Arc;

use memory_core::embed::ask;
use memory_core::sql::SqlValue;
use memory_core::{EmbedRole, Embedder, Error, Result};
use memory_sql::{texts_to_embed, with_embeddings};

use crate::vector::numbers::encode;

/// The arguments with each text replaced by its embedding as little-endian 32-bit floats. One call to the embedder.
/// Fails with `vector_unsupported` without an embedder; the embedder's errors.
pub(crate) async fn embed(
    embedder: Option<&Arc<dyn Embedder>>,
    args: &[SqlValue],
    role: EmbedRole,
) -> Result<Vec<SqlValue>> {
    let texts = texts_to_embed(args);
    if texts.is_empty() {
        return Ok(args.to_vec());
    }
    let embedder = embedder.ok_or_else(|| {
        Error::vector_unsupported(
            "an argument needs embedding, but no embedder is configured; pass the vector as a blob of 32-bit floats",
        )
        .with_detail("operation", if role == EmbedRole::Query { "query" } else { "exec" })
        .with_detail("provider", "sqlite")
    })?;
    let vectors = ask(embedder.as_ref(), &texts, role).await?;
    with_embeddings(args, vectors, |vector| SqlValue::Blob(encode(vector)))
}
