//! The Memory tool: any input gives one JSON object, and nothing outside the agent's scopes is touched.
//!
//! A line is a call, of files where it has a `command`; `!MILLIS` lets time pass.

use std::sync::Arc;

use memory::tool::op_schema;
use memory::{FilesTool, Memory, MemoryTool, Policy, ToolOp};
use memory_conformance::{Reference, TestClock};
use memory_core::json::Json;
use memory_core::{
    Backend, GetOptions, Key, ListQuery, Quota, RunContext, Scope, ScopeKind, SetOptions,
};
use serde_json::Value;

use crate::generate::{self, Choices};
use crate::oracle::{is_json, members};
use crate::store::wait;
use crate::support::hash;

const MAX_CALLS: usize = 40;
const MAX_ANSWER_BYTES: usize = 16 << 10;
const QUOTA: Quota = Quota { max_entries: Some(12), max_bytes: Some(4_096) };

/// Tries one conversation with the tool.
pub fn run(data: &[u8]) {
    let room = Room::new(data);
    if let Some(mut choices) = Choices::of(data) {
        for _ in 0..MAX_CALLS {
            if !choices.more() {
                break;
            }
            let call = generated(&mut choices);
            room.call(call.as_bytes());
        }
    } else {
        for line in data.split(|byte| *byte == b'\n').take(MAX_CALLS) {
            match line.strip_prefix(b"!") {
                Some(millis) => room.pass(millis),
                None => room.call(line),
            }
        }
    }
    room.check();
}

struct Room {
    tool: Arc<MemoryTool>,
    files: FilesTool,
    clock: Arc<TestClock>,
    others: Vec<Scope>,
    /// The contents of other scopes; libFuzzer would discover a constant text.
    untold: String,
}

fn key() -> Key {
    Key::new("k").expect("a key")
}

impl Room {
    fn new(data: &[u8]) -> Self {
        let clock = Arc::new(TestClock::new());
        let reference = Reference::new(Arc::<TestClock>::clone(&clock));
        let memory = Memory::new(Arc::new(reference)).expect("an honest provider");
        let name = |text: &str| text.parse().expect("a name");
        let run = RunContext::new("acme".parse().expect("a tenant"), name("planner"), name("run-1"))
            .with_user(name("ada"));
        let policy = Policy::default()
            .with_memory_scopes([ScopeKind::Agent, ScopeKind::Run])
            .with_quota(QUOTA)
            .with_max_answer_bytes(MAX_ANSWER_BYTES);
        let others = vec![
            Scope::user("acme", "ada").expect("a scope"),
            Scope::agent("acme", "other").expect("a scope"),
            Scope::agent("rival", "planner").expect("a scope"),
        ];
        let untold = format!("untold-{:016x}", hash(data));
        for scope in &others {
            let options = SetOptions::default();
            wait(backend(&memory).set(scope, &key(), Json::string(&untold), options)).expect("a write");
        }
        let tool = Arc::new(MemoryTool::new(memory, policy, run).expect("a tool"));
        Self { files: FilesTool::new(Arc::clone(&tool)), tool, clock, others, untold }
    }

    fn pass(&self, millis: &[u8]) {
        let millis: u32 = std::str::from_utf8(millis).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        self.clock.advance_ms(millis.into());
    }

    fn answer(&self, input: &[u8]) -> String {
        let answer = wait(self.tool.call_bytes(input));
        assert!(is_json(&answer) && answer.starts_with('{'), "{answer}");
        assert!(answer.len() <= MAX_ANSWER_BYTES, "{} bytes", answer.len());
        assert!(!answer.contains(&self.untold), "{answer}");
        answer
    }

    fn call(&self, input: &[u8]) {
        if let Ok(text) = std::str::from_utf8(input).map_err(drop)
            && text.contains("\"command\"")
        {
            let answer = wait(self.files.call(text)).text;
            assert!(!answer.is_empty() && answer.len() <= MAX_ANSWER_BYTES, "{} bytes", answer.len());
            assert!(!answer.contains(&self.untold), "{answer}");
        }
        let answer = self.answer(input);
        let Some(error) = member(&answer, "error") else { return self.set_is_what_get_gets(input) };
        let error: Value = serde_json::from_str(error).expect("a refusal");
        let code = error.get("code").and_then(Value::as_str).expect("a code");
        assert!(!["internal", "corrupt"].contains(&code), "{answer}");
        assert!(error.get("message").and_then(Value::as_str).is_some_and(|message| !message.is_empty()));
        assert!(error.get("details").is_some_and(Value::is_object));
        assert!(error.get("retryable").is_some_and(Value::is_boolean));
    }

    /// After a set that succeeded.
    fn set_is_what_get_gets(&self, input: &[u8]) {
        let text = std::str::from_utf8(input).expect("UTF-8, since there is no error");
        let (Some(r#""set""#), Some(key), Some(value)) =
            (member(text, "op"), member(text, "key"), member(text, "value"))
        else {
            return;
        };
        let scope = member(text, "scope").unwrap_or("null");
        let answer = self.answer(format!(r#"{{"op":"get","key":{key},"scope":{scope}}}"#).as_bytes());
        match member(&answer, "found") {
            Some(found) => assert_eq!((found, member(&answer, "value")), ("true", Some(value)), "{answer}"),
            None => assert!(answer.contains("result_too_large"), "{answer}"),
        }
    }

    fn check(&self) {
        let backend = backend(self.tool.memory());
        for scope in &self.others {
            let page = wait(backend.list(scope, ListQuery::default())).expect("a page");
            assert_eq!(page.entries.len(), 1, "{scope}");
            assert_eq!(page.entries[0].value, Json::string(&self.untold));
        }
        for kind in [ScopeKind::Agent, ScopeKind::Run] {
            let scope = self.tool.run().scope(kind).expect("a scope");
            let entries = wait(backend.list(&scope, ListQuery::default())).expect("a page").entries;
            assert!(entries.len() <= 12);
            assert!(entries.iter().map(memory_core::Entry::size_bytes).sum::<u64>() <= 4_096);
            // A full scope can always be emptied.
            for entry in entries {
                let call = format!(
                    r#"{{"op":"delete","key":{},"scope":"{kind}"}}"#,
                    serde_json::to_string(&entry.key).expect("writes")
                );
                let answer = self.answer(call.as_bytes());
                assert!(answer.contains("true"), "{answer}");
                let gone = wait(backend.get(&scope, &entry.key, GetOptions::default())).expect("a read");
                assert_eq!(gone, None);
            }
        }
    }
}

/// The text of an object's member.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    members(object).into_iter().find(|(member, _)| member == name).map(|(_, raw)| raw)
}

fn backend(memory: &Memory) -> &dyn Backend {
    memory.backend().expect("a key/value facet")
}

/// A call of some operation with its own fields, mostly of the right type.
fn generated(choices: &mut Choices<'_>) -> String {
    let op = ToolOp::ALL[choices.below(u8::try_from(ToolOp::ALL.len()).expect("few"))];
    let schema = op_schema(op);
    let fields: Vec<&String> = schema
        .get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().collect())
        .unwrap_or_default();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut call = format!(r#"{{"op":"{}""#, op.as_str());
    for name in fields.into_iter().filter(|name| *name != "op") {
        let wanted = required.contains(&name.as_str());
        if choices.below(8) < if wanted { 7 } else { 2 } {
            call.push_str(&format!(r#","{name}":{}"#, field(name, choices)));
        }
    }
    call.push('}');
    call
}

fn field(name: &str, choices: &mut Choices<'_>) -> String {
    if choices.below(32) == 31 {
        return generate::json(choices);
    }
    match name {
        "scope" => choices.one_of([r#""agent""#, r#""run""#, r#""user""#, "null"]).to_owned(),
        "key" | "prefix" => choices.one_of([r#""a""#, r#""ab""#, r#""k""#, r#""""#, r#""%""#, r#""\u00e9""#]).to_owned(),
        "query" | "text" | "statement" => {
            choices.one_of([r#""Ann moved to Lisbon""#, r#""ann""#, r#""1 2""#, r#""""#, r#""SELECT 1""#]).to_owned()
        }
        "value" | "append" | "push" => generate::json(choices),
        "merge" => generate::json_object(choices),
        "metadata" => choices.one_of([r#"{"n":1}"#, r#"{"n":1.5,"city":"Oslo"}"#, "{}", r#"{"n":null}"#]).to_owned(),
        "filter" => choices
            .one_of([
                r#"{"eq":["metadata.n",1]}"#,
                r#"{"not":{"gt":["metadata.n",1]}}"#,
                r#"{"exists":"expires_at"}"#,
                r#"{"lte":["created_at","2026-01-01T00:00:00Z"]}"#,
            ])
            .to_owned(),
        "items" => {
            let items: Vec<String> = (0..choices.below(4))
                .map(|_| format!(r#"{{"key":{},"value":{}}}"#, field("key", choices), generate::json(choices)))
                .collect();
            format!("[{}]", items.join(","))
        }
        "source" => choices.one_of([r#""chat""#, r#"" x""#]).to_owned(),
        "mode" => choices.one_of([r#""auto""#, r#""lexical""#, r#""vector""#, r#""hybrid""#]).to_owned(),
        "ttl" => choices.one_of([r#""keep""#, r#""never""#]).to_owned(),
        "rank" => choices.one_of([r#"{"recency":1}"#, r#"{"similarity":-1}"#, r#"{"frequency":1e308}"#, "{}"]).to_owned(),
        "dedup" => choices.one_of([r#"{"threshold":0.5,"policy":"drop"}"#, r#"{"threshold":2}"#]).to_owned(),
        "messages" => r#"[{"role":"user","content":"hi"}]"#.to_owned(),
        "if_absent" | "infer" | "all" => choices.one_of(["true", "false"]).to_owned(),
        "ids" | "args" => "[]".to_owned(),
        "cursor" | "tx" => choices.one_of([r#""""#, r#""AAAAAAAAAAA""#]).to_owned(),
        _ => choices.one_of(["0", "1", "2", "10", "-1", "0.5", "9223372036854775807", "1e300"]).to_owned(),
    }
}
