//! Implementations of [`memory_core::Embedder`], each behind a cargo feature:
//!
//! - `static`: `StaticEmbedder`, a local model that looks token vectors up and averages them.
//!
//! Which model to take, where to get it and what it is worth is in `docs/embedders.md`.

#[cfg(feature = "static")]
mod static_model;

#[cfg(feature = "static")]
pub use static_model::{
    MAX_CONFIG_BYTES, MAX_TOKENIZER_BYTES, MAX_TOKENS, MAX_WEIGHTS_BYTES, STATIC_PROVIDER, StaticEmbedder,
    StaticOptions,
};
