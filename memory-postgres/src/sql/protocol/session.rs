//! Sends and receives messages, with limits: no message may make a session use more memory than allowed.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, BufMut as _, BytesMut};
use postgres_protocol::message::backend::{COPY_DATA_TAG, DATA_ROW_TAG, Header, Message};
use postgres_protocol::message::frontend::{self, BindError};
use postgres_protocol::{IsNull, Oid};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::messages::Reply;
use super::prepared::Named;

/// A tag and a length.
const HEADER_BYTES: usize = 5;
/// Longest message other than a row.
const LONGEST: usize = 16 << 20;
/// Bytes of buffers to keep between two calls.
const KEPT: usize = 256 << 10;

/// Resets everything an agent left in a session, including the server's prepared statements.
pub(crate) const FORGET: &str = "DISCARD ALL";

/// A stream of bytes both ways.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// The session is no longer usable.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The connection broke.
    Broken(io::Error),
    /// The server ended it, with this SQLSTATE.
    Ended(String),
    /// The server violated the protocol.
    ProtocolViolation,
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

/// A session of a scope's role. Requests are buffered until [`flush`](Self::flush).
pub(crate) struct Session {
    stream: Box<dyn Duplex>,
    incoming: BytesMut,
    outgoing: BytesMut,
    /// Why a buffered request cannot be sent.
    unsendable: Option<io::Error>,
    /// Bytes of a long row still to be discarded.
    skip: usize,
    /// The server's process; 0 until it is known.
    pub(crate) pid: Arc<AtomicI32>,
    /// Whether the query for the process is pending.
    pub(crate) asks_pid: bool,
    /// Pending answers that nobody waits for.
    pub(crate) unread: u32,
    /// Whether positions of sequences may come from an earlier statement.
    pub(crate) moved: bool,
    /// The generation of its database.
    pub(crate) generation: i64,
    /// The number of the definitions under which agents' statements were prepared; `None` if unknown.
    definitions: Option<i64>,
    /// Statements that the server has parsed and keeps.
    pub(crate) named: Named,
    canceller: Option<Arc<Canceller>>,
    /// The last cancel request.
    cancelling: Option<JoinHandle<bool>>,
}

/// Ends a session's statement over another connection.
pub(crate) trait Ending: Send + Sync {
    /// Has the server cancel the session's statement. `false`: it may still do so later.
    fn cancel(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;

    /// Asks the server to end the session's process.
    fn end(&self, pid: i32) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

type Canceller = Box<dyn Ending>;

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(stream: Box<dyn Duplex>) -> Self {
        Self {
            stream,
            incoming: BytesMut::with_capacity(8 << 10),
            outgoing: BytesMut::with_capacity(4 << 10),
            unsendable: None,
            skip: 0,
            pid: Arc::default(),
            asks_pid: false,
            unread: 0,
            moved: false,
            generation: 0,
            definitions: None,
            named: Named::default(),
            canceller: None,
            cancelling: None,
        }
    }

    pub(crate) fn set_ending(&mut self, ending: Box<dyn Ending>) {
        self.canceller = Some(Arc::new(ending));
    }

    /// Makes the server cancel the running statement; does not wait.
    pub(crate) fn ask_to_cancel(&mut self) {
        if let Some(canceller) = self.canceller.clone() {
            self.cancelling = Some(tokio::spawn(async move { canceller.cancel().await }));
        }
    }

    /// Waits until no earlier cancel request can hit what is sent next. Returns false if one still may. The server
    /// ignores a request that finds the session idle.
    pub(crate) async fn is_past_cancelling(&mut self) -> bool {
        match self.cancelling.take() {
            Some(cancelling) => cancelling.await.unwrap_or(false),
            None => true,
        }
    }

    /// Makes the server end the session's process; does not wait.
    pub(crate) fn ask_to_end(&self) {
        let pid = self.pid.load(Ordering::Acquire);
        if let Some(canceller) = self.canceller.clone() {
            tokio::spawn(async move {
                if pid > 0 {
                    canceller.end(pid).await;
                } else {
                    let _ = canceller.cancel().await;
                }
            });
        }
    }

    /// Appends a message. If it cannot be encoded, it is left out and the next [`flush`](Self::flush) fails.
    fn write(&mut self, message: impl FnOnce(&mut BytesMut) -> io::Result<()>) {
        let start = self.outgoing.len();
        if let Err(error) = message(&mut self.outgoing) {
            self.outgoing.truncate(start);
            self.unsendable.get_or_insert(error);
        }
    }

    /// The runtime's own statements, in the simple protocol; answered by one `Ready`.
    pub(crate) fn query(&mut self, sql: &str) {
        self.write(|out| frontend::query(before_nul(sql), out));
        self.named.sent_end();
        if sql == FORGET {
            self.named.forget();
            self.moved = false;
        }
    }

    pub(crate) fn definitions(&self) -> Option<i64> {
        self.definitions
    }

    /// Notes the number of the scope's definitions. The types of a prepared statement's arguments are those that the
    /// server found when it parsed it: after another definition it must be parsed again.
    pub(crate) fn note_definitions(&mut self, number: Option<i64>) {
        if self.definitions != number {
            self.definitions = number;
            for gone in self.named.forget_agents() {
                self.write(|out| frontend::close(b'S', &gone, out));
            }
        }
    }

    /// One statement: the extended protocol accepts no second one in the text.
    pub(crate) fn parse(&mut self, sql: &str, types: &[Oid]) {
        self.parse_as("", sql, types);
        self.named.sent_unnamed();
    }

    fn parse_as(&mut self, name: &str, sql: &str, types: &[Oid]) {
        self.write(|out| frontend::parse(name, before_nul(sql), types.iter().copied(), out));
    }

    /// Binds values to a prepared statement, which is parsed if the server does not know it yet.
    pub(crate) fn bind_kept(&mut self, sql: &Arc<str>, types: &[Oid], values: &[Option<Vec<u8>>]) {
        let name = match self.named.find(sql, types) {
            Some(name) => name,
            None => {
                let (name, gone) = self.named.enter(sql, types);
                if let Some(gone) = gone {
                    self.write(|out| frontend::close(b'S', &gone, out));
                }
                self.parse_as(&name, sql, types);
                name
            }
        };
        self.bind_to("", &name, values);
    }

    /// Runs one of the runtime's own prepared statements.
    pub(crate) fn own(&mut self, sql: &'static str, types: &[Oid], values: &[Option<Vec<u8>>]) {
        self.own_in("", sql, types, values);
    }

    /// The same between [`bind`](Self::bind) and [`execute`](Self::execute) of another statement, which stays bound.
    pub(crate) fn own_aside(&mut self, sql: &'static str, types: &[Oid], values: &[Option<Vec<u8>>]) {
        const ASIDE: &str = "mem_aside";
        self.own_in(ASIDE, sql, types, values);
        self.write(|out| frontend::close(b'P', ASIDE, out));
    }

    fn own_in(&mut self, portal: &str, sql: &'static str, types: &[Oid], values: &[Option<Vec<u8>>]) {
        let name = match self.named.find_own(sql) {
            Some(name) => name,
            None => {
                let name = self.named.enter_own(sql);
                self.parse_as(&name, sql, types);
                name
            }
        };
        self.bind_to(portal, &name, values);
        self.write(|out| frontend::execute(portal, 0, out));
    }

    /// Asks for the types of the parameters and columns.
    pub(crate) fn describe_statement(&mut self) {
        self.write(|out| frontend::describe(b'S', "", out));
    }

    /// Asks for the columns.
    pub(crate) fn describe_portal(&mut self) {
        self.write(|out| frontend::describe(b'P', "", out));
    }

    /// Binds values as texts, with results as texts.
    pub(crate) fn bind(&mut self, values: &[Option<Vec<u8>>]) {
        self.bind_to("", "", values);
    }

    fn bind_to(&mut self, portal: &str, statement: &str, values: &[Option<Vec<u8>>]) {
        let texts = std::iter::empty::<i16>;
        let value = |value: &Option<Vec<u8>>, out: &mut BytesMut| {
            let Some(bytes) = value else { return Ok(IsNull::Yes) };
            out.put_slice(bytes);
            Ok(IsNull::No)
        };
        self.write(|out| {
            frontend::bind(portal, statement, texts(), values, value, texts(), out).map_err(|error| {
                match error {
                    BindError::Conversion(error) => io::Error::other(error),
                    BindError::Serialization(error) => error,
                }
            })
        });
    }

    /// Runs the bound statement, up to this many rows; 0 for all.
    pub(crate) fn execute(&mut self, rows: i32) {
        self.write(|out| frontend::execute("", rows, out));
    }

    /// Ends a chain of parse, bind and execute; answered by one `Ready`.
    pub(crate) fn sync(&mut self) {
        frontend::sync(&mut self.outgoing);
        self.named.sent_end();
    }

    /// Refuses to send the data that the server waits for.
    pub(crate) fn copy_fail(&mut self) {
        self.write(|out| frontend::copy_fail("nothing is copied here", out));
    }

    /// Ends the session.
    pub(crate) fn terminate(&mut self) {
        frontend::terminate(&mut self.outgoing);
    }

    /// Sends the buffered requests. Fails if the connection broke or a message is too large.
    pub(crate) async fn flush(&mut self) -> Result<(), Lost> {
        if let Some(error) = self.unsendable.take() {
            return Err(Lost::Broken(error));
        }
        self.stream.write_all(&self.outgoing).await?;
        self.stream.flush().await?;
        self.outgoing.clear();
        if self.outgoing.capacity() > KEPT {
            self.outgoing = BytesMut::with_capacity(4 << 10);
        }
        Ok(())
    }

    /// Reads what arrived while idle; returns whether the session is usable. So a session that the server ended is
    /// noticed before anything is sent.
    pub(crate) fn is_sound(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            self.incoming.reserve(8 << 10);
            let reading = pin!(self.stream.read_buf(&mut self.incoming));
            match reading.poll(&mut context) {
                Poll::Pending => break,
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return false,
            }
        }
        loop {
            match self.take(0) {
                Ok(None) => return true,
                Ok(Some(Reply::Fault(_))) | Err(_) => return false,
                Ok(Some(Reply::Ready(_))) => match self.unread.checked_sub(1) {
                    Some(left) => self.unread = left,
                    None => return false,
                },
                Ok(Some(_)) => {}
            }
        }
    }

    /// The next message. Rows longer than `longest` bytes are discarded while they arrive. May be dropped and called
    /// again. Fails if the connection broke or the server violated the protocol.
    pub(crate) async fn next(&mut self, longest: usize) -> Result<Reply, Lost> {
        loop {
            if let Some(reply) = self.take(longest)? {
                return Ok(reply);
            }
            if self.incoming.is_empty() && self.incoming.capacity() > KEPT {
                self.incoming = BytesMut::with_capacity(8 << 10);
            }
            self.incoming.reserve(8 << 10);
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(Lost::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// A complete message, if one has arrived. Rows longer than `longest` bytes are discarded. Fails if the server
    /// violated the protocol.
    pub(crate) fn take(&mut self, longest: usize) -> Result<Option<Reply>, Lost> {
        if self.skip > 0 {
            let gone = self.skip.min(self.incoming.len());
            self.incoming.advance(gone);
            self.skip -= gone;
            return Ok((self.skip == 0).then_some(Reply::LongRow));
        }
        let header = Header::parse(&self.incoming).map_err(|_| Lost::ProtocolViolation)?;
        let Some(header) = header else { return Ok(None) };
        // The length includes itself.
        let body = usize::try_from(header.len()).unwrap_or_default().saturating_sub(4);
        let is_row = matches!(header.tag(), DATA_ROW_TAG | COPY_DATA_TAG);
        if is_row && body > longest {
            self.incoming.advance(HEADER_BYTES);
            self.skip = body;
            return self.take(longest);
        }
        if !is_row && body > LONGEST {
            return Err(Lost::ProtocolViolation);
        }
        // Checked first, because the decoder allocates whatever length the server claims.
        let message = Message::parse(&mut self.incoming).map_err(|_| Lost::ProtocolViolation)?;
        let Some(message) = message else { return Ok(None) };
        let reply = Reply::try_from(message).map_err(|_| Lost::ProtocolViolation)?;
        match reply {
            Reply::Parsed => self.named.parsed(),
            Reply::Ready(_) => self.named.ended(),
            _ => {}
        }
        Ok(Some(reply))
    }
}

/// The text up to its first NUL: the protocol ends texts with one, and cannot send what follows.
fn before_nul(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Session, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        (Session::new(Box::new(ours)), theirs)
    }

    #[tokio::test]
    async fn a_long_row_is_discarded_while_it_arrives() {
        let (mut session, mut server) = pair();
        let send = tokio::spawn(async move {
            server.write_all(&[b'D', 0, 0x10, 0, 4]).await.unwrap();
            for _ in 0..16 {
                server.write_all(&vec![7; 1 << 16]).await.unwrap();
            }
            server.write_all(b"Z\x00\x00\x00\x05T").await.unwrap();
            server
        });
        assert!(matches!(session.next(1_000).await.unwrap(), Reply::LongRow));
        assert!(session.incoming.capacity() < 1 << 18);
        assert!(matches!(session.next(1_000).await.unwrap(), Reply::Ready(b'T')));
        drop(send.await.unwrap());
        assert!(matches!(session.next(1_000).await, Err(Lost::Broken(_))));
    }

    #[tokio::test]
    async fn messages_to_an_idle_session_are_read_and_its_end_is_noticed() {
        let (mut session, mut server) = pair();
        session.unread = 1;
        assert!(session.is_sound() && session.unread == 1);
        server.write_all(b"C\x00\x00\x00\x0dROLLBACK\0Z\x00\x00\x00\x05I").await.unwrap();
        assert!(session.is_sound() && session.unread == 0);
        server.write_all(b"E\x00\x00\x00\x13VFATAL\0C57P01\0\0").await.unwrap();
        assert!(!session.is_sound());
        let (mut session, server) = pair();
        drop(server);
        assert!(!session.is_sound());
    }

    #[tokio::test]
    async fn protocol_violations_are_reported() {
        for nonsense in [&b"Z\x00\x00\x00\x00"[..], b"E\x7f\xff\xff\xff", b"T\x00\x00\x00\x05a"] {
            let (mut session, mut server) = pair();
            server.write_all(nonsense).await.unwrap();
            assert!(matches!(session.next(1_000).await, Err(Lost::ProtocolViolation)), "{nonsense:?}");
        }
    }

    #[tokio::test]
    async fn a_nul_ends_a_text() {
        let (mut session, mut server) = pair();
        session.query("SELECT 1\0; DROP TABLE t");
        session.flush().await.unwrap();
        let mut sent = [0; 14];
        server.read_exact(&mut sent).await.unwrap();
        assert_eq!(&sent, b"Q\x00\x00\x00\x0dSELECT 1\0");
    }
}
