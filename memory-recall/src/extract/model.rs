//! A language model as extractor.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::chat::{ChatModel, ChatPrompt, ChatReply};
use memory_core::layer::{FactId, Role};
use memory_core::{Error, Json, Result, Timestamp};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::extractor::{Drawn, DrawnFact, Extractor, KnownFact, SourceTurn};
use crate::store::progress::Spent;

/// The version of prompt and schema, recorded with every fact.
pub const PROMPT_VERSION: &str = "facts-1";
/// Longest reply that is read, in bytes.
pub const MAX_REPLY_BYTES: usize = 256 << 10;
/// Most facts of one reply.
pub const MAX_DRAWN_FACTS: usize = 40;
/// Longest fact, in characters.
pub const MAX_FACT_CHARACTERS: usize = 1_000;

/// Longest name of a member that an error repeats, in bytes.
const MAX_MEMBER_BYTES: usize = 32;

const SYSTEM: &str = include_str!("prompt.txt");
const SCHEMA: &str = include_str!("schema.json");

/// Asks a [`ChatModel`] which facts turns state.
///
/// # Behavior
/// - Turns and known facts are passed as data, in one JSON value, under short ids; the instructions are constant.
/// - A reply that lacks what the schema asks for is `corrupt`, one of more than [`MAX_REPLY_BYTES`] is `too_large`, and
///   nothing in it is used. Models not bound by a schema may deviate: unknown members are ignored, a bare list counts
///   as a list of facts, and a single id need not be in a list.
#[derive(Clone, Debug)]
pub struct ModelExtractor {
    model: Arc<dyn ChatModel>,
    name: String,
}

#[derive(Deserialize)]
struct Reply {
    facts: Vec<ReplyFact>,
}

#[derive(Deserialize)]
struct ReplyFact {
    fact: String,
    sources: Ids,
    #[serde(default)]
    valid_from: Option<String>,
    #[serde(default)]
    supersedes: Option<Ids>,
}

/// Ids in a list, or a single one without a list.
struct Ids(Vec<String>);

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            One(String),
            List(Vec<String>),
        }
        Ok(Self(match Either::deserialize(deserializer)? {
            Either::One(id) => vec![id],
            Either::List(ids) => ids,
        }))
    }
}

impl ModelExtractor {
    /// With this model.
    #[must_use]
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        let name = format!("{PROMPT_VERSION} {}", model.model());
        Self { model, name }
    }

    fn prompt(turns: &[SourceTurn], known: &[KnownFact]) -> Result<ChatPrompt> {
        let turns: Vec<Value> = turns.iter().zip(1..).map(|(turn, number)| shown(turn, number)).collect();
        let known: Vec<Value> = known
            .iter()
            .zip(1..)
            .map(|(fact, number): (_, usize)| json!({ "id": format!("f{number}"), "fact": fact.text }))
            .collect();
        let user = json!({ "turns": turns, "known": known }).to_string();
        Ok(ChatPrompt {
            system: SYSTEM.to_owned(),
            user,
            schema: Some(("facts".to_owned(), Json::parse(SCHEMA)?)),
        })
    }
}

fn shown(turn: &SourceTurn, number: usize) -> Value {
    let role = match turn.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => "tool",
    };
    json!({
        "id": format!("t{number}"),
        "role": role,
        "speaker": turn.speaker,
        "at": turn.at.map(|at| at.to_string()),
        "text": turn.text,
        "picture": turn.caption,
    })
}

#[async_trait]
impl Extractor for ModelExtractor {
    fn name(&self) -> &str {
        &self.name
    }

    async fn extract(&self, turns: &[SourceTurn], known: &[KnownFact]) -> Drawn {
        let prompt = match Self::prompt(turns, known) {
            Ok(prompt) => prompt,
            Err(error) => return Drawn { facts: Err(error), spent: Spent::default() },
        };
        let sent = prompt.system.len() + prompt.user.len() + SCHEMA.len();
        match self.model.complete(&prompt).await {
            Ok(reply) => {
                Drawn { spent: spent(sent, &reply), facts: parse_facts_reply(&reply.text, turns, known) }
            }
            Err(error) => {
                let tokens = |name: &str| error.details().get(name).and_then(Value::as_u64);
                let (input_tokens, output_tokens) = (tokens("input_tokens"), tokens("output_tokens"));
                let spent = spent(sent, &ChatReply { text: String::new(), input_tokens, output_tokens });
                Drawn { facts: Err(error), spent }
            }
        }
    }
}

fn spent(sent: usize, reply: &ChatReply) -> Spent {
    let counted = reply.input_tokens.is_some() || reply.output_tokens.is_some();
    Spent {
        calls: 1,
        input_tokens: reply.input_tokens.unwrap_or(0),
        output_tokens: reply.output_tokens.unwrap_or(0),
        uncounted_bytes: if counted { 0 } else { count(sent).saturating_add(count(reply.text.len())) },
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The facts in a model's reply about these turns and known facts. An id that was not given becomes one that matches
/// nothing, so its fact is refused.
///
/// # Errors
/// `corrupt` for a reply without what was asked for, `too_large` over [`MAX_REPLY_BYTES`]. Nothing from the reply is
/// repeated except a member's plain name.
pub fn parse_facts_reply(text: &str, turns: &[SourceTurn], known: &[KnownFact]) -> Result<Vec<DrawnFact>> {
    if text.len() > MAX_REPLY_BYTES {
        return Err(Error::too_large("the language model's answer", text.len(), MAX_REPLY_BYTES, "bytes"));
    }
    let refused =
        |why: String| Error::corrupt(format!("the language model's answer is not what was asked for: {why}"));
    let text = unfenced(text);
    let read = match text.starts_with('[') {
        true => serde_json::from_str(text).map(|facts| Reply { facts }),
        false => serde_json::from_str::<Reply>(text),
    };
    let reply = read.map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        refused(
            member(&error.to_string()).map_or_else(|| place.clone(), |member| format!("{place}: {member}")),
        )
    })?;
    if reply.facts.len() > MAX_DRAWN_FACTS {
        return Err(refused(format!("{} facts, {MAX_DRAWN_FACTS} are allowed", reply.facts.len())));
    }
    reply.facts.into_iter().map(|fact| fact.drawn(turns, known)).collect()
}

impl ReplyFact {
    fn drawn(self, turns: &[SourceTurn], known: &[KnownFact]) -> Result<DrawnFact> {
        let nothing = || FactId::new("not given");
        let turn = |id: &String| {
            let turn = place(id, 't').and_then(|at| turns.get(at));
            turn.map_or_else(nothing, |turn| Ok(turn.id.clone()))
        };
        let fact = |id: &String| {
            let fact = place(id, 'f').and_then(|at| known.get(at));
            fact.map_or_else(nothing, |fact| Ok(fact.id.clone()))
        };
        // A date without a time, or nonsense: the fact holds anyway.
        let valid_from = self
            .valid_from
            .as_deref()
            .and_then(|text| text.parse::<Timestamp>().or_else(|_| format!("{text}T00:00:00Z").parse()).ok());
        Ok(DrawnFact {
            text: self.fact.trim().to_owned(),
            sources: self.sources.0.iter().map(turn).collect::<Result<_>>()?,
            valid_from,
            supersedes: self.supersedes.iter().flat_map(|ids| &ids.0).map(fact).collect::<Result<_>>()?,
        })
    }
}

/// The member that serde complains about, if it is a plain name. Other parts of serde's message may quote the answer.
fn member(said: &str) -> Option<String> {
    let what = ["missing field", "duplicate field"].into_iter().find(|what| said.starts_with(what))?;
    let name = said.split('`').nth(1)?;
    let is_plain =
        name.len() <= MAX_MEMBER_BYTES && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_plain.then(|| format!("{} `{name}`", what.replace("field", "member")))
}

/// The position that an id such as `t1` stands for.
fn place(id: &str, kind: char) -> Option<usize> {
    id.strip_prefix(kind)?.parse::<usize>().ok()?.checked_sub(1)
}

/// The text without the fence that some models put around JSON.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).unwrap_or(text).trim()
}
