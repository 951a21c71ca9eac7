//! Parsed requests, and fakes behind HTTP.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use memory_core::{RunContext, ScopeId, TenantId};
use serde_json::Value;

use crate::http::{Request, Server, Step, reply};

/// A parsed request.
#[derive(Clone, Debug)]
pub struct ParsedRequest {
    pub method: String,
    pub path: Vec<String>,
    pub parameters: Vec<(String, String)>,
    pub headers: BTreeMap<String, String>,
    /// `None` without a body, or where it is no JSON.
    pub body: Option<Value>,
    pub raw: Vec<u8>,
}

impl ParsedRequest {
    pub fn of(request: &Request) -> Self {
        let line = request.head.lines().next().unwrap();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap());
        let mut parsed = Self::to(&method, target);
        parsed.headers = request
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        parsed.raw.clone_from(&request.body);
        parsed.body = serde_json::from_slice(&request.body).ok();
        parsed
    }

    pub fn to(method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            method: method.to_owned(),
            path: path.split('/').skip(1).map(decoded).collect(),
            parameters: query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
            headers: BTreeMap::new(),
            body: None,
            raw: Vec::new(),
        }
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// The reply of a fake.
pub type Answer = (u16, Value);

/// A service that is faked.
pub type Fake = Mutex<dyn FnMut(&ParsedRequest) -> Answer + Send>;

/// Serves a fake over HTTP.
pub async fn serve(fake: Arc<Fake>) -> Server {
    Server::start(move |_, request| {
        let parsed = ParsedRequest::of(request);
        let (status, body) = (fake.lock().unwrap())(&parsed);
        sent(status, &body)
    })
    .await
}

pub fn sent(status: u16, body: &Value) -> Vec<Step> {
    let text = if status == 204 { String::new() } else { body.to_string() };
    reply(status, &[("Content-Type", "application/json")], text.as_bytes())
}

/// A file with a key, which lasts as long as the process.
pub fn key_file(key: &str) -> PathBuf {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), key).unwrap();
    file.into_temp_path().keep().unwrap()
}

pub fn run_of(tenant: &str) -> RunContext {
    let id = |text: &str| ScopeId::new(text).unwrap();
    RunContext::new(TenantId::new(tenant).unwrap(), id("agent"), id("run"))
}
