//! The options of a service: [`OpenAiOptions`].

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use memory_core::{EmbeddingModel, Error, Result};
use serde::Deserialize;

use super::access::{Access, OPENAI_BASE_URL, check_name, check_range};

/// The provider of an identity, unless the options name another.
pub const OPENAI_PROVIDER: &str = "openai";
/// Largest reply that options may add up to, in bytes.
pub const MAX_REPLY_BYTES: usize = 64 * 1024 * 1024;

/// Most texts in one request; OpenAI's own limit.
const MAX_BATCH_TEXTS: usize = 2_048;
/// Most bytes of text in one request.
const MAX_BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Longest prefix, in bytes.
const MAX_PREFIX_BYTES: usize = 4_096;
/// Longest vector there is.
pub(super) const MAX_DIMENSIONS: usize = 16_384;
/// Longest deadline of one request, in milliseconds.
pub(super) const MAX_TIMEOUT_MS: u64 = 600_000;

/// How vectors travel in a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Encoding {
    /// As JSON numbers; every service speaks it.
    #[default]
    Float,
    /// As little-endian 32-bit floats in base64: a quarter of the bytes, where the service knows it.
    Base64,
}

/// A service that speaks OpenAI's `/embeddings`, and the model asked of it.
///
/// `model` and `dimensions` have no default: with `provider` they are the identity of every vector
/// that is stored, so they are said, not learned from whatever answers first.
///
/// ```
/// use memory_embed::OpenAiOptions;
/// let mut options = OpenAiOptions::new("nomic-embed-text", 768);
/// options.base_url = "http://localhost:11434/v1".into();
/// options.document_prefix = "search_document: ".into();
/// options.query_prefix = "search_query: ".into();
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OpenAiOptions {
    /// The URL to which `/embeddings` is added. Default: [`OPENAI_BASE_URL`].
    #[serde(default = "default_base_url")]
    pub base_url: String,
    /// The model, as the service calls it.
    pub model: String,
    /// Length of its vectors: 1 to 16,384. A reply of any other is refused.
    pub dimensions: usize,
    /// Whether to ask for `dimensions`, for models that can shorten their vectors. Default: no.
    #[serde(default)]
    pub send_dimensions: bool,
    /// The provider in the identity of stored vectors. Default: `openai`. Services that give the same
    /// model's vectors may share one; change it when the same name comes to mean other vectors.
    #[serde(default = "default_provider")]
    pub provider: String,
    /// Other names that the service may give for this model in its replies.
    #[serde(default)]
    pub accept_model: Vec<String>,
    /// The environment variable with the API key.
    pub api_key_env: Option<String>,
    /// The file with the API key. At most one of the two; with neither, no key is sent.
    pub api_key_file: Option<PathBuf>,
    /// The header that carries the key alone, such as `api-key` for Azure. Default: `Authorization`,
    /// with `Bearer` before the key.
    pub api_key_header: Option<String>,
    /// A PEM file with root certificates to trust besides the system's, for a service of one's own.
    pub ca_file: Option<PathBuf>,
    /// How vectors travel.
    #[serde(default)]
    pub encoding: Encoding,
    /// Texts in one request: 1 to 2,048. Default: 32, which every known service takes.
    #[serde(default = "default_batch_texts")]
    pub batch_texts: usize,
    /// Bytes of text in one request, above which the next text waits for the next: 1 to 8 MiB.
    /// Default: 256 KiB.
    #[serde(default = "default_batch_bytes")]
    pub batch_bytes: usize,
    /// Longest text, in bytes: 1 to 8 MiB. Default: 32 KiB. A longer one is refused, or cut.
    #[serde(default = "default_max_text_bytes")]
    pub max_text_bytes: usize,
    /// Whether a longer text is cut at the limit, so that its end is not found by meaning. Default: no.
    #[serde(default)]
    pub truncate: bool,
    /// What stands before every query. Default: nothing.
    #[serde(default)]
    pub query_prefix: String,
    /// What stands before every stored text. It is part of what stored vectors mean: after a change,
    /// embed anew. Default: nothing.
    #[serde(default)]
    pub document_prefix: String,
    /// Deadline of one request with its repetitions, in milliseconds: 1 to 600,000. Default: 30,000.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
}

fn default_base_url() -> String {
    OPENAI_BASE_URL.to_owned()
}

fn default_provider() -> String {
    OPENAI_PROVIDER.to_owned()
}

fn default_batch_texts() -> usize {
    32
}

fn default_batch_bytes() -> usize {
    256 * 1024
}

fn default_max_text_bytes() -> usize {
    32 * 1024
}

fn default_timeout_ms() -> u64 {
    30_000
}

impl OpenAiOptions {
    /// `model` with vectors of `dimensions`, the rest by default.
    #[must_use]
    pub fn new(model: impl Into<String>, dimensions: usize) -> Self {
        Self {
            base_url: default_base_url(),
            model: model.into(),
            dimensions,
            send_dimensions: false,
            provider: default_provider(),
            accept_model: Vec::new(),
            api_key_env: None,
            api_key_file: None,
            api_key_header: None,
            ca_file: None,
            encoding: Encoding::default(),
            batch_texts: default_batch_texts(),
            batch_bytes: default_batch_bytes(),
            max_text_bytes: default_max_text_bytes(),
            truncate: false,
            query_prefix: String::new(),
            document_prefix: String::new(),
            timeout_ms: default_timeout_ms(),
        }
    }

    /// Checks the ranges of the fields; reads no key and reaches no service.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn check(&self) -> Result<()> {
        check_name("provider", &self.provider)?;
        check_name("model", &self.model)?;
        for accepted in &self.accept_model {
            check_name("accept_model", accepted)?;
        }
        check_range("dimensions", wide(self.dimensions), wide(MAX_DIMENSIONS))?;
        check_range("batch_texts", wide(self.batch_texts), wide(MAX_BATCH_TEXTS))?;
        check_range("batch_bytes", wide(self.batch_bytes), wide(MAX_BATCH_BYTES))?;
        check_range("max_text_bytes", wide(self.max_text_bytes), wide(MAX_BATCH_BYTES))?;
        check_range("timeout_ms", self.timeout_ms, MAX_TIMEOUT_MS)?;
        for (field, prefix) in
            [("query_prefix", &self.query_prefix), ("document_prefix", &self.document_prefix)]
        {
            if prefix.len() > MAX_PREFIX_BYTES {
                return Err(Error::invalid(format!("`{field}` must have at most {MAX_PREFIX_BYTES} bytes")));
            }
        }
        self.access().check()?;
        if self.reply_bytes() > MAX_REPLY_BYTES {
            return Err(Error::invalid(format!(
                "`batch_texts` of {} with {} dimensions makes replies of more than {MAX_REPLY_BYTES} bytes; lower it",
                self.batch_texts, self.dimensions
            )));
        }
        Ok(())
    }

    pub(super) fn access(&self) -> Access<'_> {
        Access {
            base_url: &self.base_url,
            api_key_env: self.api_key_env.as_deref(),
            api_key_file: self.api_key_file.as_ref(),
            api_key_header: self.api_key_header.as_deref(),
        }
    }

    /// The identity of the vectors.
    pub(super) fn identity(&self) -> EmbeddingModel {
        EmbeddingModel {
            provider: self.provider.clone(),
            model: self.model.clone(),
            dimensions: self.dimensions,
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The most that an honest reply takes: every number on a line of its own, indented, in full, and
    /// what is said around it.
    pub(super) fn reply_bytes(&self) -> usize {
        const NUMBER: usize = 48;
        const AROUND_A_VECTOR: usize = 512;
        const AROUND_ALL: usize = 64 * 1024;
        self.dimensions
            .saturating_mul(NUMBER)
            .saturating_add(AROUND_A_VECTOR)
            .saturating_mul(self.batch_texts)
            .saturating_add(AROUND_ALL)
    }
}

/// Shows model and limits, of the base URL the origin, and of the key where it is.
impl fmt::Debug for OpenAiOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiOptions")
            .field("origin", &format_args!("{}", self.access().shown()))
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("dimensions", &self.dimensions)
            .field("key", &self.access().key())
            .finish_non_exhaustive()
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
