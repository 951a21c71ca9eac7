//! The options of a language model behind a service: [`OpenAiChatOptions`].

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Error, Result};
use serde::Deserialize;

use crate::openai::access::{Access, OPENAI_BASE_URL, check_name, check_range};
use crate::openai::options::MAX_TIMEOUT_MS;

/// Largest reply that is read, in bytes.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Longest prompt, in bytes.
const MAX_PROMPT_BYTES: u64 = 8 << 20;
/// Most tokens of an answer.
const MAX_OUTPUT_TOKENS: u64 = 1_000_000;

/// How a service is told that the answer is JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerFormat {
    /// The first of the others that the service takes, found by asking.
    #[default]
    Auto,
    /// By the schema (`response_format` of type `json_schema`, strict).
    JsonSchema,
    /// As any JSON object, with the schema in the instructions.
    JsonObject,
    /// By the instructions alone.
    Text,
}

/// A service that speaks OpenAI's `/chat/completions`, and the model asked of it.
///
/// ```
/// use memory_embed::OpenAiChatOptions;
/// let mut options = OpenAiChatOptions::new("qwen3:4b");
/// options.base_url = "http://localhost:11434/v1".into();
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiChatOptions {
    /// The URL to which `/chat/completions` is added. Default: [`OPENAI_BASE_URL`].
    #[serde(default = "default_base_url")]
    pub base_url: String,
    /// The model, as the service calls it.
    pub model: String,
    /// The environment variable with the API key.
    pub api_key_env: Option<String>,
    /// The file with the API key. At most one of the two; with neither, no key is sent.
    pub api_key_file: Option<PathBuf>,
    /// The header that carries the key alone, such as `api-key` for Azure. Default: `Authorization`,
    /// with `Bearer` before the key.
    pub api_key_header: Option<String>,
    /// A PEM file with root certificates to trust besides the system's, for a service of one's own.
    pub ca_file: Option<PathBuf>,
    /// How the service is told that the answer is JSON.
    #[serde(default)]
    pub format: AnswerFormat,
    /// Sent as `temperature`, 0 to 2. Default: not sent, which some models require.
    pub temperature: Option<f64>,
    /// Most tokens of an answer: 1 to 1,000,000. Default: 4,096.
    #[serde(default = "default_max_output_tokens")]
    pub max_output_tokens: u64,
    /// Longest prompt, in bytes: 1 to 8 MiB. Default: 256 KiB. A longer one is refused.
    #[serde(default = "default_max_prompt_bytes")]
    pub max_prompt_bytes: u64,
    /// Deadline of one request with its repetitions, in milliseconds: 1 to 600,000. Default: 120,000.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
}

fn default_base_url() -> String {
    OPENAI_BASE_URL.to_owned()
}

fn default_max_output_tokens() -> u64 {
    4_096
}

fn default_max_prompt_bytes() -> u64 {
    256 << 10
}

fn default_timeout_ms() -> u64 {
    120_000
}

impl OpenAiChatOptions {
    /// `model`, the rest by default.
    #[must_use]
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            base_url: default_base_url(),
            model: model.into(),
            api_key_env: None,
            api_key_file: None,
            api_key_header: None,
            ca_file: None,
            format: AnswerFormat::default(),
            temperature: None,
            max_output_tokens: default_max_output_tokens(),
            max_prompt_bytes: default_max_prompt_bytes(),
            timeout_ms: default_timeout_ms(),
        }
    }

    /// Checks the ranges of the fields; reads no key and reaches no service.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn check(&self) -> Result<()> {
        check_name("model", &self.model)?;
        check_range("max_output_tokens", self.max_output_tokens, MAX_OUTPUT_TOKENS)?;
        check_range("max_prompt_bytes", self.max_prompt_bytes, MAX_PROMPT_BYTES)?;
        check_range("timeout_ms", self.timeout_ms, MAX_TIMEOUT_MS)?;
        if self.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            return Err(Error::invalid("`temperature` must be 0 to 2"));
        }
        self.access().check()
    }

    pub(super) fn access(&self) -> Access<'_> {
        Access {
            base_url: &self.base_url,
            api_key_env: self.api_key_env.as_deref(),
            api_key_file: self.api_key_file.as_ref(),
            api_key_header: self.api_key_header.as_deref(),
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Shows the model, of the base URL the origin, and of the key where it is.
impl fmt::Debug for OpenAiChatOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChatOptions")
            .field("origin", &format_args!("{}", self.access().shown()))
            .field("model", &self.model)
            .field("format", &self.format)
            .field("key", &self.access().key())
            .finish_non_exhaustive()
    }
}
