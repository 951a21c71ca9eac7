//! Services that speak OpenAI's `/embeddings` and `/chat/completions`: OpenAI, Ollama, vLLM, TEI, llama.cpp and others.

mod access;
mod chat;
mod options;
mod refusal;
mod reply;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Clock, EmbedRole, Embedder, EmbeddingModel, Error, ErrorKind, IdGen, Result};
use memory_http::{Call, CallKind, Credential, EgressPolicy, HttpClient, Limits, Method, Origin};
use serde::Serialize;

pub use self::access::OPENAI_BASE_URL;
pub use self::chat::{AnswerFormat, MAX_ANSWER_BYTES, OpenAiChat, OpenAiChatOptions, parse_chat_reply};
pub use self::options::{Encoding, MAX_REPLY_BYTES, OPENAI_PROVIDER, OpenAiOptions};
pub use self::reply::parse_embeddings_reply;

/// An embedder over HTTP.
///
/// # Behavior
/// - Reaches the one host of its base URL, as far as the client's policy allows, and sends it texts and
///   its key; nothing else.
/// - Texts are sent in batches, one after the other. Of one call either all texts have their vectors or
///   the call fails.
/// - A reply counts only when it has one vector for each text, all of the length and the model of the
///   identity, finite and not zero. Order is restored by `index`.
/// - A text over `max_text_bytes` is `too_large`, or cut where the operator chose so; an empty one is
///   `invalid_argument`.
/// - Bounded in time by `timeout_ms` for each batch; 429 and 5xx are tried again within it.
pub struct OpenAiEmbedder {
    options: OpenAiOptions,
    identity: EmbeddingModel,
    client: HttpClient,
    url: String,
    origin: Origin,
    credential: Option<Credential>,
}

impl OpenAiEmbedder {
    /// As [`OpenAiEmbedder::new`], with a client of its own under `policy`, which is as patient as
    /// `timeout_ms` says and trusts `ca_file` too.
    ///
    /// # Errors
    /// As [`OpenAiEmbedder::new`]; `invalid_argument` for a `ca_file` that cannot be read or is no PEM.
    pub fn open(
        options: OpenAiOptions,
        policy: EgressPolicy,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Result<Self> {
        options.check()?;
        // A model that is loaded first answers late, but then all at once.
        let limits = Limits { idle_timeout: options.timeout(), ..Limits::default() };
        let builder = HttpClient::builder(policy, clock, ids).limits(limits);
        let http = builder.trust_file(options.ca_file.as_deref())?.build()?;
        Self::new(options, http)
    }

    /// Reads the key and checks the options and what the client's policy says to them; reaches nothing.
    ///
    /// # Errors
    /// `invalid_argument` for options out of range; `egress_denied` where the policy does not allow the
    /// base URL; `unauthenticated` where the key is not there.
    pub fn new(options: OpenAiOptions, client: HttpClient) -> Result<Self> {
        options.check()?;
        let url = options.access().url("embeddings");
        let origin = Origin::of(&url)?;
        client.policy().check(&url)?;
        let credential = options.access().credential(&origin)?;
        Ok(Self { identity: options.identity(), options, client, url, origin, credential })
    }

    /// The text that is sent for `text`.
    fn prepare<'a>(&self, text: &'a str, role: EmbedRole) -> Result<Cow<'a, str>> {
        let limit = self.options.max_text_bytes;
        let text = if text.len() <= limit {
            text
        } else if self.options.truncate {
            cut(text, limit)
        } else {
            return Err(Error::too_large("text to embed", text.len(), limit, "bytes"));
        };
        let prefix = match role {
            EmbedRole::Query => &self.options.query_prefix,
            EmbedRole::Document => &self.options.document_prefix,
        };
        if text.is_empty() {
            return Err(Error::invalid("an empty text has no embedding; leave it out"));
        }
        Ok(if prefix.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(format!("{prefix}{text}")) })
    }

    async fn embed_batch(&self, texts: &[Cow<'_, str>]) -> Result<Vec<Vec<f32>>> {
        let request = WireRequest {
            model: &self.options.model,
            input: texts,
            encoding_format: match self.options.encoding {
                Encoding::Float => "float",
                Encoding::Base64 => "base64",
            },
            dimensions: self.options.send_dimensions.then_some(self.options.dimensions),
        };
        let mut call = Call::new(Method::Post, &self.url)?
            .kind(CallKind::Safe)
            .json(&request)?
            .judged_by(refusal::repeats)
            .timeout(self.options.timeout())
            .max_response_bytes(self.options.reply_bytes());
        if let Some(credential) = &self.credential {
            call = call.credential(credential.clone())?;
        }
        let reply = self.client.exchange(call).await.map_err(|error| match error.kind() {
            // It is the reply that is too large, not a text of the caller's.
            ErrorKind::TooLarge => Error::unavailable(format!(
                "the reply of {} is larger than vectors of this model can be",
                self.origin
            ))
            .with_source(error),
            _ => error,
        })?;
        if let Some(error) = refusal::error_of(&reply, &self.options.model) {
            return Err(error);
        }
        if let Some(error) = reply.page_error() {
            return Err(error);
        }
        parse_embeddings_reply(reply.body(), &self.identity, &self.options.accept_model, texts.len())
    }
}

#[async_trait]
impl Embedder for OpenAiEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.identity
    }

    async fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let texts: Vec<Cow<'_, str>> =
            texts.iter().map(|text| self.prepare(text, role)).collect::<Result<_>>()?;
        let mut vectors = Vec::with_capacity(texts.len());
        let mut rest = texts.as_slice();
        while !rest.is_empty() {
            let (batch, after) =
                rest.split_at(batch_len(rest, self.options.batch_texts, self.options.batch_bytes));
            vectors.extend(self.embed_batch(batch).await?);
            rest = after;
        }
        Ok(vectors)
    }
}

impl fmt::Debug for OpenAiEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiEmbedder")
            .field("model", &self.identity)
            .field("origin", &format_args!("{}", self.origin))
            .field("key", &self.options.access().key())
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct WireRequest<'a> {
    model: &'a str,
    input: &'a [Cow<'a, str>],
    encoding_format: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

/// The longest beginning of `text` of at most `limit` bytes that ends between two characters.
fn cut(text: &str, limit: usize) -> &str {
    let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end).unwrap_or("")
}

/// How many of `texts` go into the next request: at least one, then as many as fit.
fn batch_len(texts: &[Cow<'_, str>], most_texts: usize, most_bytes: usize) -> usize {
    let mut bytes = 0_usize;
    let fitting = texts.iter().take(most_texts).take_while(|text| {
        bytes = bytes.saturating_add(text.len());
        bytes <= most_bytes
    });
    fitting.count().max(1).min(texts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lengths: &[usize]) -> Vec<Cow<'static, str>> {
        lengths.iter().map(|length| Cow::Owned("x".repeat(*length))).collect()
    }

    #[test]
    fn batches_hold_as_many_texts_as_fit_and_at_least_one() {
        assert_eq!(batch_len(&texts(&[5, 5, 5]), 2, 100), 2);
        assert_eq!(batch_len(&texts(&[5, 5, 5]), 9, 10), 2);
        assert_eq!(batch_len(&texts(&[50, 5]), 9, 10), 1, "a text over the batch goes alone");
        assert_eq!(batch_len(&texts(&[5]), 9, 10), 1);
    }

    #[test]
    fn a_cut_text_ends_between_two_characters() {
        assert_eq!(cut("aé€𝄞", 10), "aé€𝄞");
        assert_eq!(cut("aé€𝄞", 9), "aé€");
        assert_eq!(cut("aé€𝄞", 4), "aé");
        assert_eq!(cut("€", 2), "");
    }
}
