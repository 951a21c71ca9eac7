//! A language model behind a service that speaks OpenAI's `/chat/completions`.

mod options;
mod reply;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use async_trait::async_trait;
use memory_core::{ChatModel, ChatPrompt, ChatReply, Clock, Error, ErrorKind, IdGen, Json, Result};
use memory_http::{Call, CallKind, Credential, EgressPolicy, HttpClient, Limits, Method, Origin, Reply};
use serde_json::{Value, json};

pub use self::options::{AnswerFormat, MAX_ANSWER_BYTES, OpenAiChatOptions};
pub use self::reply::parse_chat_reply;
use self::reply::{Wish, error_of, wish};
use super::refusal;

/// The ways to ask for JSON, the strictest first.
const WAYS: [AnswerFormat; 3] = [AnswerFormat::JsonSchema, AnswerFormat::JsonObject, AnswerFormat::Text];

/// A [`ChatModel`] over HTTP.
///
/// # Behavior
/// - Reaches the one host of its base URL, as far as the client's policy allows, and sends it the prompt and its key;
///   nothing else.
/// - A schema is sent as `json_schema`; to a service that refuses this, as `json_object` with the schema in the instructions;
///   to one that refuses this too, in the instructions alone. What a service took is asked of it from then on.
/// - The JSON of an answer is taken out of a fenced block and of prose around it. It is not checked against the schema.
/// - An answer that was cut off is `too_large`; one that was withheld, or is empty, `unavailable`.
/// - Bounded in time by `timeout_ms` for each request, and in size; 429 and 5xx are tried again within it.
pub struct OpenAiChat {
    options: OpenAiChatOptions,
    client: HttpClient,
    url: String,
    origin: Origin,
    credential: Option<Credential>,
    /// The place in [`WAYS`] of the first that was not refused.
    way: AtomicU8,
    /// Whether the limit of tokens goes by its newer name.
    new_name: AtomicBool,
}

impl OpenAiChat {
    /// As [`OpenAiChat::new`], with a client of its own under `policy`, which is as patient as `timeout_ms` says and trusts
    /// `ca_file` too.
    ///
    /// # Errors
    /// As [`OpenAiChat::new`]; `invalid_argument` for a `ca_file` that cannot be read or is no PEM.
    pub fn open(
        options: OpenAiChatOptions,
        policy: EgressPolicy,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Result<Self> {
        options.check()?;
        // An answer comes all at once, after it was written.
        let limits = Limits { idle_timeout: options.timeout(), ..Limits::default() };
        let builder = HttpClient::builder(policy, clock, ids).limits(limits);
        let http = builder.trust_file(options.ca_file.as_deref())?.build()?;
        Self::new(options, http)
    }

    /// Reads the key and checks the options and what the client's policy says to them; reaches nothing.
    ///
    /// # Errors
    /// `invalid_argument` for options out of range; `egress_denied` where the policy does not allow the base URL;
    /// `unauthenticated` where the key is not there.
    pub fn new(options: OpenAiChatOptions, client: HttpClient) -> Result<Self> {
        options.check()?;
        let url = options.access().url("chat/completions");
        let origin = Origin::of(&url)?;
        client.policy().check(&url)?;
        let credential = options.access().credential(&origin)?;
        let way = WAYS.iter().position(|way| *way == options.format).unwrap_or(0);
        let way = AtomicU8::new(u8::try_from(way).unwrap_or(0));
        Ok(Self { options, client, url, origin, credential, way, new_name: AtomicBool::new(false) })
    }

    async fn ask(&self, prompt: &ChatPrompt, way: u8) -> Result<Reply> {
        let body = self.body(prompt, way)?;
        let mut call = Call::new(Method::Post, &self.url)?
            .kind(CallKind::Safe)
            .json(&body)?
            .judged_by(refusal::repeats)
            .timeout(self.options.timeout())
            .max_response_bytes(MAX_ANSWER_BYTES);
        if let Some(credential) = &self.credential {
            call = call.credential(credential.clone())?;
        }
        self.client.exchange(call).await.map_err(|error| match error.kind() {
            // It is the reply that is too large, not the prompt.
            ErrorKind::TooLarge => Error::unavailable(format!(
                "the reply of {} is larger than {MAX_ANSWER_BYTES} bytes",
                self.origin
            ))
            .with_source(error),
            _ => error,
        })
    }

    fn body(&self, prompt: &ChatPrompt, way: u8) -> Result<Value> {
        let format = WAYS.get(usize::from(way)).copied().unwrap_or(AnswerFormat::Text);
        let mut system = prompt.system.clone();
        let mut response_format = None;
        if let Some((name, schema)) = &prompt.schema {
            if format == AnswerFormat::JsonSchema {
                response_format = Some(json!({
                    "type": "json_schema",
                    "json_schema": {"name": name, "strict": true, "schema": value(schema)?},
                }));
            } else {
                system += "\n\nAnswer with one JSON value that conforms to this JSON schema, and with nothing else:\n";
                system += schema.as_str();
            }
            if format == AnswerFormat::JsonObject {
                response_format = Some(json!({"type": "json_object"}));
            }
        }
        let mut body = json!({
            "model": self.options.model,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": prompt.user},
            ],
            "stream": false,
        });
        if let Some(body) = body.as_object_mut() {
            let tokens =
                if self.new_name.load(Ordering::Relaxed) { "max_completion_tokens" } else { "max_tokens" };
            body.insert(tokens.to_owned(), json!(self.options.max_output_tokens));
            body.extend(response_format.map(|format| ("response_format".to_owned(), format)));
            body.extend(self.options.temperature.map(|degrees| ("temperature".to_owned(), json!(degrees))));
        }
        Ok(body)
    }

    /// Asks, and asks otherwise as long as the service refuses how it is asked.
    async fn asked(&self, prompt: &ChatPrompt) -> Result<Reply> {
        let first = self.way.load(Ordering::Relaxed);
        let mut way = first;
        let mut reply = self.ask(prompt, way).await?;
        let refused = error_of(&reply, &self.options.model);
        let may_change = prompt.schema.is_some() && self.options.format == AnswerFormat::Auto;
        loop {
            match wish(&reply) {
                Some(Wish::TokensName) if !self.new_name.swap(true, Ordering::Relaxed) => {}
                Some(Wish::Format) if may_change && usize::from(way) + 1 < WAYS.len() => way += 1,
                _ => break,
            }
            reply = self.ask(prompt, way).await?;
        }
        match refused {
            // Whatever way it is asked: it was not about the way.
            Some(refused) if way != first && !reply.is_success() => Err(refused),
            _ => {
                if way != first {
                    self.way.store(way, Ordering::Relaxed);
                }
                Ok(reply)
            }
        }
    }
}

#[async_trait]
impl ChatModel for OpenAiChat {
    fn model(&self) -> &str {
        &self.options.model
    }

    async fn complete(&self, prompt: &ChatPrompt) -> Result<ChatReply> {
        let schema = prompt.schema.as_ref().map_or(0, |(_, schema)| schema.len_bytes());
        let bytes = prompt.system.len() + prompt.user.len() + schema;
        let most = usize::try_from(self.options.max_prompt_bytes).unwrap_or(usize::MAX);
        if bytes > most {
            return Err(Error::too_large("prompt", bytes, most, "bytes"));
        }
        let reply = self.asked(prompt).await?;
        if let Some(error) = error_of(&reply, &self.options.model) {
            return Err(error);
        }
        if let Some(error) = reply.page_error() {
            return Err(error);
        }
        parse_chat_reply(reply.body(), prompt.schema.is_some())
    }
}

fn value(schema: &Json) -> Result<Value> {
    schema.to_value().map_err(|error| Error::invalid("the schema of a prompt is not JSON").with_source(error))
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChat")
            .field("model", &self.options.model)
            .field("origin", &format_args!("{}", self.origin))
            .field("key", &self.options.access().key())
            .finish_non_exhaustive()
    }
}
