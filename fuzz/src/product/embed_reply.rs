//! Replies of embedding services: valid vectors or a typed error, whatever the service sends.
//!
//! The first line is the number of requested texts; the rest is the reply.

use memory_core::embed::check_embeddings;
use memory_core::{EmbeddingModel, ErrorKind};
use memory_embed::parse_embeddings_reply;

const DIMENSIONS: usize = 2;

/// Tries one reply.
pub fn run(data: &[u8]) {
    let (first, body) = match data.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (&[][..], data),
    };
    let texts = std::str::from_utf8(first).ok().and_then(|text| text.parse::<usize>().ok()).unwrap_or(1).min(64);
    let model = EmbeddingModel { provider: "openai".into(), model: "m".into(), dimensions: DIMENSIONS };
    match parse_embeddings_reply(body, &model, &["other".to_owned()], texts) {
        Ok(vectors) => check_embeddings(&model, texts, &vectors).expect("what was accepted is right"),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::DimensionMismatch), "{error:?}");
            assert!(error.message().len() < 1_000);
        }
    }
}
