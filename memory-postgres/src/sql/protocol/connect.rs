//! Connects as a scope's role. The driver negotiates TLS and authenticates; then this crate takes over the stream.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use memory_core::{Error, Result, Retry};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_postgres::CancelToken;
use tokio_postgres::config::Host;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

use super::session::{Duplex, Session};
use crate::connect::{Address, Tls};
use crate::error::{Effect, UNREACHABLE, engine};

/// A session, and the token to cancel its statements.
pub(crate) struct Opened {
    pub(crate) session: Session,
    pub(crate) token: CancelToken,
    /// The server is a standby, which takes no writes.
    pub(crate) is_standby: bool,
}

/// Asks the server to cancel a session's statement, and returns once it has: the server signals the session's process
/// before it closes the connection of the request.
pub(crate) async fn cancel(token: CancelToken, address: Address, tls: Tls, host: usize) -> Result<()> {
    let (stream, name) = reach(&address, host).await.map_err(unreachable)?;
    let bare = Slot::default();
    let stream = bare.put(stream);
    let handshake =
        MakeTlsConnect::<Slot<Bare>>::make_tls_connect(&mut tls.clone(), &name).map_err(unreachable)?;
    token.cancel_query_raw(stream, handshake).await.map_err(|error| engine(&error, Effect::None))?;
    if let Some(mut stream) = bare.take() {
        // A reset connection was closed too.
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    Ok(())
}

/// Connects to one host of an address.
/// Fails with `unavailable`, `unauthenticated`, depending on the server.
pub(crate) fn connect<'a>(
    address: &'a Address,
    tls: &'a Tls,
    host: usize,
) -> Pin<Box<dyn Future<Output = Result<Opened>> + Send + 'a>> {
    Box::pin(connect_to(address, tls, host))
}

async fn connect_to(address: &Address, tls: &Tls, host: usize) -> Result<Opened> {
    let mut config = address.driver(host);
    if let crate::connect::Password::Given(password) = &address.password {
        config.password(password);
    }
    let (stream, name) = reach(address, host).await.map_err(unreachable)?;
    let bare = Slot::default();
    let stream = bare.put(stream);
    let covered = Slot::default();
    let handshake =
        MakeTlsConnect::<Slot<Bare>>::make_tls_connect(&mut tls.clone(), &name).map_err(unreachable)?;
    let (client, connection) = config
        .connect_raw(stream, Taken { inner: handshake, slot: covered.clone() })
        .await
        .map_err(|error| engine(&error, Effect::None))?;
    // Dropped only after the stream was taken out; otherwise they would send Terminate.
    let stream: Option<Box<dyn Duplex>> = match covered.take() {
        Some(stream) => Some(Box::new(stream)),
        None => bare.take().map(|stream| Box::new(stream) as Box<dyn Duplex>),
    };
    let token = client.cancel_token();
    let is_standby = connection.parameter("in_hot_standby") == Some("on");
    drop((client, connection));
    let stream = stream.ok_or_else(|| Error::internal("a stream was lost while connecting"))?;
    Ok(Opened { session: Session::new(stream), token, is_standby })
}

fn unreachable(error: io::Error) -> Error {
    Error::unavailable(UNREACHABLE).with_retry(Retry::Now).with_source(error)
}

/// A stream to a host, and the name expected in its certificate.
async fn reach(address: &Address, host: usize) -> io::Result<(Bare, String)> {
    let nowhere = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let Some((name, ip, port)) = address.hosts.get(host) else { return Err(nowhere()) };
    #[cfg(unix)]
    if let Some(Host::Unix(folder)) = name {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let stream = UnixStream::connect(path).await?;
        return Ok((Bare::Unix(stream), "localhost".to_owned()));
    }
    let name = match name {
        Some(Host::Tcp(name)) => name.clone(),
        _ => ip.map(|ip| ip.to_string()).unwrap_or_default(),
    };
    let places: Vec<SocketAddr> = match ip {
        Some(ip) => vec![SocketAddr::new(*ip, *port)],
        None => lookup_host((name.clone(), *port)).await?.collect(),
    };
    let mut last = nowhere();
    for place in places {
        let socket = if place.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_nodelay(true)?;
        socket.set_keepalive(true)?;
        match socket.connect(place).await {
            Ok(stream) => return Ok((Bare::Tcp(stream), name)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A stream without TLS. An enum, because a future holding a boxed trait object here cannot be proved `Send`.
enum Bare {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl AsyncRead for Bare {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Bare {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A slot for a stream that the driver uses while connecting, and that is then taken out of it.
struct Slot<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, stream: T) -> Self {
        *self.lock() = Some(stream);
        self.clone()
    }

    fn take(&self) -> Option<T> {
        self.lock().take()
    }
}

impl<T: Unpin> Slot<T> {
    fn with<R>(&self, act: impl FnOnce(Pin<&mut T>) -> Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        match self.lock().as_mut() {
            Some(stream) => act(Pin::new(stream)),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Slot<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_read(cx, buffer))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Slot<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|stream| stream.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|stream| stream.poll_shutdown(cx))
    }
}

impl<T: TlsStream + Unpin> TlsStream for Slot<T> {
    fn channel_binding(&self) -> ChannelBinding {
        self.lock().as_ref().map_or_else(ChannelBinding::none, TlsStream::channel_binding)
    }
}

/// A TLS handshake whose stream ends up in a slot.
struct Taken<C, T> {
    inner: C,
    slot: Slot<T>,
}

type Shaking<T, E> = Pin<Box<dyn Future<Output = std::result::Result<Slot<T>, E>> + Send>>;

impl<S, C> TlsConnect<S> for Taken<C, C::Stream>
where
    C: TlsConnect<S>,
    C::Future: Send + 'static,
    C::Stream: Send + 'static,
{
    type Stream = Slot<C::Stream>;
    type Error = C::Error;
    type Future = Shaking<C::Stream, C::Error>;

    fn connect(self, stream: S) -> Self::Future {
        let (shaking, slot) = (self.inner.connect(stream), self.slot);
        Box::pin(async move { shaking.await.map(|stream| slot.put(stream)) })
    }
}
