//! Entry points for the fuzz targets in `fuzz/`: the importers, an MCP client's messages, and HTTP requests.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use clap::ValueEnum as _;
use memory::Memory;
use memory_api::Served;
use memory_core::{Backend, Error, ImportOptions, NewEntry, Result, Scope};

use rmcp::model::{
    CallToolResult, ClientRequest, ContentBlock, JsonRpcMessage, ServerJsonRpcMessage, ServerResult,
};

use crate::import::{Format, Found, Item, RecordReader as _, Records, Source, detect, reader, store_records};
use crate::serve::wire::frame::{self, Arguments, Frame};
use crate::serve::wire::line::{Line, next_line};

/// What an importer read from a file.
#[derive(Debug, Default)]
pub struct Imported {
    /// The turns as entries, or the errors that kept them from becoming entries.
    pub entries: Vec<Result<NewEntry>>,
    /// Messages about broken parts.
    pub broken: Vec<String>,
    /// How many items were skipped.
    pub passed_over: usize,
}

/// The formats by name.
#[must_use]
pub fn formats() -> Vec<&'static str> {
    Format::value_variants().iter().map(|format| format.name()).collect()
}

/// The detected format.
///
/// # Errors
/// Never: reading from memory does not fail.
pub fn detected(bytes: &[u8]) -> std::io::Result<Option<&'static str>> {
    Ok(detect(bytes)?.format.ok().map(Format::name))
}

/// Reads bytes as conversations of a format; `None` for the export format, which has none.
///
/// # Errors
/// Never: reading from memory does not fail.
pub fn turns(format: &str, bytes: &[u8]) -> std::io::Result<Option<Imported>> {
    let Some(format) = Format::value_variants().iter().copied().find(|known| known.name() == format) else {
        return Ok(None);
    };
    let Source::Turns(mut reader) = reader(format, Box::new(bytes), "a-file") else { return Ok(None) };
    let mut imported = Imported::default();
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Turn(turn) => imported.entries.push(turn.into_entry(format.name())),
            Item::Entry(_, entry) => imported.entries.push(Ok(*entry)),
            Item::Broken(place, why) => imported.broken.push(format!("{place}: {why}")),
            Item::PassedOver => imported.passed_over += 1,
        }
    }
    Ok(Some(imported))
}

/// Imports bytes as an export, one record per call. Returns how many were stored, and the complaints.
///
/// # Errors
/// `corrupt` if the bytes are not an export.
pub async fn records(bytes: &[u8], backend: &dyn Backend, scope: &Scope) -> Result<(u64, Vec<String>)> {
    let unread = |error: std::io::Error| Error::internal("memory cannot be read").with_source(error);
    let mut records = Records::open(bytes).map_err(unread)??;
    let (mut stored, mut broken) = (0, Vec::new());
    while let Some(found) = records.next_record().map_err(unread)? {
        match found {
            Found::Record(_, record) => {
                match store_records(backend, scope, vec![*record], ImportOptions::default()).await {
                    Ok(outcome) => stored += outcome.created,
                    Err(error) => broken.push(error.to_string()),
                }
            }
            Found::Broken(place, why) => broken.push(format!("{place}: {why}")),
        }
    }
    Ok((stored, broken))
}

/// How a line from an MCP client is handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpLine {
    /// A tool call with its arguments, verbatim.
    Call(String),
    /// Another message.
    Message,
    /// The error line sent back.
    Refused(String),
    /// A line over the limit: the error line sent back.
    TooLong(String),
    /// Nothing.
    Empty,
}

/// Reads bytes as messages of an MCP client, `step` bytes at a time.
///
/// # Errors
/// Never: reading from memory does not fail.
pub fn mcp_lines(bytes: &[u8], limit: usize, step: usize) -> std::io::Result<Vec<McpLine>> {
    let mut stream = std::io::BufReader::with_capacity(step, bytes);
    let (mut buffer, mut lines) = (Vec::new(), Vec::new());
    loop {
        lines.push(match next_line(&mut stream, &mut buffer, limit)? {
            Line::End => return Ok(lines),
            Line::TooLong(id) => McpLine::TooLong(frame::refuse_long_line(id.as_deref(), limit)),
            Line::Whole => match frame::read(&buffer) {
                Frame::Empty => McpLine::Empty,
                Frame::Refused(line) => McpLine::Refused(line),
                Frame::Message(message) => match *message {
                    JsonRpcMessage::Request(request) => match request.request {
                        ClientRequest::CallToolRequest(call) => call
                            .extensions
                            .get::<Arguments>()
                            .map_or(McpLine::Message, |arguments| McpLine::Call(arguments.0.to_string())),
                        _ => McpLine::Message,
                    },
                    _ => McpLine::Message,
                },
            },
        });
    }
}

/// The line that carries the tool's answer to an MCP client.
///
/// # Errors
/// If the text is not an object.
pub fn mcp_answer(text: &str, id: i64) -> std::io::Result<Vec<u8>> {
    let result = ServerResult::CallToolResult(CallToolResult::success(vec![ContentBlock::text(text)]));
    crate::serve::wire::answer::line(&ServerJsonRpcMessage::response(
        result,
        rmcp::model::RequestId::Number(id),
    ))
}

/// Everything that `memory serve --http` serves, but without a socket.
pub struct HttpServer {
    runtime: tokio::runtime::Runtime,
    served: Served,
    token: String,
    _folder: tempfile::TempDir,
}

/// An answer over HTTP.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: u16,
    /// Its `Content-Type`.
    pub kind: String,
    /// Its body; empty for a stream of events.
    pub body: Vec<u8>,
}

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

impl HttpServer {
    /// A server for a memory that it opens itself.
    ///
    /// # Errors
    /// Those of opening; if no runtime can be started.
    pub fn new(url: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Error::internal("no runtime").with_source(error))?;
        let memory: Memory = runtime.block_on(memory::open(url))?;
        let (served, token, folder) = crate::http::guarded(memory)?;
        Ok(Self { runtime, served, token, _folder: folder })
    }

    /// A token that allows everything.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The answer to a request; `None` if no server would read the request. `Err` if the answer takes too long.
    ///
    /// # Errors
    /// `timeout`.
    pub fn answer(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Option<HttpAnswer>> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let Ok(request) = request.body(Body::from(body.to_vec())) else { return Ok(None) };
        let answer = async {
            let (parts, body) = self.served.answer(request).await.into_parts();
            let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let kind = kind.unwrap_or_default().to_owned();
            // Such a stream may stay open.
            let body = match kind.as_str() {
                "text/event-stream" => Vec::new(),
                _ => to_bytes(body, usize::MAX).await.unwrap_or_default().to_vec(),
            };
            HttpAnswer { status: parts.status.as_u16(), kind, body }
        };
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, answer).await })
            .map(Some)
            .map_err(|error| Error::timeout("no answer in time").with_source(error))
    }
}
