//! From the bytes of a reply to an answer, and what a refusal means.

use memory_core::{ChatReply, Error, ErrorKind, Result, Retry};
use memory_http::Reply;
use serde::Deserialize;
use serde_json::Value;

use crate::openai::refusal;

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    choices: Vec<Choice>,
    /// Services count in many ways, and an answer is worth as much without.
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Message>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Content>,
    refusal: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: String,
}

/// The answer in a reply of `/chat/completions`. Where `json` was asked for, the JSON in it without what a model wrote
/// around it, if it can be told apart.
///
/// # Errors
/// `unavailable` for anything that is not such a reply, and for a model that refused or whose answer was withheld;
/// `too_large` for an answer that was cut off. No text of the reply is repeated.
pub fn parse_chat_reply(body: &[u8], json: bool) -> Result<ChatReply> {
    let refused = |why: &str| Error::unavailable(format!("the language model's reply {why}"));
    let wire: Wire = serde_json::from_slice(body).map_err(|error| {
        refused(&format!(
            "is not that of a chat API (line {}, column {}); check the base URL and the service's version",
            error.line(),
            error.column()
        ))
    })?;
    let choice = wire.choices.into_iter().next();
    let choice =
        choice.ok_or_else(|| refused("has no `choices`; check that the base URL leads to a chat API"))?;
    let message = choice.message.ok_or_else(|| refused("has no `message`"))?;
    let counted = |name| wire.usage.as_ref()?.get(name)?.as_u64();
    let (input_tokens, output_tokens) = (counted("prompt_tokens"), counted("completion_tokens"));
    // An answer without use costs as much as another.
    let counting = |error: Error| match (input_tokens, output_tokens) {
        (Some(input), Some(output)) => {
            error.with_detail("input_tokens", input).with_detail("output_tokens", output)
        }
        _ => error,
    };
    let withheld = choice.finish_reason.as_deref() == Some("content_filter");
    if withheld || message.refusal.is_some_and(|refusal| !refusal.is_empty()) {
        return Err(counting(refused("declines to answer this prompt").with_retry(Retry::Never)));
    }
    if choice.finish_reason.as_deref() == Some("length") {
        return Err(counting(Error::new(
            ErrorKind::TooLarge,
            "the language model's answer was cut off; raise `max_output_tokens`, or ask for less at a time",
        )));
    }
    let text = match message.content {
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().map(|part| part.text).collect(),
        None => String::new(),
    };
    if text.trim().is_empty() {
        return Err(counting(refused("is empty")));
    }
    let text = if json { bare(&text).unwrap_or(text) } else { text };
    Ok(ChatReply { text, input_tokens, output_tokens })
}

/// The JSON object or list in a text: all of it, or else the last fenced block that is one, or else what lies between the
/// outermost braces. `None`: there is none.
fn bare(text: &str) -> Option<String> {
    let is_json = |text: &&str| {
        text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
    };
    // Models that think aloud do so first.
    let text = text.rsplit_once("</think>").map_or(text, |(_, answer)| answer).trim();
    let fenced = text.split("```").skip(1).step_by(2).map(|block| {
        // The first line of a block may name its language.
        block.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).trim()
    });
    let braces = || text.get(text.find('{')?..=text.rfind('}')?);
    let found = Some(text).filter(is_json).or_else(|| fenced.filter(is_json).last());
    found.or_else(|| braces().filter(is_json)).map(str::to_owned)
}

/// What a service would rather have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Another way to ask for JSON.
    Format,
    /// The limit of tokens under its newer name.
    TokensName,
}

/// What to change about a refused request. A refusal that does not say why may be about the format.
pub(super) fn wish(reply: &Reply) -> Option<Wish> {
    if !matches!(reply.status(), 400 | 422 | 501) {
        return None;
    }
    let said = refusal::words(reply.body());
    if said.contains("max_completion_tokens") {
        return Some(Wish::TokensName);
    }
    (!refusal::is_too_long(&said)).then_some(Wish::Format)
}

/// The typed error of a reply that refuses.
pub(super) fn error_of(reply: &Reply, model: &str) -> Option<Error> {
    let plain = reply.error()?;
    let said = refusal::words(reply.body());
    let error = match reply.status() {
        400 | 413 | 422 | 500 if refusal::is_too_long(&said) => {
            Error::new(ErrorKind::TooLarge, format!("the prompt is longer than the model `{model}` reads"))
        }
        429 if refusal::is_unpaid(&said) => Error::quota_exceeded(
            "the account of the language model's key has no quota left; add some, or use another key",
        ),
        404 => Error::not_found(format!(
            "the service has no model `{model}`, or no chat API at this base URL; check both"
        )),
        400 | 422 => Error::invalid(
            "the language model's service refuses the request; check `model`, `temperature`, `max_output_tokens` and `format`",
        ),
        _ => return Some(plain),
    };
    Some(error.with_detail("status", reply.status()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_found_in_what_a_model_wrote_around_it() {
        for text in [
            r#"{"a": 1}"#,
            "  {\"a\": 1}\n",
            "Here it is:\n```json\n{\"a\": 1}\n```\nAnything else?",
            "```\n{\"a\": 1}\n```",
            "First I tried ```json\n{\"b\": 2}\n```, then\n```json\n{\"a\": 1}\n```",
            "<think>{\"b\": 2} or so?</think>\n{\"a\": 1}",
            "Sure! {\"a\": 1} Bye.",
        ] {
            let found = bare(text).unwrap();
            assert_eq!(found, r#"{"a": 1}"#, "{text}");
        }
        assert_eq!(bare("[1]").unwrap(), "[1]");
        for text in ["", "no", "{", "} {", "```json\n{\"a\": \n```", "{a: 1}", "```", "{\"a\": 1"] {
            assert_eq!(bare(text), None, "{text}");
        }
    }
}
