//! A self-hosted mem0 as it was recorded, faults included.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::KEY;
use crate::parsed::{Answer, ParsedRequest};

#[derive(Clone, Debug)]
struct Memory {
    id: String,
    text: String,
    user_id: Option<String>,
    agent_id: Option<String>,
    run_id: Option<String>,
    metadata: Value,
    at: u64,
    by: Option<&'static str>,
    role: Option<String>,
    expires: Option<String>,
}

/// The state of the server.
#[derive(Debug, Default)]
pub struct SelfHosted {
    memories: Vec<Memory>,
    count: u64,
    /// Whether the key may delete by filter.
    pub admin_refused: bool,
}

fn refuse(status: u16, detail: impl Into<Value>) -> Answer {
    (status, json!({ "detail": detail.into() }))
}

fn upstream() -> Answer {
    (502, json!({ "detail": "Upstream provider error.", "code": "unknown", "request_id": "0" }))
}

/// The failure of the model's provider that a mark in a text asks for.
fn provider_fails(text: &str) -> Result<(), Answer> {
    for (mark, code) in [
        ("[[s401]]", "provider_auth_failed"),
        ("[[s400]]", "provider_bad_request"),
        ("[[s429]]", "provider_rate_limited"),
        ("[[s500]]", "provider_unavailable"),
    ] {
        if text.contains(mark) {
            return Err((502, json!({ "detail": "Provider", "code": code, "request_id": "0" })));
        }
    }
    Ok(())
}

fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && id.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

fn tokens(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The stub embedder's cosine: bags of words.
fn cosine(a: &str, b: &str) -> f64 {
    let (a, b): (BTreeSet<_>, BTreeSet<_>) =
        (tokens(a).into_iter().collect(), tokens(b).into_iter().collect());
    let product = (a.len() * b.len()) as f64;
    if product == 0.0 { 0.0 } else { a.intersection(&b).count() as f64 / product.sqrt() }
}

/// The id that the server stores: trimmed; blank ids and inner white space are refused.
fn id_of(value: &Value, name: &str) -> Result<Option<String>, Answer> {
    let Some(text) = value.as_str() else {
        return match value {
            Value::Null => Ok(None),
            Value::Object(_) | Value::Array(_) => Err(refuse(
                400,
                format!(
                    "Invalid {name}: cannot contain whitespace. Provide a valid identifier without spaces."
                ),
            )),
            _ => Err(refuse(422, json!([{ "type": "string_type" }]))),
        };
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(refuse(
            400,
            format!("Invalid {name}: cannot be empty or whitespace-only. Provide a valid identifier."),
        ));
    }
    if text.chars().any(char::is_whitespace) {
        return Err(refuse(
            400,
            format!("Invalid {name}: cannot contain whitespace. Provide a valid identifier without spaces."),
        ));
    }
    Ok(Some(text.to_owned()))
}

const IDS: [&str; 3] = ["user_id", "agent_id", "run_id"];

impl Memory {
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "user_id" => self.user_id.clone().map(Value::from),
            "agent_id" => self.agent_id.clone().map(Value::from),
            "run_id" => self.run_id.clone().map(Value::from),
            other => self.metadata.get(other).cloned(),
        }
    }

    fn matches(&self, name: &str, wanted: &Value) -> bool {
        let found = self.field(name);
        match wanted {
            // Any value that is there.
            Value::String(star) if star == "*" => found.is_some(),
            Value::Object(operators) => operators.iter().all(|(operator, operand)| match operator.as_str() {
                "gte" => found.as_ref().and_then(Value::as_f64) >= operand.as_f64(),
                "ne" => found.as_ref() != Some(operand),
                _ => false,
            }),
            wanted => found.as_ref() == Some(wanted),
        }
    }

    fn matches_all(&self, filters: &Map<String, Value>) -> bool {
        filters.iter().all(|(name, wanted)| match name.as_str() {
            "OR" => some(wanted, |filters| self.matches_all(filters)),
            "NOT" => !some(wanted, |filters| self.matches_all(filters)),
            name => self.matches(name, wanted),
        })
    }

    fn row(&self, score: Option<f64>) -> Value {
        let at = format!(
            "2026-11-21T20:{:02}:{:02}.{:06}+00:00",
            self.at / 60_000 % 60,
            self.at / 1_000 % 60,
            self.at % 1_000 * 1_000
        );
        let mut row = json!({
            "id": self.id, "memory": self.text, "hash": format!("{:x}", self.text.len()), "metadata": self.metadata,
            "created_at": at, "updated_at": at,
        });
        let members = row.as_object_mut().unwrap();
        if let Some(score) = score {
            members.insert("score".to_owned(), json!(score));
        }
        for (name, value) in IDS.map(|name| (name, self.field(name))) {
            if let Some(value) = value {
                members.insert(name.to_owned(), value);
            }
        }
        for (name, value) in [
            ("attributed_to", self.by.map(str::to_owned)),
            ("role", self.role.clone()),
            ("expiration_date", self.expires.clone()),
        ] {
            if let Some(value) = value {
                members.insert(name.to_owned(), json!(value));
            }
        }
        row
    }

    /// As an administrator sees it who asks for everybody's.
    fn row_of_everybody(&self) -> Value {
        let mut row = self.row(None);
        let members = row.as_object_mut().unwrap();
        for name in ["agent_id", "run_id", "expiration_date"] {
            members.entry(name).or_insert(Value::Null);
        }
        let mut metadata = self.metadata.as_object().cloned().unwrap_or_default();
        metadata.insert("text_lemmatized".to_owned(), json!(self.text));
        for name in ["attributed_to", "role"] {
            if let Some(value) = members.remove(name) {
                metadata.insert(name.to_owned(), value);
            }
        }
        members.insert("metadata".to_owned(), Value::Object(metadata));
        row
    }

    fn is_expired(&self) -> bool {
        self.expires.as_deref().is_some_and(|date| date < "2026-11-22")
    }
}

fn some(list: &Value, holds: impl Fn(&Map<String, Value>) -> bool) -> bool {
    list.as_array().into_iter().flatten().filter_map(Value::as_object).any(holds)
}

impl SelfHosted {
    pub fn handle(&mut self, request: &ParsedRequest) -> Answer {
        let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
        let known =
            matches!(path[..], ["memories"] | ["memories", _] | ["search"] | ["auth", "setup-status"]);
        if !known || path.last() == Some(&"") {
            return refuse(404, "Not Found");
        }
        if path == ["auth", "setup-status"] {
            return (200, json!({ "needsSetup": true }));
        }
        if !matches!(request.method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
            return refuse(405, "Method Not Allowed");
        }
        if let Some(answer) = refused_key(request) {
            return answer;
        }
        match (request.method.as_str(), &path[..]) {
            ("POST", ["memories"]) => self.add(request).unwrap_or_else(|answer| answer),
            ("POST", ["search"]) => self.search(request).unwrap_or_else(|answer| answer),
            ("GET", ["memories"]) => self.list(request),
            ("DELETE", ["memories"]) => self.delete_all(request),
            (method, ["memories", id]) => self.one(method, id, request),
            _ => refuse(405, "Method Not Allowed"),
        }
    }

    fn next_id(&mut self) -> String {
        self.count += 1;
        format!(
            "{:08x}-{:04x}-4000-8000-{:012x}",
            self.count.wrapping_mul(2_654_435_761) % 0xffff_ffff,
            self.count % 0xffff,
            self.count
        )
    }

    fn add(&mut self, request: &ParsedRequest) -> Result<Answer, Answer> {
        let invalid = |kind: &str| refuse(422, json!([{ "type": kind }]));
        let json_type =
            request.header("content-type").is_none_or(|kind| kind.starts_with("application/json"));
        if !json_type {
            return Err(invalid("model_attributes_type"));
        }
        let body = request.body.as_ref().and_then(Value::as_object).ok_or_else(|| invalid("json_invalid"))?;
        let messages = body.get("messages").and_then(Value::as_array).ok_or_else(|| invalid("list_type"))?;
        let mut ids = Vec::new();
        for name in IDS {
            ids.push(id_of(body.get(name).unwrap_or(&Value::Null), name)?);
        }
        if ids.iter().all(Option::is_none) {
            return Err(refuse(400, "At least one identifier (user_id, agent_id, run_id) is required."));
        }
        if body.get("memory_type").is_some_and(|kind| kind != "procedural_memory") {
            return Err(refuse(
                400,
                "Invalid 'memory_type'. Please pass procedural_memory to create procedural memories.",
            ));
        }
        let expires = body.get("expiration_date").and_then(Value::as_str).map(str::to_owned);
        if expires.as_ref().is_some_and(|date| date.len() != 10 || !date.starts_with("20")) {
            return Err(refuse(400, "expiration_date must be a valid date in YYYY-MM-DD format."));
        }
        let infer = body.get("infer") != Some(&Value::Bool(false));
        let all: String = messages.iter().filter_map(|message| message["content"].as_str()).collect();
        if all.contains('\0') {
            return Err(upstream());
        }
        if infer {
            provider_fails(&all)?;
        }
        let mut metadata = body.get("metadata").cloned().unwrap_or(Value::Null);
        if let Some(members) = metadata.as_object_mut() {
            // Dropped, or taken for what the server itself writes there.
            for name in ["user_id", "agent_id", "run_id", "actor_id", "hash", "data", "created_at"] {
                members.remove(name);
            }
        }
        if metadata.as_object().is_some_and(Map::is_empty) {
            metadata = Value::Null;
        }
        let silent = all.contains("[[empty]]") || all.contains("[[badjson]]");
        let mut results = Vec::new();
        for message in messages {
            let (role, content) =
                (message["role"].as_str().unwrap_or(""), message["content"].as_str().unwrap_or(""));
            let (said, by) = match role {
                "user" => ("User said", "user"),
                "assistant" => ("Assistant said", "assistant"),
                _ => continue,
            };
            // Word for word, each message is embedded and stored before the next.
            provider_fails(content)?;
            let texts: Vec<String> = if infer {
                content
                    .split(['.', '!', '?', '\n'])
                    .map(str::trim)
                    .filter(|s| !s.is_empty())
                    .map(|s| format!("{said}: {s}"))
                    .collect()
            } else {
                vec![content.to_owned()]
            };
            for text in texts {
                let own = |memory: &&Memory| {
                    [&memory.user_id, &memory.agent_id, &memory.run_id] == [&ids[0], &ids[1], &ids[2]]
                };
                if infer && (silent || self.memories.iter().filter(own).any(|memory| memory.text == text)) {
                    continue;
                }
                let id = self.next_id();
                results.push(if infer {
                    json!({ "id": id, "memory": text, "event": "ADD" })
                } else {
                    json!({ "id": id, "memory": text, "event": "ADD", "actor_id": null, "role": role })
                });
                self.memories.push(Memory {
                    id,
                    text,
                    user_id: ids[0].clone(),
                    agent_id: ids[1].clone(),
                    run_id: ids[2].clone(),
                    metadata: metadata.clone(),
                    at: self.count,
                    by: infer.then_some(by),
                    role: (!infer).then(|| role.to_owned()),
                    expires: expires.clone(),
                });
            }
        }
        Ok((200, json!({ "results": results })))
    }

    fn search(&mut self, request: &ParsedRequest) -> Result<Answer, Answer> {
        let body =
            request.body.as_ref().and_then(Value::as_object).ok_or_else(|| refuse(422, json!([{}])))?;
        let query = body.get("query").and_then(Value::as_str).unwrap_or("");
        if query.trim().is_empty() {
            return Err(refuse(400, "Invalid query: cannot be empty or whitespace-only."));
        }
        let mut filters = body.get("filters").and_then(Value::as_object).cloned().unwrap_or_default();
        for name in IDS {
            // Deprecated, and still stronger than the filters.
            if let Some(id) = body.get(name) {
                filters.insert(name.to_owned(), id.clone());
            }
        }
        if !IDS.iter().any(|name| filters.contains_key(*name)) {
            return Err(refuse(
                400,
                "filters must contain at least one of: user_id, agent_id, run_id. Example: filters={'user_id': 'u1'}",
            ));
        }
        for name in IDS {
            match filters.get(name) {
                Some(Value::Null) => return Err(upstream()),
                Some(value) => {
                    if let Some(id) = id_of(value, name)? {
                        filters.insert(name.to_owned(), Value::from(id));
                    }
                }
                None => {}
            }
        }
        // What stands in AND is written over what stands beside it.
        for other in filters.remove("AND").as_ref().and_then(Value::as_array).into_iter().flatten() {
            for (name, value) in other.as_object().into_iter().flatten() {
                if value.is_object() {
                    return Err(upstream());
                }
                filters.insert(name.clone(), value.clone());
            }
        }
        let metadata_operators = filters.iter().filter(|(name, _)| !IDS.contains(&name.as_str()));
        for operators in metadata_operators.filter_map(|(_, value)| value.as_object()) {
            if operators.keys().any(|operator| !matches!(operator.as_str(), "gte" | "ne")) {
                return Err(refuse(400, "Unsupported operator"));
            }
        }
        let threshold = body.get("threshold").and_then(Value::as_f64).unwrap_or(0.1);
        if !(0.0..=1.0).contains(&threshold) {
            return Err(refuse(
                400,
                format!("Invalid threshold: {threshold}. Must be between 0 and 1 (inclusive)."),
            ));
        }
        let top_k = body.get("top_k").and_then(Value::as_i64).unwrap_or(20);
        let top_k = usize::try_from(top_k)
            .map_err(|_| refuse(400, format!("Invalid top_k: {top_k}. Must be a non-negative integer.")))?;
        let expired = body.get("show_expired") == Some(&Value::Bool(true));
        let mut found: Vec<(f64, &Memory)> = self
            .memories
            .iter()
            .filter(|memory| memory.matches_all(&filters) && (expired || !memory.is_expired()))
            .map(|memory| (cosine(query, &memory.text), memory))
            .filter(|(cosine, _)| *cosine >= threshold)
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        // The cosine is halved once words take part.
        let rows: Vec<Value> =
            found.into_iter().take(top_k).map(|(cosine, memory)| memory.row(Some(cosine / 2.0))).collect();
        Ok((200, json!({ "results": rows })))
    }

    fn list(&self, request: &ParsedRequest) -> Answer {
        let top_k = request.parameter("top_k").map_or(Ok(20), str::parse::<usize>);
        let Ok(top_k @ 0..=1_000) = top_k else { return refuse(422, json!([{ "type": "less_than_equal" }])) };
        let mut filters = Map::new();
        for name in IDS {
            // A blank id is none, and no id is everybody, for an administrator.
            let Some(id) = request.parameter(name).map(str::trim).filter(|id| !id.is_empty()) else {
                continue;
            };
            if id.chars().any(char::is_whitespace) {
                return upstream();
            }
            filters.insert(name.to_owned(), Value::from(id));
        }
        let everybody = filters.is_empty();
        let shown = |memory: &&Memory| everybody || (memory.matches_all(&filters) && !memory.is_expired());
        let row = |memory: &Memory| if everybody { memory.row_of_everybody() } else { memory.row(None) };
        let rows: Vec<Value> = self.memories.iter().filter(shown).take(top_k).map(row).collect();
        (200, json!({ "results": rows }))
    }

    fn one(&mut self, method: &str, id: &str, request: &ParsedRequest) -> Answer {
        if !is_uuid(id) {
            return upstream();
        }
        let place = self.memories.iter().position(|memory| memory.id == id);
        match (method, place) {
            ("GET", None) => (200, Value::Null),
            ("GET", Some(place)) => {
                let mut row = self.memories[place].row(None);
                row.as_object_mut().unwrap().insert("score".to_owned(), Value::Null);
                (200, row)
            }
            ("PUT", place) => {
                let body = request.body.clone().unwrap_or_default();
                if body.as_object().is_none_or(Map::is_empty) {
                    return refuse(
                        400,
                        "At least one of text, metadata, or expiration_date must be provided.",
                    );
                }
                let Some(place) = place else {
                    return refuse(
                        404,
                        format!("Memory with id {id} not found. Please provide a valid 'memory_id'"),
                    );
                };
                if let Some(text) = body["text"].as_str() {
                    self.memories[place].text = text.to_owned();
                }
                for (name, value) in body["metadata"].as_object().into_iter().flatten() {
                    self.memories[place].metadata[name] = value.clone();
                }
                (200, json!({ "message": "Memory updated successfully!" }))
            }
            ("DELETE", Some(place)) => {
                self.memories.remove(place);
                (200, json!({ "message": "Memory deleted successfully" }))
            }
            ("DELETE", None) => refuse(404, format!("Memory with id {id} not found")),
            _ => refuse(405, "Method Not Allowed"),
        }
    }

    fn delete_all(&mut self, request: &ParsedRequest) -> Answer {
        if self.admin_refused {
            return refuse(403, "Admin only");
        }
        let mut filters = Map::new();
        for name in IDS {
            if let Some(id) = request.parameter(name).map(str::trim).filter(|id| !id.is_empty()) {
                filters.insert(name.to_owned(), Value::from(id));
            }
        }
        if filters.is_empty() {
            return refuse(400, "At least one identifier is required.");
        }
        self.memories.retain(|memory| !memory.matches_all(&filters));
        (200, json!({ "message": "All relevant memories deleted" }))
    }

    /// What is stored for a user, for tests that look behind the scenes.
    pub fn texts_of(&self, user_id: &str) -> Vec<String> {
        self.memories
            .iter()
            .filter(|m| m.user_id.as_deref() == Some(user_id))
            .map(|m| m.text.clone())
            .collect()
    }

    /// Every id and its user.
    pub fn ids(&self) -> Vec<(String, Option<String>)> {
        self.memories.iter().map(|memory| (memory.id.clone(), memory.user_id.clone())).collect()
    }
}

/// The answer to a key that is not taken. A bearer, however wrong, is looked at first; `Token` is not known.
fn refused_key(request: &ParsedRequest) -> Option<Answer> {
    if request.header("authorization").is_some_and(|value| value.starts_with("Bearer ")) {
        return Some(refuse(401, "Invalid or expired token."));
    }
    match request.header("x-api-key") {
        None => Some(refuse(401, "Authentication required. Provide a Bearer token or X-API-Key header.")),
        Some(KEY) => None,
        Some(_) => Some(refuse(401, "Invalid API key.")),
    }
}
