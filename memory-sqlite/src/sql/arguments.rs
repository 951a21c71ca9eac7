//! Arguments whose texts are embedded before anything runs.

use std::sync::Arc;

use memory_core::sql::SqlValue;
use memory_core::{EmbedRole, Embedder, Error, ErrorKind, Result};

use crate::store::Store;
use crate::vector::embed::ask;
use crate::vector::encode;

pub(crate) fn has_texts(args: &[SqlValue]) -> bool {
    args.iter().any(|arg| matches!(arg, SqlValue::Embed(_)))
}

/// The arguments with each text replaced by its embedding: 32-bit floats, little-endian. One call to the embedder.
///
/// # Errors
/// `vector_unsupported` without an embedder; of the embedder.
pub(crate) async fn embed(
    store: &Store,
    embedder: Option<&Arc<dyn Embedder>>,
    args: &[SqlValue],
    role: EmbedRole,
) -> Result<Vec<SqlValue>> {
    let texts: Vec<&str> = args
        .iter()
        .filter_map(|arg| match arg {
            SqlValue::Embed(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if texts.is_empty() {
        return Ok(args.to_vec());
    }
    let embedder = embedder.ok_or_else(|| {
        Error::new(
            ErrorKind::VectorUnsupported,
            "an argument is to be embedded, but no embedder is configured; pass the vector as a blob of 32-bit floats",
        )
        .with_detail("operation", if role == EmbedRole::Query { "query" } else { "exec" })
        .with_detail("provider", "sqlite")
    })?;
    let mut vectors = ask(store, embedder, &texts, role).await?.into_iter();
    let replaced = args.iter().map(|arg| match arg {
        SqlValue::Embed(_) => vectors
            .next()
            .map(|vector| SqlValue::Blob(encode(&vector)))
            .ok_or_else(|| Error::internal("the embedder answered fewer vectors than it was asked for")),
        other => Ok(other.clone()),
    });
    replaced.collect()
}
