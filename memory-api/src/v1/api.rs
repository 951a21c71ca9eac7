//! What all routes share: the memory, what of it is served, and how one request runs.

use std::borrow::Cow;
use std::sync::Arc;

use memory::Memory;
use memory::audit::{AuditRequest, Auditor};
use memory_core::{
    Capabilities, Entry, Error, ErrorKind, Next, Op, Provider as _, Reply, Request, Result, Retry, ScopeKind,
};
use tokio::time::Instant;

use super::access;
use super::idempotency::Replies;
use super::tools::Tools;
use crate::caller::Caller;
use crate::recording::Recording;

/// Bytes of values in one answer; a batch of writes may bring as many.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// The shared state.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) memory: Memory,
    pub(super) capabilities: Capabilities,
    pub(super) replies: Replies,
    pub(super) auditor: Option<Arc<Auditor>>,
    /// For shared state and graphs.
    pub(super) tools: Tools,
}

impl Api {
    pub(super) fn new(memory: Memory, auditor: Option<Arc<Auditor>>, tools: Tools) -> Self {
        let mut capabilities = memory.capabilities();
        // A live handle cannot cross, and no agent can name the host's tables.
        capabilities.read_snapshot = false;
        capabilities.host_tables = false;
        Self { replies: Replies::new(memory.clone()), memory, capabilities, auditor, tools }
    }

    /// The operation with that name, if it can cross a connection.
    pub(super) fn op(&self, name: &str) -> Result<Op> {
        let op = Op::ALL.iter().copied().find(|op| op.as_str() == name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such operation; see /v1/openapi.json")
        })?;
        if op == Op::ReadSnapshot {
            return Err(Error::unsupported(op.as_str(), self.memory.name()));
        }
        Ok(op)
    }

    /// Runs a request for a caller, within its rights, and records it if there is an audit.
    pub(super) async fn run(&self, caller: &Caller, mut request: Request) -> Result<Reply> {
        let named = access::own_runs(caller, &mut request);
        if let Some(auditor) = &self.auditor {
            return Box::pin(self.recorded(auditor, caller, named, request)).await;
        }
        named?;
        self.within(caller, request).await
    }

    async fn recorded(
        &self,
        auditor: &Arc<Auditor>,
        caller: &Caller,
        named: Result<()>,
        mut request: Request,
    ) -> Result<Reply> {
        let tenant = access::tenant_of(&request);
        let mut record = AuditRequest::new(caller.id(), request.op().as_str(), tenant, request.scope());
        // The record says what each score is made of, requested or not.
        let mut explains = true;
        if let Request::Recall { query, .. } = &mut request {
            record = record.asked(&query.text);
            explains = std::mem::replace(&mut query.explain, true);
        }
        let kind = request.scope().map(|scope| scope.kind);
        let mut recording = Recording::begin(Some(auditor), record, request.op().is_read());
        let mut reply = match named {
            Ok(()) => self.within(caller, request).await,
            Err(error) => Err(error),
        };
        if let (Ok(Reply::Recall(facts)), Some(kind)) = (&mut reply, kind) {
            recording.recalled(kind, facts);
            if !explains {
                facts.iter_mut().for_each(|fact| fact.shares.clear());
            }
        }
        recording.found(reply.as_ref().ok().and_then(rows));
        recording.ended(reply)
    }

    async fn within(&self, caller: &Caller, mut request: Request) -> Result<Reply> {
        access::check(caller, self.memory.name(), &mut request)?;
        let (op, begun) = (request.op(), Instant::now());
        let answered = Next::to(&self.memory).run(request).await;
        caller.took(op, begun.elapsed());
        let mut reply = answered?;
        // The host's tables are of no concern here.
        match &mut reply {
            Reply::SqlScopes(page) => page.scopes.retain(|(scope, _)| scope.kind != ScopeKind::Host),
            Reply::ScopeUses(page) => page.scopes.retain(|used| used.scope.kind != ScopeKind::Host),
            Reply::Health(health) if !caller.grant().is_operators() => health.processes.clear(),
            Reply::GetMany(found) => fits(found.iter().flatten(), "keys")?,
            Reply::Search(found) => fits(found.hits.iter().map(|hit| &hit.entry), "hits")?,
            _ => {}
        }
        Ok(reply)
    }

    /// The same with the reply as JSON, for operations without streams.
    pub(super) async fn call(&self, caller: &Caller, request: Request) -> Result<String> {
        written(&self.run(caller, request).await?)
    }
}

/// Decodes a part of a path.
///
/// # Errors
/// `invalid_argument` if it is not UTF-8, or has a stray `%`, which means that the sender does not encode at all.
pub(super) fn decoded(part: &str) -> Result<Cow<'_, str>> {
    let Some((plain, encoded)) = part.split_once('%') else { return Ok(Cow::Borrowed(part)) };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(part.len());
    bytes.extend_from_slice(plain.as_bytes());
    for piece in encoded.split('%') {
        let [high, low, plain @ ..] = piece.as_bytes() else { return Err(encodes_nothing()) };
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(encodes_nothing()) };
        bytes.push(high << 4 | low);
        bytes.extend_from_slice(plain);
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|error| {
        Error::invalid("a part of the path is not UTF-8 once it is decoded; encode UTF-8")
            .with_source(error.utf8_error())
    })
}

fn encodes_nothing() -> Error {
    Error::invalid("a part of the path has a `%` without two hexadecimal digits; encode it as `%25`")
}

/// Refuses an answer that would take much more memory when written out than its values take now.
fn fits<'e>(entries: impl Iterator<Item = &'e Entry>, what: &str) -> Result<()> {
    let bytes = entries.map(|entry| entry.value.len_bytes()).fold(0, usize::saturating_add);
    if bytes <= MAX_ANSWER_BYTES {
        return Ok(());
    }
    let text = format!(
        "the values of the answer have {bytes} bytes, more than {MAX_ANSWER_BYTES}; ask for fewer {what}"
    );
    Err(Error::new(ErrorKind::ResultTooLarge, text)
        .with_retry(Retry::Never)
        .with_detail("limit", MAX_ANSWER_BYTES)
        .with_detail("unit", "bytes"))
}

/// How many entries, hits, facts or rows a reply holds; `None` for other replies.
fn rows(reply: &Reply) -> Option<usize> {
    match reply {
        Reply::Get(found) => Some(usize::from(found.is_some())),
        Reply::GetMany(found) => Some(found.iter().flatten().count()),
        Reply::List(page) => Some(page.entries.len()),
        Reply::Search(found) => Some(found.hits.len()),
        Reply::Recall(facts) => Some(facts.len()),
        Reply::Facts(page) => Some(page.facts.len()),
        Reply::Query(rows) => Some(rows.rows.len()),
        _ => None,
    }
}

/// A reply as JSON.
pub(super) fn written(reply: &Reply) -> Result<String> {
    serde_json::to_string(reply)
        .map_err(|error| Error::internal("a reply has no JSON form").with_source(error))
}
