//! MCP over standard input and output: one message per line, of limited length, and only as many at a time as the
//! budget allows.
//!
//! Reading and writing happen on two threads, so that neither a silent client nor one that does not read blocks the
//! runtime. When the input ends or a stop is requested, requests in flight are answered first, within [`GRACE`].

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions as _, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::answer;
use super::frame::{self, Frame};
use super::line::{Line, next_line};

/// Grace period for requests in flight once the client is gone.
pub(in crate::serve) const GRACE: Duration = Duration::from_secs(5);
/// Time limit after that for writing the last lines.
pub(in crate::serve) const FLUSH: Duration = Duration::from_secs(1);
/// The unit of the budget, in bytes.
const UNIT: usize = 1 << 10;
/// A request's minimum share of the budget, which limits how many run at a time.
const LEAST_UNITS: u32 = 1 << 10;
/// The budget: 64 short requests, or 64 MiB of long ones.
const LEAST_BUDGET: u32 = 64 * LEAST_UNITS;
/// Most lines that wait to be written.
const QUEUED_LINES: usize = 64;

/// A request's share of the budget, released once its answer is written.
pub(in crate::serve) type Share = Arc<OwnedSemaphorePermit>;

/// What the reading thread sends.
struct Incoming {
    message: ClientJsonRpcMessage,
    share: Share,
}

enum Outgoing {
    /// A line; the share is returned once it is written.
    Line(Vec<u8>, Option<Share>),
    /// No further lines follow.
    End,
}

/// Resolves once the output is written.
#[derive(Debug)]
pub(in crate::serve) struct Written(oneshot::Receiver<()>);

impl Written {
    /// Waits up to `patience` for the last line to be written; returns false if it was not.
    pub(in crate::serve) async fn wait(self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.0).await.is_ok()
    }
}

/// The server's end of a connection.
pub(in crate::serve) struct Lines {
    incoming: mpsc::Receiver<Incoming>,
    outgoing: Option<mpsc::Sender<Outgoing>>,
    stop: watch::Receiver<bool>,
    budget: Arc<Semaphore>,
    units: u32,
    /// Shares of requests that have not been answered yet.
    shares: HashMap<RequestId, Share>,
    /// Whether a session was requested; notifications before that are dropped.
    opened: bool,
    /// When to stop waiting for requests in flight.
    deadline: Option<Instant>,
}

impl Lines {
    /// Starts both threads. `line_limit` is in bytes; `stopping` is set when the output is closed.
    pub(in crate::serve) fn start(
        input: impl BufRead + Send + 'static,
        output: impl Write + Send + 'static,
        line_limit: usize,
        stopping: watch::Sender<bool>,
    ) -> io::Result<(Self, Written)> {
        let units = units(line_limit).max(LEAST_BUDGET);
        let budget = Arc::new(Semaphore::new(usize::try_from(units).unwrap_or(Semaphore::MAX_PERMITS)));
        let (to_service, incoming) = mpsc::channel(1);
        let (outgoing, from_service) = mpsc::channel(QUEUED_LINES);
        let (all_written, written) = oneshot::channel();
        let stop = stopping.subscribe();
        let reader = Reader {
            runtime: Handle::current(),
            budget: Arc::clone(&budget),
            line_limit,
            units,
            to_service,
            to_writer: outgoing.clone(),
        };
        std::thread::Builder::new().name("mcp-input".to_owned()).spawn(move || reader.run(input))?;
        std::thread::Builder::new().name("mcp-output".to_owned()).spawn(move || {
            write_lines(output, from_service);
            // A client that cannot be written to is gone.
            stopping.send_replace(true);
            drop(all_written);
        })?;
        let lines = Self {
            incoming,
            outgoing: Some(outgoing),
            stop,
            budget,
            units,
            shares: HashMap::new(),
            opened: false,
            deadline: None,
        };
        Ok((lines, Written(written)))
    }

    /// Accounts for a message in the budget; `None` if the service must not see it.
    fn admit(&mut self, mut incoming: Incoming) -> Option<ClientJsonRpcMessage> {
        match &mut incoming.message {
            JsonRpcMessage::Request(request) => {
                self.opened |= opens(&request.request);
                request.request.extensions_mut().insert(Arc::clone(&incoming.share));
                self.shares.insert(request.id.clone(), incoming.share);
            }
            JsonRpcMessage::Notification(notification) if self.opened => {
                // A cancelled request gets no answer.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.shares.remove(id);
                }
            }
            // This server sends no requests, so it expects no responses.
            _ => return None,
        }
        Some(incoming.message)
    }
}

/// Whether a request starts a session: by the handshake, or by its own metadata.
fn opens(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => rmcp::model::GetMeta::get_meta(request).protocol_version().is_some(),
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let share = match &message {
            JsonRpcMessage::Response(response) => self.shares.remove(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref().and_then(|id| self.shares.remove(id)),
            _ => None,
        };
        let outgoing = self.outgoing.clone();
        async move {
            let closed = || io::Error::new(io::ErrorKind::NotConnected, "the output is closed");
            let line = answer::line(&message)?;
            let outgoing = outgoing.ok_or_else(closed)?;
            outgoing.send(Outgoing::Line(line, share)).await.map_err(|_| closed())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        while self.deadline.is_none() {
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => self.deadline = Some(Instant::now() + GRACE),
                incoming = self.incoming.recv() => match incoming {
                    None => self.deadline = Some(Instant::now() + GRACE),
                    Some(incoming) => {
                        if let Some(message) = self.admit(incoming) {
                            return Some(message);
                        }
                    }
                }
            }
        }
        // Drops requests that were read but not started, and their shares.
        self.incoming.close();
        while self.incoming.try_recv().is_ok() {}
        if let Some(deadline) = self.deadline {
            let _ = tokio::time::timeout_at(deadline, self.budget.acquire_many(self.units)).await;
        }
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        if let Some(outgoing) = self.outgoing.take() {
            // Requests had their grace period; lines queued for a client that does not read are lost.
            let _ = tokio::time::timeout(FLUSH, outgoing.send(Outgoing::End)).await;
        }
        Ok(())
    }
}

impl Drop for Lines {
    /// A blocked reader holds a sender too, so the writer needs an explicit end.
    fn drop(&mut self) {
        if let Some(outgoing) = self.outgoing.take() {
            let _ = outgoing.try_send(Outgoing::End);
        }
        self.budget.close();
    }
}

/// Resolves when a stop is requested, or its sender is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The share of the budget that this many bytes take.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).max(LEAST_UNITS)
}

struct Reader {
    runtime: Handle,
    budget: Arc<Semaphore>,
    line_limit: usize,
    units: u32,
    to_service: mpsc::Sender<Incoming>,
    to_writer: mpsc::Sender<Outgoing>,
}

impl Reader {
    /// Reads until the input ends or fails, or the receiver is dropped.
    fn run(self, mut input: impl BufRead) {
        let mut buffer = Vec::new();
        loop {
            let refusal = match next_line(&mut input, &mut buffer, self.line_limit) {
                Ok(Line::Whole) => {
                    // Takes the share before parsing, which needs more memory. Meanwhile the next line waits in the
                    // pipe.
                    let Some(share) = self.share(buffer.len()) else { return };
                    match frame::read(&buffer) {
                        Frame::Empty => continue,
                        Frame::Message(message) => {
                            let incoming = Incoming { message: *message, share };
                            if self.to_service.blocking_send(incoming).is_err() {
                                return;
                            }
                            continue;
                        }
                        Frame::Refused(text) => text,
                    }
                }
                Ok(Line::TooLong(id)) => frame::refuse_long_line(id.as_deref(), self.line_limit),
                Ok(Line::End) | Err(_) => return,
            };
            let mut line = refusal.into_bytes();
            line.push(b'\n');
            if self.to_writer.blocking_send(Outgoing::Line(line, None)).is_err() {
                return;
            }
        }
    }

    fn share(&self, bytes: usize) -> Option<Share> {
        let units = units(bytes).min(self.units);
        let permit = Arc::clone(&self.budget).acquire_many_owned(units);
        self.runtime.block_on(permit).ok().map(Arc::new)
    }
}

/// Writes until the end, or until the output fails.
fn write_lines(mut output: impl Write, mut lines: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing::Line(line, share)) = lines.blocking_recv() {
        let mut written = output.write_all(&line);
        if lines.is_empty() {
            written = written.and_then(|()| output.flush());
        }
        if written.is_err() {
            return;
        }
        drop(share);
    }
}
