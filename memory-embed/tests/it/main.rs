//! Embedders: services that speak OpenAI's API, and static models.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "tests panic on anything unexpected"
)]

#[cfg(feature = "openai")]
mod openai;
#[cfg(feature = "openai")]
mod openai_chat;
#[cfg(feature = "openai")]
mod openai_reply;
#[cfg(feature = "openai")]
mod openai_store;
#[cfg(feature = "static")]
mod static_model;
