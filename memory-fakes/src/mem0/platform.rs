//! The mem0 Platform as its documentation and its SDK describe it, faults included.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::KEY;
use crate::parsed::{Answer, ParsedRequest};

#[derive(Clone, Debug)]
struct Memory {
    id: String,
    text: String,
    user_id: String,
    metadata: Value,
    at: u64,
}

#[derive(Clone, Debug)]
struct Event {
    id: String,
    /// How often its event was polled.
    polls: u32,
    memories: Vec<Memory>,
    /// The user whose memories it deletes.
    deletes: Option<String>,
    fails: bool,
}

/// The state of the service.
#[derive(Debug, Default)]
pub struct Platform {
    memories: Vec<Memory>,
    events: Vec<Event>,
    count: u64,
}

/// How often an event is polled until it is done.
const UNTIL_DONE: u32 = 2;

fn tokens(text: &str) -> BTreeSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn cosine(a: &str, b: &str) -> f64 {
    let (a, b) = (tokens(a), tokens(b));
    let product = (a.len() * b.len()) as f64;
    if product == 0.0 { 0.0 } else { a.intersection(&b).count() as f64 / product.sqrt() }
}

fn matches(filters: &Map<String, Value>, memory: &Memory) -> bool {
    filters.iter().all(|(name, wanted)| {
        let each = |holds: fn(&Map<String, Value>, &Memory) -> bool| {
            wanted
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_object)
                .map(move |f| holds(f, memory))
        };
        match name.as_str() {
            "AND" => each(matches).all(|holds| holds),
            "OR" => each(matches).any(|holds| holds),
            "NOT" => !each(matches).any(|holds| holds),
            "user_id" => wanted == "*" || wanted.as_str() == Some(memory.user_id.as_str()),
            _ => false,
        }
    })
}

impl Memory {
    fn row(&self, score: Option<f64>) -> Value {
        let at = format!(
            "2026-11-21T{:02}:{:02}:{:02}.000000-08:00",
            self.at / 3_600 % 24,
            self.at / 60 % 60,
            self.at % 60
        );
        let mut row = json!({
            "id": self.id, "memory": self.text, "user_id": self.user_id, "agent_id": null, "app_id": null,
            "metadata": self.metadata, "categories": ["misc"], "created_at": at, "updated_at": at,
            "structured_attributes": { "nested": [[[]]] },
        });
        if let Some(score) = score {
            row["score"] = json!(score);
        }
        row
    }
}

impl Platform {
    pub fn handle(&mut self, request: &ParsedRequest) -> Answer {
        if request.header("authorization") != Some(&format!("Token {KEY}")) {
            return (401, json!({ "detail": "Invalid token." }));
        }
        if request.path.last().is_some_and(|last| !last.is_empty()) {
            return (301, Value::Null);
        }
        let path: Vec<&str> =
            request.path.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        match (request.method.as_str(), &path[..]) {
            ("GET", ["v1", "ping"]) => (
                200,
                json!({ "status": "ok", "org_id": "o", "project_id": "p", "user_email": "a@example.com" }),
            ),
            ("POST", ["v3", "memories", "add"]) => self.add(request),
            ("POST", ["v3", "memories", "search"]) => self.search(request),
            ("POST", ["v3", "memories"]) => self.list(request),
            ("DELETE", ["v1", "memories"]) => self.delete_all(request),
            ("GET", ["v1", "event", id]) => self.event(id),
            (method, ["v1", "memories", id]) => self.one(method, id),
            _ => (404, json!({ "detail": "Not found." })),
        }
    }

    fn uuid(&mut self) -> String {
        self.count += 1;
        format!("{:08x}-1111-4111-8111-{:012x}", self.count, self.count)
    }

    fn add(&mut self, request: &ParsedRequest) -> Answer {
        let Some(body) = request.body.as_ref().and_then(Value::as_object) else {
            return (
                400,
                json!({ "error": "400 Bad Request", "details": { "message": "Invalid input data." } }),
            );
        };
        let Some(user_id) = body.get("user_id").and_then(Value::as_str) else {
            return (400, json!({ "error": "At least one entity id is required." }));
        };
        let infer = body.get("infer") != Some(&Value::Bool(false));
        let metadata = body.get("metadata").cloned().unwrap_or(Value::Null);
        let messages = body.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut memories = Vec::new();
        let mut fails = false;
        for message in &messages {
            let content = message["content"].as_str().unwrap_or("");
            fails |= content.contains("[[fail]]");
            if !matches!(message["role"].as_str(), Some("user" | "assistant")) {
                continue;
            }
            let texts: Vec<String> = if infer {
                content
                    .split(['.', '!', '?', '\n'])
                    .map(str::trim)
                    .filter(|text| text.chars().any(char::is_alphanumeric))
                    .map(|text| format!("User said {text}"))
                    .collect()
            } else {
                vec![content.to_owned()]
            };
            for text in texts {
                let known = |m: &Memory| infer && m.user_id == user_id && m.text == text;
                if self.memories.iter().any(known) || memories.iter().any(known) {
                    continue;
                }
                let id = self.uuid();
                memories.push(Memory {
                    id,
                    text,
                    user_id: user_id.to_owned(),
                    metadata: metadata.clone(),
                    at: self.count,
                });
            }
        }
        let id = self.uuid();
        if !infer {
            let results: Vec<Value> = memories
                .iter()
                .map(|memory| json!({ "id": memory.id, "data": { "memory": memory.text }, "event": "ADD" }))
                .collect();
            self.memories.extend(memories);
            return (
                200,
                json!({ "message": "done", "status": "SUCCEEDED", "event_id": id, "results": results }),
            );
        }
        self.events.push(Event { id: id.clone(), polls: 0, memories, deletes: None, fails });
        let message = "Memory processing has been queued for background execution";
        (200, json!({ "event_id": id, "status": "PENDING", "message": message }))
    }

    fn event(&mut self, id: &str) -> Answer {
        let Some(event) = self.events.iter_mut().find(|event| event.id == id) else {
            return (404, json!({ "error": "Event not found" }));
        };
        event.polls += 1;
        if event.polls < UNTIL_DONE {
            return (200, json!({ "id": id, "status": "RUNNING", "results": null }));
        }
        if event.fails {
            return (
                200,
                json!({ "id": id, "status": "FAILED", "error": "what was said: secret", "results": [] }),
            );
        }
        if event.polls == UNTIL_DONE {
            self.memories.extend(event.memories.clone());
        }
        let results: Vec<Value> = event
            .memories
            .iter()
            .map(|memory| json!({ "id": memory.id, "data": { "memory": memory.text }, "event": "ADD" }))
            .collect();
        (200, json!({ "id": id, "status": "SUCCEEDED", "results": results, "error": null }))
    }

    /// Deletions by filter are done when somebody looks.
    fn settle(&mut self) {
        let (done, pending): (Vec<Event>, Vec<Event>) =
            self.events.drain(..).partition(|event| event.deletes.is_some() && event.polls >= UNTIL_DONE);
        self.events = pending;
        for event in &mut self.events {
            if event.deletes.is_some() {
                event.polls += 1;
            }
        }
        for user in done.into_iter().filter_map(|event| event.deletes) {
            self.memories.retain(|memory| user != "*" && memory.user_id != user);
        }
    }

    fn filters(request: &ParsedRequest) -> Result<Map<String, Value>, Answer> {
        let body = request.body.clone().unwrap_or_default();
        if ["user_id", "agent_id", "run_id", "app_id"].iter().any(|name| body.get(name).is_some()) {
            return Err((400, json!({ "error": "Top-level entity parameters are not supported." })));
        }
        match body["filters"].as_object() {
            Some(filters) if !filters.is_empty() => Ok(filters.clone()),
            _ => Err((400, json!({ "error": "filters are required" }))),
        }
    }

    fn search(&mut self, request: &ParsedRequest) -> Answer {
        self.settle();
        let filters = match Self::filters(request) {
            Ok(filters) => filters,
            Err(answer) => return answer,
        };
        let body = request.body.clone().unwrap_or_default();
        let (query, top_k) = (body["query"].as_str().unwrap_or(""), body["top_k"].as_u64().unwrap_or(10));
        let threshold = body["threshold"].as_f64().unwrap_or(0.1);
        if !(1..=1_000).contains(&top_k) {
            return (400, json!({ "error": "top_k" }));
        }
        let mut found: Vec<(f64, &Memory)> = self
            .memories
            .iter()
            .filter(|memory| matches(&filters, memory))
            .map(|memory| (cosine(query, &memory.text), memory))
            .filter(|(cosine, _)| *cosine >= threshold)
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let rows: Vec<Value> = found
            .into_iter()
            .take(usize::try_from(top_k).unwrap())
            .map(|(cosine, memory)| memory.row(Some(cosine / 2.5)))
            .collect();
        (200, json!({ "results": rows }))
    }

    fn list(&mut self, request: &ParsedRequest) -> Answer {
        self.settle();
        let filters = match Self::filters(request) {
            Ok(filters) => filters,
            Err(answer) => return answer,
        };
        let number = |name: &str, default: usize| {
            request.parameter(name).map_or(default, |text| text.parse().unwrap())
        };
        let (page, size) = (number("page", 1), number("page_size", 100));
        if page == 0 || !(1..=200).contains(&size) {
            return (400, json!({ "error": "page" }));
        }
        let all: Vec<&Memory> = self.memories.iter().filter(|memory| matches(&filters, memory)).collect();
        let rows: Vec<Value> =
            all.iter().skip((page - 1) * size).take(size).map(|memory| memory.row(None)).collect();
        let more = page * size < all.len();
        // An absolute URL, and not one to follow.
        let next = more.then(|| format!("http://169.254.169.254/v3/memories/?page={}", page + 1));
        (200, json!({ "count": all.len(), "next": next, "previous": null, "results": rows }))
    }

    fn one(&mut self, method: &str, id: &str) -> Answer {
        self.settle();
        if id.len() != 36 {
            return (400, json!({ "error": "Invalid memory id" }));
        }
        let Some(place) = self.memories.iter().position(|memory| memory.id == id) else {
            return (404, json!({ "error": "Memory not found!" }));
        };
        match method {
            "GET" => (200, self.memories[place].row(None)),
            "DELETE" => {
                self.memories.remove(place);
                (204, Value::Null)
            }
            _ => (405, json!({ "detail": "Method not allowed." })),
        }
    }

    fn delete_all(&mut self, request: &ParsedRequest) -> Answer {
        let Some(user) = request.parameter("user_id").filter(|user| !user.is_empty()).map(str::to_owned)
        else {
            return (400, json!({ "error": "filters are required" }));
        };
        let id = self.uuid();
        self.events.push(Event {
            id: id.clone(),
            polls: 0,
            memories: Vec::new(),
            deletes: Some(user),
            fails: false,
        });
        (200, json!({ "message": "Memories deletion queued", "event_id": id }))
    }

    /// Every id and its user.
    pub fn ids(&self) -> Vec<(String, String)> {
        self.memories.iter().map(|memory| (memory.id.clone(), memory.user_id.clone())).collect()
    }
}
