//! Arguments whose texts are embedded before the statement runs.

use memory_core::sql::SqlValue;
use memory_core::{Error, Result};

/// Whether any argument is a text to embed.
#[must_use]
pub fn has_texts(args: &[SqlValue]) -> bool {
    args.iter().any(|arg| matches!(arg, SqlValue::Embed(_)))
}

/// The texts to embed, in the order of their arguments.
#[must_use]
pub fn texts_to_embed(args: &[SqlValue]) -> Vec<&str> {
    args.iter()
        .filter_map(|arg| match arg {
            SqlValue::Embed(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// The arguments with each text replaced by its vector, as `write` writes one for the engine.
///
/// # Errors
/// `internal` where there are fewer vectors than texts.
pub fn with_embeddings(
    args: &[SqlValue],
    vectors: Vec<Vec<f32>>,
    write: impl Fn(&[f32]) -> SqlValue,
) -> Result<Vec<SqlValue>> {
    let mut vectors = vectors.into_iter();
    let replaced = args.iter().map(|arg| match arg {
        SqlValue::Embed(_) => vectors
            .next()
            .map(|vector| write(&vector))
            .ok_or_else(|| Error::internal("the embedder answered fewer vectors than it was asked for")),
        other => Ok(other.clone()),
    });
    replaced.collect()
}
