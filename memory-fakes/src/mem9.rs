//! A mem9 of v1alpha2 as it was recorded (on PostgreSQL, with an embedder), faults included.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::http::Server;
use crate::parsed::{Answer, ParsedRequest, serve};

/// The key of the space in use.
pub const KEY: &str = SPACES[0].0;

/// The spaces there are: key, and whether it is suspended.
const SPACES: [(&str, bool); 3] = [
    ("11111111-1111-4111-8111-111111111111", false),
    ("22222222-2222-4222-8222-222222222222", false),
    ("33333333-3333-4333-8333-333333333333", true),
];
/// Longest agent and session id; a memory with a longer one is accepted and lost.
const MAX_ID: usize = 100;
const MAX_CONTENT: usize = 50_000;
/// How many reads pass until an accepted memory shows up.
const LATE: u32 = 2;

#[derive(Clone, Debug)]
struct Memory {
    id: String,
    space: String,
    content: String,
    kind: &'static str,
    agent_id: Option<String>,
    session_id: Option<String>,
    source: Option<String>,
    tags: Vec<String>,
    metadata: Option<Value>,
    state: &'static str,
    replaced_by: Option<String>,
    at: u64,
    /// When it last changed; the newest is listed first.
    changed: u64,
}

/// An accepted memory that does not show up yet.
#[derive(Clone, Debug)]
struct Accepted {
    reads: u32,
    add: Add,
}

#[derive(Clone, Debug)]
struct Add {
    space: String,
    texts: Vec<String>,
    agent_id: Option<String>,
    session_id: Option<String>,
    source: Option<String>,
    /// Stored with its content alone.
    tags: Vec<String>,
    metadata: Option<Value>,
    /// Whether it is silently lost.
    lost: bool,
}

/// The state of the server.
#[derive(Debug, Default)]
pub struct Mem9 {
    memories: Vec<Memory>,
    accepted: Vec<Accepted>,
    count: u64,
    /// Whether there is no language model: nothing is learned from messages.
    pub mute: bool,
    /// Whether what was accepted is there at once, as it was where the recorder waited.
    pub prompt: bool,
}

fn refuse(status: u16, error: &str) -> Answer {
    (status, json!({ "error": error }))
}

fn words(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

impl Memory {
    fn json(&self) -> Value {
        let at = format!(
            "2026-11-21T20:{:02}:{:02}.{:03}Z",
            self.at / 60_000 % 60,
            self.at / 1_000 % 60,
            self.at % 1_000
        );
        let mut row = json!({
            "id": self.id, "content": self.content, "memory_type": self.kind, "state": self.state, "version": 1,
            "created_at": at, "updated_at": at,
        });
        for (name, value) in [
            ("agent_id", self.agent_id.clone().map(Value::from)),
            ("session_id", self.session_id.clone().map(Value::from)),
            ("source", self.source.clone().map(Value::from)),
            ("updated_by", self.source.clone().map(Value::from)),
            ("superseded_by", self.replaced_by.clone().map(Value::from)),
            ("tags", (!self.tags.is_empty()).then(|| json!(self.tags))),
            ("metadata", self.metadata.clone()),
        ] {
            if let Some(value) = value {
                row[name] = value;
            }
        }
        row
    }
}

impl Mem9 {
    /// Puts it behind HTTP.
    pub async fn start(mut self) -> Server {
        serve(Arc::new(Mutex::new(move |request: &ParsedRequest| self.handle(request)))).await
    }

    pub fn handle(&mut self, request: &ParsedRequest) -> Answer {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        let method = request.method.as_str();
        match (method, &path[..]) {
            ("GET", ["healthz"]) => return (200, json!({ "status": "ok" })),
            ("GET", ["v1alpha2", "status"]) => return Self::status(request),
            (_, ["v1alpha2", "mem9s", "memories", ..]) if path.last() != Some(&"") => {}
            _ => return (404, json!({ "_text": "404 page not found\n" })),
        }
        let space = match request.header("x-api-key") {
            None => return refuse(400, "missing API key"),
            Some(key) => match SPACES.iter().find(|(known, _)| *known == key) {
                Some((key, false)) => (*key).to_owned(),
                _ => return refuse(400, "invalid API key"),
            },
        };
        match (method, &path[3..]) {
            ("POST", []) => self.add(request, &space),
            ("GET", []) => self.list(request, &space),
            ("POST", ["batch-delete"]) => self.batch_delete(request, &space),
            (method @ ("GET" | "PUT" | "DELETE"), [id]) => self.one(method, id, request, &space),
            _ => (405, json!({ "_text": "" })),
        }
    }

    fn status(request: &ParsedRequest) -> Answer {
        match request.header("x-api-key") {
            None => refuse(401, "missing or malformed X-API-Key"),
            Some(key) => match SPACES.iter().find(|(known, _)| *known == key) {
                Some((_, suspended)) => {
                    (200, json!({ "status": if *suspended { "inactive" } else { "active" } }))
                }
                None => refuse(404, "key not found"),
            },
        }
    }

    fn uuid(&mut self) -> String {
        self.count += 1;
        format!("{:08x}-2222-4222-8222-{:012x}", self.count, self.count)
    }

    fn add(&mut self, request: &ParsedRequest, space: &str) -> Answer {
        // The media type is not looked at.
        let Some(body) = request.body.as_ref().and_then(Value::as_object) else {
            return refuse(400, "invalid JSON: unexpected EOF");
        };
        let text = |name: &str| {
            body.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let messages = match body.get("messages") {
            None => None,
            Some(Value::Array(messages)) => Some(messages.clone()).filter(|messages| !messages.is_empty()),
            Some(_) => {
                return refuse(
                    400,
                    "invalid JSON: json: cannot unmarshal string into Go struct field \
                     createMemoryRequest.messages of type []service.IngestMessage",
                );
            }
        };
        let (content, kind) = (text("content"), text("memory_type"));
        let tags: Vec<String> = body
            .get("tags")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|tag| tag.as_str().map(str::to_owned))
            .collect();
        match (&messages, &content) {
            (Some(_), Some(_)) => return refuse(400, "body: provide either content or messages, not both"),
            (None, None) => return refuse(400, "content: content or messages required"),
            (Some(_), None) if kind.is_some() => {
                return refuse(400, "memory_type: memory_type is only allowed with content, not messages");
            }
            (None, Some(_)) if text("mode").is_some() => {
                return refuse(400, "body: content mode does not accept mode");
            }
            (None, Some(_)) if kind.as_deref().is_some_and(|kind| kind != "pinned") => {
                return refuse(
                    400,
                    "memory_type: unsupported value \"insight\"; only \"pinned\" is supported on the explicit \
                     content path",
                );
            }
            _ => {}
        }
        let sync = body.get("sync") == Some(&Value::Bool(true));
        if tags.len() > 20 {
            return refuse(400, "tags: too many (max 20)");
        }
        let writer = request.header("x-mnemo-agent-id").map(str::to_owned);
        let (agent_id, session_id) = (text("agent_id").or(writer.clone()), text("session_id"));
        let too_long = [&agent_id, &session_id].into_iter().flatten().any(|id| id.len() > MAX_ID);
        if let (Some(content), Some("pinned")) = (&content, kind.as_deref()) {
            if too_long {
                return refuse(500, "internal server error");
            }
            let id = self.uuid();
            let memory = Memory {
                id,
                space: space.to_owned(),
                content: content.clone(),
                kind: "pinned",
                // Neither is kept.
                agent_id: None,
                session_id: None,
                source: agent_id,
                tags,
                metadata: body.get("metadata").cloned(),
                state: "active",
                replaced_by: None,
                at: self.count,
                changed: self.count,
            };
            let row = memory.json();
            self.memories.push(memory);
            return (201, row);
        }
        if let Some(content) = &content
            && content.len() > MAX_CONTENT
        {
            return if sync {
                refuse(400, "content: too long (max 50000)")
            } else {
                (202, json!({ "status": "accepted" }))
            };
        }
        let heard: Vec<String> = match (&messages, &content) {
            (Some(messages), _) => messages
                .iter()
                .filter(|message| message["role"] == "user")
                .filter_map(|message| message["content"].as_str().map(str::to_owned))
                .collect(),
            (None, Some(content)) => vec![content.clone()],
            (None, None) => Vec::new(),
        };
        let all = heard.join(" ");
        let fails = ["[[s500]]", "[[s429]]", "[[s400]]", "[[badjson]]"].iter().any(|mark| all.contains(mark));
        if fails && sync {
            return refuse(500, "internal server error");
        }
        let add = Add {
            space: space.to_owned(),
            texts: heard.iter().flat_map(|text| insights(text)).collect(),
            source: writer.or_else(|| content.is_some().then(|| agent_id.clone()).flatten()),
            agent_id,
            session_id,
            tags: if content.is_some() { tags } else { Vec::new() },
            metadata: content.is_some().then(|| body.get("metadata").cloned()).flatten(),
            lost: fails || too_long || all.contains('\0') || (self.mute && messages.is_some()),
        };
        if sync {
            self.learn(add);
            return (200, json!({ "status": "ok" }));
        }
        if self.prompt {
            self.learn(add);
        } else {
            self.accepted.push(Accepted { reads: 0, add });
        }
        (202, json!({ "status": "accepted" }))
    }

    /// What was accepted comes to be, a little later.
    fn settle(&mut self) {
        let accepted = std::mem::take(&mut self.accepted);
        for mut late in accepted {
            late.reads += 1;
            if late.reads >= LATE {
                self.learn(late.add);
            } else {
                self.accepted.push(late);
            }
        }
    }

    /// Learns, and sets what is new against what is old of the same agent, whatever the session.
    fn learn(&mut self, add: Add) {
        if add.lost {
            return;
        }
        for text in add.texts {
            let active = |memory: &Memory| {
                memory.space == add.space
                    && memory.agent_id == add.agent_id
                    && memory.kind == "insight"
                    && memory.state == "active"
            };
            if let Some(about) = text.strip_prefix("Forget ") {
                let about = about.to_lowercase();
                self.count += 1;
                for memory in self.memories.iter_mut().filter(|memory| active(memory)) {
                    if memory.content.to_lowercase().contains(&about) {
                        (memory.state, memory.changed) = ("deleted", self.count);
                    }
                }
                continue;
            }
            if self.memories.iter().any(|memory| active(memory) && memory.content == text) {
                continue;
            }
            let id = self.uuid();
            if let Some((subject, _)) = text.split_once(" is ") {
                for memory in self.memories.iter_mut().filter(|memory| active(memory)) {
                    if memory.content.split_once(" is ").is_some_and(|(other, _)| other == subject) {
                        memory.state = "archived";
                        memory.replaced_by = Some(id.clone());
                    }
                }
            }
            self.memories.push(Memory {
                id,
                space: add.space.clone(),
                content: text,
                kind: "insight",
                agent_id: add.agent_id.clone(),
                session_id: add.session_id.clone(),
                source: add.source.clone(),
                tags: if add.tags.is_empty() { vec!["stub".to_owned()] } else { add.tags.clone() },
                metadata: add.metadata.clone(),
                state: "active",
                replaced_by: None,
                at: self.count,
                changed: self.count,
            });
        }
    }

    fn list(&mut self, request: &ParsedRequest, space: &str) -> Answer {
        self.settle();
        let parameter = |name: &str| request.parameter(name).filter(|value| !value.is_empty());
        let question = parameter("q");
        let limit = parameter("limit")
            .and_then(|text| text.parse().ok())
            .filter(|n| (1..=200).contains(n))
            .unwrap_or(10);
        let offset: usize = parameter("offset").and_then(|text| text.parse().ok()).unwrap_or(0);
        let state = parameter("state").unwrap_or("active");
        let kinds: Option<Vec<&str>> = parameter("memory_type").map(|kinds| kinds.split(',').collect());
        let tags: Vec<&str> = parameter("tags").map(|tags| tags.split(',').collect()).unwrap_or_default();
        let mut found: Vec<&Memory> = self
            .memories
            .iter()
            .filter(|memory| memory.space == space)
            .filter(|memory| state == "all" || memory.state == state)
            .filter(|memory| parameter("agent_id").is_none_or(|id| memory.agent_id.as_deref() == Some(id)))
            .filter(|memory| parameter("source").is_none_or(|id| memory.source.as_deref() == Some(id)))
            .filter(|memory| kinds.as_ref().is_none_or(|kinds| kinds.contains(&memory.kind)))
            .filter(|memory| tags.iter().all(|tag| memory.tags.iter().any(|known| known == tag)))
            // Where a question is request, the session is not looked at.
            .filter(|memory| {
                question.is_some()
                    || parameter("session_id").is_none_or(|id| memory.session_id.as_deref() == Some(id))
            })
            .collect();
        found.sort_by_key(|memory| std::cmp::Reverse(memory.changed));
        let Some(question) = question else {
            let total = found.len();
            let rows: Vec<Value> = found
                .into_iter()
                .skip(offset)
                .take(limit)
                .map(|memory| {
                    let mut row = memory.json();
                    row["relative_age"] = json!("just now");
                    row
                })
                .collect();
            return (200, json!({ "memories": rows, "total": total, "limit": limit, "offset": offset }));
        };
        let wanted = words(question);
        let plain = kinds.as_ref().is_some_and(|kinds| kinds.len() > 1);
        let mut ranked: Vec<(usize, &Memory)> = found
            .into_iter()
            .map(|memory| (wanted.intersection(&words(&memory.content)).count(), memory))
            // Its text search wants every word; with a confidence, what is found by vectors alone is hidden.
            .filter(|(shared, _)| if plain { *shared > 0 } else { *shared > 0 && *shared == wanted.len() })
            .collect();
        ranked.sort_by_key(|(shared, _)| std::cmp::Reverse(*shared));
        let rows: Vec<Value> = ranked
            .into_iter()
            .take(limit)
            .enumerate()
            .map(|(place, (shared, memory))| {
                let mut row = memory.json();
                row["score"] = json!(0.0991 * shared as f64 / wanted.len() as f64);
                if plain {
                    row["relative_age"] = json!("just now");
                } else {
                    row["confidence"] = json!(97_usize.saturating_sub(place));
                }
                row
            })
            .collect();
        let total = rows.len();
        (200, json!({ "memories": rows, "total": total, "limit": limit, "offset": 0 }))
    }

    fn one(&mut self, method: &str, id: &str, request: &ParsedRequest, space: &str) -> Answer {
        // An id reaches whatever the space has.
        let Some(place) = self.memories.iter().position(|memory| memory.id == id && memory.space == space)
        else {
            return refuse(404, "not found");
        };
        self.count += 1;
        let memory = &mut self.memories[place];
        match method {
            "DELETE" => {
                (memory.state, memory.changed) = ("deleted", self.count);
                (204, Value::Null)
            }
            _ if memory.state == "deleted" => refuse(404, "not found"),
            "GET" => (200, memory.json()),
            _ => {
                let body = request.body.clone().unwrap_or_default();
                if body["content"].as_str().is_some_and(|content| content.len() > MAX_CONTENT - 1) {
                    return refuse(400, "content: too long (max 50000)");
                }
                if let Some(content) = body["content"].as_str() {
                    memory.content = content.to_owned();
                }
                if let Some(tags) = body["tags"].as_array() {
                    memory.tags = tags.iter().filter_map(|tag| tag.as_str().map(str::to_owned)).collect();
                }
                if body.get("metadata").is_some() {
                    memory.metadata = body.get("metadata").cloned();
                }
                memory.changed = self.count;
                (200, memory.json())
            }
        }
    }

    fn batch_delete(&mut self, request: &ParsedRequest, space: &str) -> Answer {
        let body = request.body.clone().unwrap_or_default();
        let ids: BTreeSet<&str> =
            body["ids"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if ids.is_empty() {
            return refuse(400, "ids: required");
        }
        if body["ids"].as_array().is_some_and(|ids| ids.len() > 1_000) {
            return refuse(400, "ids: too many (max 1000)");
        }
        let mut deleted = 0;
        self.count += 1;
        for memory in &mut self.memories {
            if memory.space == space && memory.state != "deleted" && ids.contains(memory.id.as_str()) {
                (memory.state, memory.changed) = ("deleted", self.count);
                deleted += 1;
            }
        }
        (200, json!({ "deleted": deleted }))
    }

    /// Every id that is active, and its agent.
    pub fn ids(&self) -> Vec<(String, Option<String>)> {
        let active = self.memories.iter().filter(|memory| memory.state == "active");
        active.map(|memory| (memory.id.clone(), memory.agent_id.clone())).collect()
    }
}

/// What the stub of a language model makes of a user's words: its statements.
fn insights(text: &str) -> Vec<String> {
    let mut kept = text.to_owned();
    while let (Some(start), Some(end)) = (kept.find("<relevant-memories>"), kept.find("</relevant-memories>"))
    {
        kept.replace_range(start..(end + "</relevant-memories>".len()).max(start), "");
    }
    if kept.contains("[[empty]]") {
        return Vec::new();
    }
    kept.split_inclusive(['.', '!', '?', '\n'])
        .filter(|sentence| !sentence.ends_with('?'))
        .map(|sentence| sentence.trim_matches(|c: char| c.is_whitespace() || ".!\n".contains(c)).to_owned())
        .filter(|sentence| sentence.chars().any(char::is_alphanumeric))
        .collect()
}
