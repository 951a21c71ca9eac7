//! Asks a language model for JSON.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::json::Json;

/// A question to a language model.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPrompt {
    /// Instructions.
    pub system: String,
    /// The material, which may contain anything: the instructions must say that it is data.
    pub user: String,
    /// Name and JSON schema of the answer.
    pub schema: Option<(String, Json)>,
}

/// A language model's answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatReply {
    /// The answer's text, unchanged: JSON if the model followed the schema, otherwise anything.
    pub text: String,
    /// Tokens read, if the service counts them.
    pub input_tokens: Option<u64>,
    /// Tokens written, if the service counts them.
    pub output_tokens: Option<u64>,
}

/// A language model that answers one prompt. Implementations are in other crates.
///
/// # Behavior
/// - Bounded in time and size; errors are typed (`unavailable`, `rate_limited`, `timeout`, `too_large`, …). The error
///   of an unusable answer has `input_tokens` and `output_tokens` in its details, if the service counts them.
/// - Answers are untrusted: the caller checks them against the schema.
#[async_trait]
pub trait ChatModel: Send + Sync + fmt::Debug {
    /// The model's name, constant for the life of the value.
    fn model(&self) -> &str;

    /// Answers `prompt`.
    ///
    /// # Errors
    /// The service's errors.
    async fn complete(&self, prompt: &ChatPrompt) -> Result<ChatReply>;
}
