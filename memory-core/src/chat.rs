//! Asking a language model for JSON.

use std::fmt;

use async_trait::async_trait;

use crate::error::Result;
use crate::json::Json;

/// What a language model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatPrompt {
    /// Instructions.
    pub system: String,
    /// The material, which may hold anything: whoever writes the instructions says that it is data.
    pub user: String,
    /// The JSON schema of the answer: its name and the schema itself.
    pub schema: Option<(String, Json)>,
}

/// What a language model answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatReply {
    /// The answer's text, as it came: JSON where the model kept to the schema, anything where it did not.
    pub text: String,
    /// Tokens read, if the service counts them.
    pub input_tokens: Option<u64>,
    /// Tokens written, if the service counts them.
    pub output_tokens: Option<u64>,
}

/// A language model that answers one prompt. Implementations are in other crates.
///
/// # Behavior
/// - Bounded in time and size; errors are typed (`unavailable`, `rate_limited`, `timeout`, `too_large`, …). That of an answer
///   without use has `input_tokens` and `output_tokens` in its details, if the service counts them.
/// - The answer is not to be trusted: the caller checks it against its schema.
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
