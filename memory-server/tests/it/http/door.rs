//! A test's server, and a client that sends raw bytes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::user::User;

/// Time limit for anything in a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store, and tokens for it.
pub(crate) const RULES: &str = "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\n\
    memory_scopes = [\"agent\", \"user\", \"run\"]\n";

/// A running server.
pub(crate) struct Door {
    pub(crate) user: User,
    process: Child,
    stderr: Option<std::thread::JoinHandle<String>>,
    pub(crate) port: u16,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Door {
    /// A server with these rules in addition to [`RULES`].
    pub(crate) fn open(rules: &str) -> Self {
        let user = User::new();
        user.file("memory.toml", format!("{RULES}{rules}"));
        Self::start(user, &[])
    }

    pub(crate) fn start(user: User, options: &[&str]) -> Self {
        Self::start_in(user, options, &[])
    }

    /// A server with these variables in its environment.
    pub(crate) fn start_in(user: User, options: &[&str], variables: &[(&str, &str)]) -> Self {
        let arguments = [&["serve", "--http", "127.0.0.1:0"], options].concat();
        let mut process = user.command(&arguments).envs(variables.iter().copied()).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut seen = String::new();
        let port = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the server did not start: {seen}");
            if let Some(at) = line.trim().strip_prefix("memory: listening on ") {
                break at.rsplit(':').next().unwrap().parse().unwrap();
            }
            seen += &line;
        };
        let stderr = std::thread::spawn(move || {
            let _ = stderr.read_to_string(&mut seen);
            seen
        });
        Self { user, process, stderr: Some(stderr), port }
    }

    /// The server stopped, and started again on the same store.
    pub(crate) fn again(mut self) -> Self {
        self.signal("TERM");
        assert!(self.ended().0.success());
        let user = std::mem::replace(&mut self.user, User::new());
        Self::start(user, &[])
    }

    /// Makes a token with these options.
    pub(crate) fn token(&self, name: &str, options: &[&str]) -> String {
        let made = self.user.json(&[&["token", "create", name], options].concat());
        made["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes, then reads until the server closes.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        // A server that refuses may close before everything is written.
        let _ = stream.write_all(bytes);
        answer(stream)
    }

    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text += &format!("Host: 127.0.0.1:{}\r\n", self.port);
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        self.raw(format!("{text}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.request("GET", path, headers, "")
    }

    /// Posts an MCP message; `session` is the session's id.
    pub(crate) fn post(&self, token: &str, session: Option<&str>, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        headers.extend(session.map(|id| ("Mcp-Session-Id", id)));
        self.request("POST", "/mcp", &headers, body)
    }

    /// Begins a session and returns its id.
    pub(crate) fn session(&self, token: &str) -> String {
        let begun = self.post(token, None, INITIALIZE);
        assert_eq!(begun.status, 200, "{begun:?}");
        let id = begun.header("mcp-session-id").unwrap().to_owned();
        let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.post(token, Some(&id), told).status, 202);
        id
    }

    /// Calls the tool in a session; returns whether it refused, and its answer as text.
    pub(crate) fn call(&self, token: &str, session: &str, arguments: &str) -> (bool, String) {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"memory","arguments":{arguments}}}}}"#
        );
        let answer = self.post(token, Some(session), &body);
        let message = answer.message();
        let result = &message["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer:?}"));
        (result["isError"] == true, text.to_owned())
    }

    /// Calls the tool, which must succeed.
    pub(crate) fn ok(&self, token: &str, session: &str, arguments: Value) -> Value {
        let (refused, text) = self.call(token, session, &arguments.to_string());
        assert!(!refused, "{arguments}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Calls the tool, which must refuse; returns the error's code.
    pub(crate) fn refused(&self, token: &str, session: &str, arguments: Value) -> String {
        let (refused, text) = self.call(token, session, &arguments.to_string());
        assert!(refused, "{arguments}: {text}");
        let error: Value = serde_json::from_str(&text).unwrap();
        error["error"]["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(
            std::process::Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success()
        );
    }

    /// Waits for its end; returns how it ended, and what it had written.
    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let status = self.process.wait().unwrap();
        (status, self.stderr.take().unwrap().join().unwrap())
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

/// Reads an answer to its end.
pub(crate) fn answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A connection reset after the answer has still answered.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n");
    let (head, body) = end.map_or((&bytes[..], &[][..]), |end| (&bytes[..end], &bytes[end + 4..]));
    let head = String::from_utf8_lossy(head).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { whole(body) } else { body.to_owned() };
    Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() }
}

/// A body without chunk framing.
fn whole(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(at) = body.windows(2).position(|end| end == b"\r\n") {
        let size = usize::from_str_radix(String::from_utf8_lossy(&body[..at]).trim(), 16).unwrap_or(0);
        let rest = &body[at + 2..];
        let size = size.min(rest.len());
        whole.extend_from_slice(&rest[..size]);
        body = rest[size..].strip_prefix(b"\r\n").unwrap_or_default();
    }
    whole
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The MCP message, alone or as an event of a stream.
    pub(crate) fn message(&self) -> Value {
        let lines = self.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        lines
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|message| message.get("jsonrpc").is_some())
            .unwrap_or_else(|| panic!("no message: {self:?}"))
    }

    /// The error's code.
    pub(crate) fn code(&self) -> String {
        let error: Value = serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no error: {self:?}"));
        error["error"]["code"].as_str().unwrap_or_else(|| panic!("no error: {self:?}")).to_owned()
    }
}

/// `set` of a key.
pub(crate) fn set(scope: &str, key: &str, value: &str) -> Value {
    json!({"op": "set", "scope": scope, "key": key, "value": value})
}

/// `get` of a key.
pub(crate) fn get(scope: &str, key: &str) -> Value {
    json!({"op": "get", "scope": scope, "key": key})
}
