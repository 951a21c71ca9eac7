//! Answers of MCP calls, kept for a while for clients whose connection broke before they had them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
};
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

/// How long after its last event a stream can be resumed.
const STANDS: Duration = Duration::from_secs(300);
/// Most bytes kept, of all callers together; the oldest go first.
const MAX_BYTES: usize = 16 << 20;
/// Largest answer that is kept.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// What an event takes beside its text.
const OVERHEAD_BYTES: usize = 512;
/// The id of events that no answer consists of. A client with this id has missed nothing that is kept.
pub(super) const NOTHING: &str = "0";

/// What was sent lately, to all callers.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    sent: VecDeque<Sent>,
    bytes: usize,
    last_number: u64,
    /// Clients that wait for the rest of a stream.
    waiting: Vec<(Arc<str>, UnboundedSender<ServerSseMessage>)>,
}

#[derive(Debug)]
struct Sent {
    at: Instant,
    number: u64,
    caller: Arc<str>,
    stream: Arc<str>,
    event: ServerSseMessage,
    bytes: usize,
}

impl Sent {
    fn is_of(&self, caller: &str, stream: &str) -> bool {
        *self.stream == *stream && *self.caller == *caller
    }
}

impl Answers {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an event of a stream, sends it to those that wait for it, and returns its id.
    fn keep(&self, caller: &Arc<str>, stream: &str, event: &ServerSseMessage) -> EventId {
        let bytes = OVERHEAD_BYTES + event.message.as_deref().map_or(0, bytes_of);
        let mut kept = self.kept();
        kept.last_number += 1;
        let number = kept.last_number;
        let id = format!("{stream}/{number}");
        let stream: Arc<str> = Arc::from(stream);
        let (at, mut event) = (Instant::now(), event.clone());
        event.event_id = Some(id.clone());
        kept.waiting.retain(|(of, client)| {
            let goes = *of == stream;
            if goes {
                let _ = client.send(event.clone());
            }
            !(client.is_closed() || goes && is_last(&event))
        });
        kept.bytes += bytes;
        kept.sent.push_back(Sent { at, number, caller: Arc::clone(caller), stream, event, bytes });
        kept.prune(at);
        id
    }

    /// What a caller's stream sent after the event with this id, and what it is going to send; `None` if that is not
    /// kept, or was not sent to this caller.
    fn after(&self, caller: &str, id: &str) -> Option<Rest> {
        let (stream, number) = id.rsplit_once('/')?;
        let number: u64 = number.parse().ok()?;
        let mut kept = self.kept();
        kept.prune(Instant::now());
        let (mut is_known, mut is_over, mut missed) = (false, false, VecDeque::new());
        for sent in kept.sent.iter().filter(|sent| sent.is_of(caller, stream)) {
            is_known = true;
            is_over |= is_last(&sent.event);
            if sent.number > number {
                missed.push_back(sent.event.clone());
            }
        }
        if !is_known {
            return None;
        }
        let (client, coming) = unbounded_channel();
        if !is_over {
            kept.waiting.push((Arc::from(stream), client));
        }
        Some(Rest { missed, coming })
    }

    /// Whether a caller's stream that sent the event with this id can be resumed.
    pub(super) fn has(&self, caller: &str, id: &str) -> bool {
        let mut kept = self.kept();
        kept.prune(Instant::now());
        id.rsplit_once('/').is_some_and(|(stream, _)| kept.sent.iter().any(|sent| sent.is_of(caller, stream)))
    }
}

impl Kept {
    /// Drops what is too old or too much, and streams whose answer is too large.
    fn prune(&mut self, now: Instant) {
        if let Some(large) = self.sent.back().filter(|sent| sent.bytes > OVERHEAD_BYTES + MAX_ANSWER_BYTES) {
            let stream = Arc::clone(&large.stream);
            self.sent.retain(|sent| sent.stream != stream);
            self.bytes = self.sent.iter().map(|sent| sent.bytes).sum();
        }
        while let Some(first) = self.sent.front()
            && (self.bytes > MAX_BYTES || now.saturating_duration_since(first.at) > STANDS)
        {
            self.bytes -= first.bytes;
            self.sent.pop_front();
        }
    }
}

/// Whether a stream ends with this event.
fn is_last(event: &ServerSseMessage) -> bool {
    matches!(event.message.as_deref(), Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
}

/// The length of a message as JSON.
fn bytes_of(message: &ServerJsonRpcMessage) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, message).map_or(usize::MAX / 2, |()| count.0)
}

/// The rest of a stream.
struct Rest {
    missed: VecDeque<ServerSseMessage>,
    coming: UnboundedReceiver<ServerSseMessage>,
}

impl Stream for Rest {
    type Item = ServerSseMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.missed.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None => self.coming.poll_recv(context),
        }
    }
}

/// One caller's.
struct Own {
    answers: Arc<Answers>,
    caller: Arc<str>,
}

#[async_trait]
impl EventStore for Own {
    async fn store_event(&self, stream: &str, event: &ServerSseMessage) -> Result<EventId, EventStoreError> {
        // The stream of a whole session, which nothing is sent on that a client has to have.
        if stream.ends_with(":common") {
            return Ok(NOTHING.to_owned());
        }
        Ok(self.answers.keep(&self.caller, stream, event))
    }

    async fn replay_events_after(&self, id: &str) -> Result<EventStream, EventStoreError> {
        match self.answers.after(&self.caller, id) {
            Some(rest) => Ok(Box::pin(rest)),
            None => Err("the events are not kept".into()),
        }
    }
}

/// A caller's sessions, whose streams can be resumed. Requests without a session cannot, so that closing their stream
/// cancels them as their revision of the protocol says: [`SessionManager::event_store`] has none.
pub(super) struct Resumable(LocalSessionManager);

impl Resumable {
    /// Sessions that end after being idle for this long.
    pub(super) fn new(answers: &Arc<Answers>, caller: &Arc<str>, idle: Duration) -> Self {
        let own = Own { answers: Arc::clone(answers), caller: Arc::clone(caller) };
        let mut sessions = LocalSessionManager::default().with_event_store(Arc::new(own));
        sessions.session_config.keep_alive = Some(idle);
        Self(sessions)
    }
}

type Local = LocalSessionManager;
type Sessions<T> = Result<T, <Local as SessionManager>::Error>;

impl SessionManager for Resumable {
    type Error = <Local as SessionManager>::Error;
    type Transport = <Local as SessionManager>::Transport;

    fn create_session(&self) -> impl Future<Output = Sessions<(SessionId, Self::Transport)>> + Send {
        self.0.create_session()
    }

    fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Sessions<ServerJsonRpcMessage>> + Send {
        self.0.initialize_session(id, message)
    }

    fn has_session(&self, id: &SessionId) -> impl Future<Output = Sessions<bool>> + Send {
        self.0.has_session(id)
    }

    fn close_session(&self, id: &SessionId) -> impl Future<Output = Sessions<()>> + Send {
        self.0.close_session(id)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Sessions<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.0.create_stream(id, message).await
    }

    fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Sessions<()>> + Send {
        self.0.accept_message(id, message)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Sessions<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.0.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Sessions<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static> {
        self.0.resume(id, last_event_id).await
    }
}
