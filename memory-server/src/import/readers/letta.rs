//! Letta's agent files (`.af`): one JSON object with the agent's memory blocks, which become entries, and its messages.
//! Reads both the older form with one agent at the top and the newer one with a list of agents and one of blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use memory_core::{Metadata, NewEntry};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::content::{said, said_in_part};
use super::elements::Unfolded;
use super::item::{Item, json_complaint};
use super::time;
use super::turn::{Place, Turn, kept};

/// Types of messages that the program sends in the user's name.
const PROGRAM: [&str; 5] = ["user_message", "login", "heartbeat", "system_alert", "system_message"];

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow, default, deserialize_with = "list")]
    agents: Vec<&'a RawValue>,
    #[serde(default, deserialize_with = "list")]
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
struct Agent<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(default)]
    agent_type: Value,
    #[serde(alias = "memory_blocks", default, deserialize_with = "list")]
    core_memory: Vec<Block>,
    #[serde(default, deserialize_with = "list")]
    block_ids: Vec<String>,
    #[serde(borrow, default, deserialize_with = "list")]
    messages: Vec<&'a RawValue>,
}

#[derive(Clone, Deserialize)]
struct Block {
    id: Option<String>,
    label: String,
    value: String,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(borrow)]
    created_at: Option<&'a RawValue>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: Value,
}

/// A list; `null` is an empty one.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a file; `name` is the agent's name if the file gives none.
pub(super) fn agents<R: BufRead + Send>(input: R, name: &str) -> Unfolded<R> {
    let name = name.to_owned();
    Unfolded::new(input, "agent file", move |text, _| read_file(text, &name))
}

fn read_file(text: &str, name: &str) -> Result<Vec<Item>, String> {
    let file: File<'_> = serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
    let blocks: BTreeMap<&str, &Block> =
        file.blocks.iter().filter_map(|block| Some((block.id.as_deref()?, block))).collect();
    let mut items = Vec::new();
    if file.agents.is_empty() {
        let agent = Agent::parse(text, name)?;
        agent.read(agent.name(), &blocks, &mut items);
    }
    let agents: Vec<_> = file.agents.iter().map(|agent| Agent::parse(agent.get(), name)).collect();
    let named: BTreeSet<&str> =
        agents.iter().flatten().flat_map(|agent| &agent.block_ids).map(String::as_str).collect();
    for block in file.blocks.iter().filter(|block| !block.id.as_deref().is_some_and(|id| named.contains(id)))
    {
        let place = Place::Part(format!("block {}", block.label));
        items.push(Item::Broken(place, "no agent of the file has it, and it was left out".to_owned()));
    }
    let mut keys = BTreeSet::new();
    for (agent, number) in agents.iter().zip(1..) {
        let broken = |why: &str| Item::Broken(Place::Part(format!("agent {number}")), why.to_owned());
        let agent = match agent {
            Ok(agent) => agent,
            Err(why) => {
                items.push(broken(why));
                continue;
            }
        };
        let has_namesake = agents.iter().flatten().filter(|other| other.name == agent.name).count() > 1;
        let key = agent.id.as_deref().filter(|_| has_namesake).unwrap_or(agent.name());
        if keys.insert(key) {
            agent.read(key, &blocks, &mut items);
        } else {
            items.push(broken(
                "another agent of the file has its name, and no id tells them apart; rename one",
            ));
        }
    }
    Ok(items)
}

impl<'a> Agent<'a> {
    fn parse(text: &'a str, default_name: &str) -> Result<Self, String> {
        let mut agent: Self = serde_json::from_str(text).map_err(|error| json_complaint(&error))?;
        agent.name.take_if(|name| name.is_empty());
        agent.name.get_or_insert_with(|| default_name.to_owned());
        Ok(agent)
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Its memory blocks and messages, under keys with `key` for the agent.
    fn read(&self, key: &str, blocks: &BTreeMap<&str, &Block>, items: &mut Vec<Item>) {
        let named = self.block_ids.iter().filter_map(|id| blocks.get(id.as_str()).copied());
        for block in self.core_memory.iter().chain(named) {
            let place = Place::Part(format!("{key}, block {}", block.label));
            items.push(match entry(key, self.name(), block) {
                Ok(entry) => Item::Entry(place, Box::new(entry)),
                Err(error) => Item::Broken(place, error.message().to_owned()),
            });
        }
        for id in self.block_ids.iter().filter(|id| !blocks.contains_key(id.as_str())) {
            let place = Place::Part(format!("{key}, block {id}"));
            items.push(Item::Broken(place, "no block of the file has this id".to_owned()));
        }
        let mut times = BTreeMap::new();
        for (raw, number) in self.messages.iter().zip(1_u64..) {
            let place = Place::Part(format!("{key}, message {number}"));
            let mut read =
                self.message(raw, key, number, &place).unwrap_or_else(|why| Item::Broken(place, why));
            // A file has only the messages in the agent's context, so a later file numbers the same messages
            // differently.
            if let Item::Turn(turn) = &mut read
                && let Some(time) = turn.time
            {
                let nth: &mut u64 = times.entry(time).or_default();
                turn.position = vec![format!("{time}#{nth}")];
                *nth += 1;
            }
            items.push(read);
        }
    }

    fn message(&self, raw: &RawValue, key: &str, number: u64, place: &Place) -> Result<Item, String> {
        let message: Message<'_> = serde_json::from_str(raw.get()).map_err(|error| json_complaint(&error))?;
        let content = message.content.or(message.text).map(parts).transpose();
        let content = content.map_err(|error| json_complaint(&error))?.unwrap_or_default();
        let mut words: Vec<String> =
            match (message.role.as_str(), message.tool_calls.unwrap_or_default().as_slice()) {
                ("user", _) => content.into_iter().map(unpacked).collect(),
                ("assistant", []) => content,
                // An agent with tools speaks by sending; the rest is its reasoning.
                ("assistant" | "approval", calls) => {
                    let aloud = if self.speaks_plainly() { content } else { Vec::new() };
                    let sent = calls.iter().filter_map(sent);
                    aloud.into_iter().map(Ok).chain(sent).collect::<Result<_, _>>()?
                }
                _ => Vec::new(),
            };
        words.retain(|text| !text.is_empty());
        let text = words.join("\n");
        if text.is_empty() {
            return Ok(Item::PassedOver);
        }
        let time = match message.created_at {
            Some(raw) => time::instant(raw).map_err(|error| error.message().to_owned())?,
            None => None,
        };
        let role = if message.role == "user" { "user" } else { "assistant" };
        let speaker = match (role, message.name.filter(|name| !name.is_empty())) {
            ("assistant", _) => self.name().to_owned(),
            (_, Some(name)) => name,
            (role, None) => role.to_owned(),
        };
        Ok(Item::Turn(Box::new(Turn {
            ended: None,
            expires_at: None,
            place: place.clone(),
            conversation: key.to_owned(),
            session: None,
            position: vec![format!("{number:08}")],
            speaker,
            role: Some(role.to_owned()),
            text,
            time,
            caption: None,
            labels: Vec::new(),
        })))
    }

    /// Whether text next to its tool calls counts as said, as for agents without `send_message`.
    fn speaks_plainly(&self) -> bool {
        matches!(self.agent_type.as_str(), Some("letta_v1_agent" | "react_agent"))
    }
}

fn entry(agent_key: &str, agent: &str, block: &Block) -> memory_core::Result<NewEntry> {
    let mut metadata = Metadata::new().with("agent", agent).with("label", block.label.as_str());
    if let Some(description) = block.description.as_deref().filter(|text| !text.is_empty()) {
        metadata.insert("description", description);
    }
    kept("letta", &[agent_key, "blocks", &block.label], &block.value, metadata)
}

/// The texts of a message's parts: older servers wrap each part of a user's message in an envelope.
fn parts(content: &RawValue) -> serde_json::Result<Vec<String>> {
    match serde_json::from_str::<Vec<&RawValue>>(content.get()) {
        Ok(parts) => parts.into_iter().map(said_in_part).collect(),
        Err(_) => Ok(vec![said(content)?]),
    }
}

/// A user's text without the envelope that older servers put around it; empty for what the program said. Any other
/// object is the user's own text.
fn unpacked(content: String) -> String {
    let Ok(Value::Object(envelope)) = serde_json::from_str::<Value>(&content) else { return content };
    let member = |name| envelope.get(name).and_then(Value::as_str);
    match (member("type"), member("message")) {
        (Some("user_message"), Some(message)) => message.trim().to_owned(),
        (Some(kind), _) if PROGRAM.contains(&kind) => String::new(),
        _ => content,
    }
}

/// What a tool call sends to the user, if it does.
fn sent(call: &ToolCall) -> Option<Result<String, String>> {
    if call.function.name != "send_message" {
        return None;
    }
    // Either JSON in a string, or plain JSON.
    let arguments = match &call.function.arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        arguments => arguments.clone(),
    };
    let message = arguments.get("message").and_then(Value::as_str);
    Some(
        message
            .map(|text| text.trim().to_owned())
            .ok_or_else(|| "its `send_message` has no text in `message`".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::format::Format;
    use crate::import::readers::item::testing::{Found, read};

    fn found(text: &str) -> Found {
        read(agents(text.as_bytes(), "file"))
    }

    #[test]
    fn blocks_are_entries_and_messages_are_turns() {
        let text = r#"{"agent_type":"memgpt_agent","name":"Sam","core_memory":[{"label":"human","value":"Name: Ada","limit":5000,"description":""}],
            "messages":[
            {"role":"system","content":[{"type":"text","text":"You are"}],"created_at":"2025-04-02T10:00:00Z"},
            {"role":"assistant","content":[{"type":"text","text":"Thinking"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"send_message","arguments":"{\"message\":\"Hello Ada\"}"}}],"created_at":"2025-04-02T10:00:01+00:00"},
            {"role":"tool","content":[{"type":"text","text":"{\"status\":\"OK\"}"}],"tool_call_id":"c"},
            {"role":"user","content":[{"type":"text","text":"{\"type\":\"login\",\"last_login\":\"never\"}"}]},
            {"role":"user","content":[{"type":"text","text":"{\"type\":\"user_message\",\"message\":\"I live in Oslo\",\"time\":\"x\"}"}]},
            {"role":"user","content":7,"created_at":"whenever"}]}"#;
        let found = found(text);
        assert_eq!((found.turns.len(), found.passed_over, found.entries.len()), (2, 4, 1));
        assert_eq!(found.keys(Format::Letta), ["letta/Sam/2025-04-02T10:00:01.000Z#0", "letta/Sam/00000005"]);
        assert_eq!((found.turns[0].speaker.as_str(), found.turns[0].text.as_str()), ("Sam", "Hello Ada"));
        assert_eq!(found.turns[1].text, "I live in Oslo");
        let block = &found.entries[0];
        assert_eq!((block.key.as_str(), block.value.as_str()), ("letta/Sam/blocks/human", "\"Name: Ada\""));
    }

    /// Regression: text that a newer agent wrote before calling a tool was taken for reasoning.
    #[test]
    fn words_beside_tool_calls_are_said_by_agents_without_send_message() {
        let texts = |kind: &str| {
            let call = r#""tool_calls":[{"function":{"name":"search","arguments":"{}"}}]"#;
            let found = found(&format!(
                r#"{{"agents":[{{"name":"Sam","agent_type":{kind},"messages":[
                {{"role":"assistant","content":[{{"type":"reasoning","reasoning":"hm"}},{{"type":"text","text":"I look it up"}}],{call}}},
                {{"role":"approval","content":[{{"type":"text","text":"May I?"}}],{call}}},
                {{"role":"approval","content":null,"approve":true,"tool_calls":null}}]}}],"blocks":[]}}"#
            ));
            assert!(
                found.broken.is_empty() && found.turns.iter().all(|turn| turn.speaker == "Sam"),
                "{kind}"
            );
            found.turns.into_iter().map(|turn| turn.text).collect::<Vec<_>>()
        };
        assert_eq!(texts(r#""letta_v1_agent""#), ["I look it up", "May I?"]);
        assert!(texts(r#""memgpt_v2_agent""#).is_empty() && texts("null").is_empty());
    }

    /// Regression: each part's envelope was kept as text, and a user's own JSON was taken for the program's.
    #[test]
    fn every_part_of_a_message_has_its_envelope_and_other_json_is_the_users() {
        let user = |texts: &[&str]| {
            let parts: Vec<_> =
                texts.iter().map(|text| serde_json::json!({"type": "text", "text": text})).collect();
            let file = serde_json::json!({"name": "Sam", "messages": [{"role": "user", "content": parts}]});
            found(&file.to_string()).turns.pop().map(|turn| turn.text)
        };
        let packed = |kind: &str, text: &str| format!(r#"{{"type":"{kind}","message":"{text}","time":"x"}}"#);
        assert_eq!(
            user(&[&packed("user_message", "Look"), &packed("user_message", "here")]).as_deref(),
            Some("Look\nhere")
        );
        assert_eq!(user(&[&packed("system_alert", "compacted")]), None);
        assert_eq!(user(&[r#"{"type":"order","id":3}"#]).as_deref(), Some(r#"{"type":"order","id":3}"#));
    }

    /// Regression: in a later file that lacks some of the first messages, all messages were taken for changed ones and
    /// left out.
    #[test]
    fn a_message_is_known_again_when_those_before_it_have_left_the_context() {
        let message = |words: &str, second: u32| {
            format!(
                r#"{{"role":"user","content":"{words}","created_at":"2026-01-02T03:04:0{second}.123456+00:00"}}"#
            )
        };
        let keys = |messages: &[String]| {
            found(&format!(r#"{{"name":"Sam","messages":[{}]}}"#, messages.join(","))).keys(Format::Letta)
        };
        let (first, second, third) = (message("a", 1), message("b", 2), message("c", 2));
        let all = keys(&[first, second.clone(), third.clone()]);
        assert_eq!(all[1..], keys(&[second, third]));
        assert_eq!(all[2], "letta/Sam/2026-01-02T03:04:02.123Z#1");
    }

    #[test]
    fn a_list_that_is_null_is_empty() {
        let found = found(
            r#"{"agents":[{"name":"a","memory_blocks":null,"block_ids":null,"messages":[{"role":"user","content":"Hi"}]},
            {"name":"b","messages":null}],"blocks":null}"#,
        );
        assert_eq!((found.turns.len(), found.broken.len()), (1, 0), "{:?}", found.broken);
    }

    #[test]
    fn agents_of_one_name_are_told_apart_by_their_ids() {
        let agents = |ids: [&str; 3]| {
            let agent = |id| {
                format!(
                    r#"{{"id":{id},"name":"Twin","block_ids":["b"],"messages":[{{"role":"assistant","content":"Hi"}}]}}"#
                )
            };
            let agents = ids.map(agent).join(",");
            found(&format!(r#"{{"agents":[{agents}],"blocks":[{{"id":"b","label":"human","value":"x"}}]}}"#))
        };
        let twins = agents([r#""agent-0""#, r#""agent-1""#, r#""agent-1""#]);
        assert_eq!(twins.keys(Format::Letta), ["letta/agent-0/00000001", "letta/agent-1/00000001"]);
        assert_eq!(twins.turns[1].speaker, "Twin");
        let blocks: Vec<_> = twins.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(blocks, ["letta/agent-0/blocks/human", "letta/agent-1/blocks/human"]);
        assert_eq!(twins.broken[0].0, "agent 3");
        assert_eq!(agents(["null", "null", "null"]).broken.len(), 2);
    }

    #[test]
    fn what_an_agent_sent_is_read_or_named() {
        let call = |arguments: &str| {
            format!(
                r#"{{"role":"assistant","tool_calls":[{{"function":{{"name":"send_message","arguments":{arguments}}}}}]}}"#
            )
        };
        let calls = [
            r#""{\"message\":\"text\"}""#,
            r#"{"message":"object"}"#,
            r#""{not JSON""#,
            r#"{"message":null}"#,
        ];
        let found = found(&format!(r#"{{"name":"Sam","messages":[{}]}}"#, calls.map(call).join(",")));
        let texts: Vec<_> = found.turns.iter().map(|turn| turn.text.as_str()).collect();
        assert_eq!(texts, ["text", "object"]);
        assert_eq!(
            found.broken.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>(),
            ["Sam, message 3", "Sam, message 4"]
        );
    }

    #[test]
    fn the_newer_form_has_lists_and_a_broken_agent_does_not_stop_the_others() {
        let text = r#"{"agents":[{"id":"agent-0","name":null,"block_ids":["block-1","gone"],"messages":[{"role":"user","content":"Hi"}]},
            {"name":"b","messages":7}],"blocks":[{"id":"block-1","label":"persona/2","value":"kind"}],"files":[],"sources":[]}"#;
        let found = found(text);
        assert_eq!(found.turns[0].conversation, "file");
        assert_eq!(found.entries[0].key.as_str(), "letta/file/blocks/persona%2F2");
        let broken: Vec<_> = found.broken.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(broken, ["file, block gone", "agent 2"]);
    }

    #[test]
    fn a_block_of_no_agent_is_named() {
        let found = found(
            r#"{"agents":[{"name":"a","block_ids":["b1"]}],"blocks":[{"id":"b1","label":"human","value":"x"},{"id":"b2","label":"team","value":"y"}]}"#,
        );
        assert_eq!(found.entries.len(), 1);
        assert_eq!(found.broken.iter().map(|(place, _)| place.as_str()).collect::<Vec<_>>(), ["block team"]);
    }
}
