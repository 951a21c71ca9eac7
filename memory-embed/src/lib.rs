//! Implementations of [`memory_core::Embedder`], each behind a cargo feature:
//!
//! - `openai`: `OpenAiEmbedder`, any service that speaks OpenAI's `/embeddings`, over the guarded client,
//!   and `OpenAiChat`, a [`memory_core::ChatModel`] over the `/chat/completions` of such a service;
//! - `static`: `StaticEmbedder`, a local model that looks token vectors up and averages them.
//!
//! Which model to take, where to get it and what it is worth is in `docs/embedders.md`.

#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "static")]
mod static_model;

#[cfg(feature = "openai")]
pub use memory_http;
#[cfg(feature = "openai")]
pub use openai::{
    AnswerFormat, Encoding, MAX_ANSWER_BYTES, MAX_REPLY_BYTES, OPENAI_BASE_URL, OPENAI_PROVIDER, OpenAiChat,
    OpenAiChatOptions, OpenAiEmbedder, OpenAiOptions, parse_chat_reply, parse_embeddings_reply,
};
#[cfg(feature = "static")]
pub use static_model::{
    MAX_CONFIG_BYTES, MAX_TOKENIZER_BYTES, MAX_TOKENS, MAX_WEIGHTS_BYTES, STATIC_PROVIDER, StaticEmbedder,
    StaticOptions,
};
