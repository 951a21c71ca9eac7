//! What a status other than 2xx means: the message is read, and never repeated.

use memory_core::{Error, ErrorKind, Retry};
use memory_http::Reply;
use serde::Deserialize;

/// Messages for a text that is longer than the model reads, from OpenAI, vLLM, Ollama, TEI and llama.cpp.
const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "maximum context length",
    "maximum input length",
    "exceeds the context length",
    "exceeds maximum context",
    "exceed context",
    "context size",
    "tokens. given:",
    "too many tokens",
    "is too large to process",
    "string_above_max_length",
];

/// Messages for too many texts.
const TOO_MANY: &[&str] =
    &["batch size", "maximum allowed batch", "array too long", "array_above_max_length"];

fn says(said: &str, ways: &[&str]) -> bool {
    ways.iter().any(|way| said.contains(way))
}

/// Whether a text was longer than the model reads.
pub(super) fn is_too_long(said: &str) -> bool {
    says(said, TOO_LONG)
}

/// Whether an account ran out, and not a rate.
pub(super) fn is_unpaid(said: &str) -> bool {
    says(said, &["insufficient_quota", "billing"])
}

/// Some services answer a text that is too long with a 500. The text is refused, and the service is well.
pub(super) fn repeats(reply: &Reply) -> Option<bool> {
    (reply.status() == 500 && says(&words(reply.body()), TOO_LONG)).then_some(false)
}

/// The typed error of a reply that refuses.
pub(super) fn error_of(reply: &Reply, model: &str) -> Option<Error> {
    let plain = reply.error()?;
    let said = words(reply.body());
    let says = |ways: &[&str]| says(&said, ways);
    let error = match reply.status() {
        // First, since texts that are too long may be called a batch that is too large.
        400 | 413 | 422 | 500 if says(TOO_LONG) => Error::new(
            ErrorKind::TooLarge,
            format!(
                "a text is longer than the model `{model}` reads; lower `max_text_bytes`, and set `truncate` to cut \
                 longer texts"
            ),
        ),
        400 | 413 | 422 if says(TOO_MANY) => {
            Error::unavailable("the embedder takes fewer texts in one request; lower `batch_texts`")
                .with_retry(Retry::Never)
        }
        413 => Error::new(
            ErrorKind::TooLarge,
            "the embedder takes less text in one request; lower `batch_bytes` and `max_text_bytes`",
        ),
        429 if is_unpaid(&said) => Error::quota_exceeded(
            "the account of the embedder's key has no quota left; add some, or use another key",
        ),
        404 => Error::not_found(format!(
            "the embedder has no model `{model}`, or no embeddings API at this base URL; check both"
        )),
        400 | 422 => Error::invalid(
            "the embedder refuses the request; check `model`, `dimensions` with `send_dimensions`, and `encoding`",
        ),
        // TEI's word for a model that failed on its side.
        424 => Error::unavailable("the embedder's model failed on its side; try again"),
        // Not about the texts, so that no caller takes it for a refusal of one.
        405..=407 | 411 | 415 | 421 | 426 => Error::unavailable(format!(
            "what answers there (status {}) is no embeddings API; check the base URL",
            reply.status()
        ))
        .with_retry(Retry::Never),
        _ => return Some(plain),
    };
    Some(error.with_detail("status", reply.status()))
}

/// The codes and messages of an error, in lower case: `{"error": {"message", "code", "type"}}`, with
/// `error` perhaps a mere text, or its members on top.
pub(super) fn words(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Top {
        error: Option<Inner>,
        #[serde(flatten)]
        rest: Said,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Inner {
        Text(String),
        Object(Said),
    }
    #[derive(Default, Deserialize)]
    struct Said {
        #[serde(default)]
        message: serde_json::Value,
        #[serde(default)]
        code: serde_json::Value,
        #[serde(default, rename = "type")]
        kind: serde_json::Value,
    }
    let Ok(top) = serde_json::from_slice::<Top>(body) else { return String::new() };
    let mut words = String::new();
    let mut say = |said: &Said| {
        for value in [&said.message, &said.code, &said.kind] {
            if let Some(text) = value.as_str() {
                words.push_str(text);
                words.push('\n');
            }
        }
    };
    say(&top.rest);
    match &top.error {
        Some(Inner::Object(said)) => say(said),
        Some(Inner::Text(text)) => words.push_str(text),
        None => {}
    }
    words.to_lowercase()
}
