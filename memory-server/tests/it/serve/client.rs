//! A client for the tests.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::user::command;

/// Time limit for anything in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a database, which several connections may use one after the other.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// One connection.
pub(crate) struct Client {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<std::thread::JoinHandle<String>>,
    /// Messages that were read while waiting for another.
    put_aside: VecDeque<Value>,
    next_id: u64,
}

/// How a connection ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
    /// Unread messages.
    pub(crate) rest: Vec<Value>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path().join("memory.db")
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path().join(name), content).unwrap();
    }

    /// The command `memory` in this folder, without the machine's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        command(self.path(), arguments)
    }

    /// Starts a server with these options and sends nothing.
    pub(crate) fn start(&self, options: &[&str]) -> Client {
        let mut process = self
            .command(&[&["serve"], options].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut stderr = process.stderr.take().unwrap();
        let (to_test, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if to_test.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        Client {
            stdin: process.stdin.take(),
            process,
            lines,
            stderr: Some(stderr),
            put_aside: VecDeque::new(),
            next_id: 1,
        }
    }

    /// A session of the agent `claude` for the user `ada` on this folder's database.
    pub(crate) fn connect(&self) -> Client {
        self.connect_with(&["--url", "sqlite:memory.db", "--agent", "claude", "--user", "ada"])
    }

    pub(crate) fn connect_with(&self, options: &[&str]) -> Client {
        let mut client = self.start(options);
        client.initialize();
        client
    }
}

impl Client {
    pub(crate) fn initialize(&mut self) -> Value {
        let answer = self.request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}),
        );
        self.notify("notifications/initialized", json!({}));
        answer["result"].clone()
    }

    /// Writes bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write_line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request without waiting; returns its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.write_line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Sends a tool call without waiting; returns its id.
    pub(crate) fn send_call(&mut self, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": "memory", "arguments": arguments}))
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Calls the tool and returns the result.
    pub(crate) fn call(&mut self, arguments: Value) -> Value {
        let id = self.send_call(arguments);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Calls the tool, which must succeed, and returns its answer.
    pub(crate) fn ok(&mut self, arguments: Value) -> Value {
        let result = self.call(arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Calls the tool, which must refuse, and returns the error.
    pub(crate) fn refused(&mut self, arguments: Value) -> Value {
        let result = self.call(arguments);
        assert_eq!(result["isError"], true, "{result}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"]);
        text["error"].clone()
    }

    /// Waits for the answer to a request; keeps other messages for later.
    pub(crate) fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        self.wait_for(|message| message["id"] == id && message["method"].is_null())
    }

    /// Waits for a matching message; keeps others for later.
    pub(crate) fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.put_aside.iter().position(&fits) {
            return self.put_aside.remove(at).unwrap();
        }
        loop {
            let message = self.read_message();
            if fits(&message) {
                return message;
            }
            self.put_aside.push_back(message);
        }
    }

    /// The server's next message, before any that were kept for later.
    pub(crate) fn read_message(&mut self) -> Value {
        let line = self.read_line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn read_line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no answer in {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the server went away: {:?}", self.finish()),
        }
    }

    /// Messages besides the awaited answers.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Value> {
        self.put_aside.iter()
    }

    /// Closes the server's input and waits for its end.
    pub(crate) fn close(mut self) -> Ended {
        self.stdin = None;
        self.finish()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// The server's peak memory in bytes; `None` if the system does not report it.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1_024)
    }

    /// Kills the server, like a crash.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for the server to end by itself, which it must.
    pub(crate) fn finish(&mut self) -> Ended {
        let mut rest: Vec<Value> = self.put_aside.drain(..).collect();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    rest.push(serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}")));
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the server did not end in {PATIENCE:?}"),
            }
        }
        let status = self.process.wait().unwrap();
        let stderr = self.stderr.take().map(|thread| thread.join().unwrap()).unwrap_or_default();
        Ended { status, stderr, rest }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
