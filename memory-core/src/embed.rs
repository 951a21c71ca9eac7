//! Embedding texts.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// The identity of an embedding model. Vectors of different models are never compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmbeddingModel {
    /// Who computes it (`openai`, `static`).
    pub provider: String,
    /// Which model (`text-embedding-3-small`).
    pub model: String,
    /// Length of its vectors: 1 to [`MAX_DIMENSIONS`](crate::limits::MAX_DIMENSIONS).
    pub dimensions: usize,
}

/// The purpose of an embedding; some models treat the two differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmbedRole {
    /// A text to store and find later.
    Document,
    /// To find with.
    Query,
}

/// Computes embeddings. Implementations live in other crates; a backend only calls them.
///
/// # Behavior
/// - Returns exactly one vector per text, in order, each of `model().dimensions` finite numbers, not all zero. Anything
///   else is an error.
/// - Bounded in time; errors are typed (`unavailable`, `rate_limited`, `timeout`, `too_large`, …).
#[async_trait]
pub trait Embedder: Send + Sync + fmt::Debug {
    /// The model, constant for the life of the embedder.
    fn model(&self) -> &EmbeddingModel;

    /// Embeds `texts`.
    ///
    /// # Errors
    /// The service's errors; never partial results.
    async fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>>;
}

/// Checks an embedder's reply.
///
/// # Errors
/// `dimension_mismatch` for a vector of the wrong length; `unavailable` for a wrong count, a
/// non-finite or an all-zero vector.
pub fn check_embeddings(model: &EmbeddingModel, asked: usize, vectors: &[Vec<f32>]) -> Result<()> {
    if vectors.len() != asked {
        return Err(Error::unavailable(format!(
            "the embedder returned {} vectors for {asked} texts",
            vectors.len()
        )));
    }
    for vector in vectors {
        if vector.len() != model.dimensions {
            return Err(Error::new(
                ErrorKind::DimensionMismatch,
                format!(
                    "the embedder returned {} dimensions instead of its model's {}; correct the model's configuration",
                    vector.len(),
                    model.dimensions
                ),
            )
            .with_detail("expected", model.dimensions)
            .with_detail("actual", vector.len()));
        }
        if vector.iter().any(|x| !x.is_finite()) || vector.iter().all(|x| *x == 0.0) {
            return Err(Error::unavailable("the embedder returned a vector that is zero or not finite"));
        }
    }
    Ok(())
}

/// The most texts of one call to an embedder.
pub const CHUNK_TEXTS: usize = 64;
/// Most bytes of text in one call, unless a single text is longer.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Embeds documents in chunks and checks every reply with [`check_embeddings`].
///
/// If a text is to blame ([`is_of_the_text`]), each text of its chunk is embedded on its own, so that the others
/// succeed. Once the embedder itself fails, the remaining texts fail with that error.
pub async fn embed_documents(embedder: &dyn Embedder, texts: &[&str]) -> Vec<Result<Vec<f32>>> {
    let mut vectors: Vec<Result<Vec<f32>>> = Vec::with_capacity(texts.len());
    let mut rest = texts;
    while !rest.is_empty() {
        let mut bytes = 0_usize;
        let fits = rest.iter().take(CHUNK_TEXTS).take_while(|text| {
            bytes += text.len();
            bytes <= CHUNK_BYTES
        });
        let (chunk, others) = rest.split_at(fits.count().max(1));
        rest = others;
        if let Err(error) = embed_chunk(embedder, chunk, &mut vectors).await {
            let (kind, message) = (error.kind(), error.message().to_owned());
            vectors.resize_with(texts.len(), || Err(Error::new(kind, message.clone())));
            return vectors;
        }
    }
    vectors
}

/// Whether the error is about this text, so that other texts may succeed.
#[must_use]
pub fn is_of_the_text(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge)
}

/// Adds the vectors of a chunk. If it returns the embedder's error, the embedder must not be called again.
async fn embed_chunk(
    embedder: &dyn Embedder,
    texts: &[&str],
    vectors: &mut Vec<Result<Vec<f32>>>,
) -> Result<()> {
    match ask(embedder, texts, EmbedRole::Document).await {
        Ok(chunk) => vectors.extend(chunk.into_iter().map(Ok)),
        Err(error) if !is_of_the_text(&error) => return Err(error),
        Err(error) if texts.len() == 1 => vectors.push(Err(error)),
        Err(_) => {
            for text in texts {
                match ask(embedder, &[text], EmbedRole::Document).await {
                    Ok(one) => vectors.extend(one.into_iter().map(Ok)),
                    Err(error) if is_of_the_text(&error) => vectors.push(Err(error)),
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(())
}

/// The error of an embedder that took too long.
#[must_use]
pub fn timed_out(limit: Duration) -> Error {
    let message = format!(
        "the embedder did not answer within {} ms; look after it, or allow it more time",
        limit.as_millis()
    );
    Error::timeout(message)
}

/// Asks an embedder and checks everything in its reply that can be checked.
///
/// # Errors
/// The embedder's errors, and those of [`check_embeddings`].
pub async fn ask(embedder: &dyn Embedder, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
    let vectors = embedder.embed(texts, role).await?;
    check_embeddings(embedder.model(), texts.len(), &vectors)?;
    Ok(vectors)
}

/// Cosine similarity in [-1, 1], exactly 1 for equal vectors; 0 if a vector is zero or the lengths differ.
#[must_use]
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let (mut dot, mut aa, mut bb) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (f64::from(*x), f64::from(*y));
        dot += x * y;
        aa += x * x;
        bb += y * y;
    }
    // One root of the product rather than two: the root of a square is exact, so equal vectors have a cosine of exactly
    // 1. Squares of f32 stay well within the range of f64.
    let norm = (aa * bb).sqrt();
    if norm > 0.0 { (dot / norm).clamp(-1.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_vectors_have_a_cosine_of_exactly_one_at_every_size() {
        let mut state = 1_u32;
        for scale in [1e-44_f32, 1e-20, 1e-3, 1.0, 1e3, 1e20, 1e38] {
            for length in 1..200 {
                let vector: Vec<f32> = (0..length)
                    .map(|_| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let unit = f64::from(state >> 8) / f64::from(1 << 24);
                        #[allow(clippy::cast_possible_truncation, reason = "any number works")]
                        let x = (unit * 2.0 - 1.0) as f32;
                        x * scale
                    })
                    .collect();
                if vector.iter().any(|x| *x != 0.0) {
                    assert_eq!(cosine(&vector, &vector).to_bits(), 1.0_f64.to_bits(), "{scale} {length}");
                    let opposite: Vec<f32> = vector.iter().map(|x| -x).collect();
                    assert_eq!(cosine(&vector, &opposite).to_bits(), (-1.0_f64).to_bits());
                }
            }
        }
        assert_eq!(cosine(&[0.0], &[1.0]), 0.0);
        assert_eq!(cosine(&[1.0], &[1.0, 2.0]), 0.0);
    }
}
