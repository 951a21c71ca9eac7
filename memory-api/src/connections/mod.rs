//! Connections of an HTTP server: how many, how long they may be silent, TLS, and how they end.

mod unread;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use memory_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use unread::Taken;

use crate::boxed::Boxed;

/// Bytes of a request's head.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Headers of a request.
const MAX_HEADERS: usize = 100;
/// How long to pause when the system could not accept, for instance because no file is left.
const REST: Duration = Duration::from_millis(100);

/// Files reserved for the store and for outgoing connections.
const OTHER_FILES: u64 = 128;

/// What connections are for.
pub(crate) trait Service: Send + Sync + 'static {
    /// Answers a request from this address.
    fn answer(&self, peer: SocketAddr, request: Request) -> Boxed<'_, Response>;

    /// Whether each connection ends after its next answer.
    fn is_draining(&self) -> bool;

    /// The counter of open connections.
    fn open(&self) -> &AtomicI64;
}

/// Limits of a server's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Open at a time.
    pub connections: usize,
    /// For a request's head, and for the TLS handshake.
    pub head: Duration,
    /// How long a client may read nothing of an answer.
    pub pause: Duration,
}

/// Lets the process open a file for each connection. If the system allows fewer, lowers the number of connections and
/// returns a message saying so: without a file left, not even tokens could be checked.
pub fn fit(connections: &mut usize) -> Option<String> {
    fit_within(connections, files)
}

fn fit_within(connections: &mut usize, files: impl FnOnce(u64) -> Option<u64>) -> Option<String> {
    let wanted = u64::try_from(*connections).unwrap_or(u64::MAX).saturating_add(OTHER_FILES);
    let allowed = files(wanted).filter(|allowed| *allowed < wanted)?;
    let most = usize::try_from(allowed.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    let told = format!(
        "the system allows {allowed} open files, so `max_connections` is {most} in place of {connections}; raise the \
         limit of files (ulimit -n, LimitNOFILE of systemd), or set it so under [http]"
    );
    *connections = most;
    Some(told)
}

/// The limit of open files, raised to `wanted` if possible; `None` if there is none or it is unknown.
#[cfg(unix)]
fn files(wanted: u64) -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let now = limit.current?;
    let raised = limit.maximum.map_or(wanted, |most| most.min(wanted));
    if raised <= now {
        return Some(now);
    }
    limit.current = Some(raised);
    Some(if setrlimit(Resource::Nofile, limit).is_ok() { raised } else { now })
}

#[cfg(not(unix))]
fn files(_: u64) -> Option<u64> {
    None
}

/// TLS with this certificate chain and key.
///
/// # Errors
/// `invalid_argument` if one cannot be read or they do not belong together.
pub fn tls(chain: &Path, key: &Path) -> Result<TlsAcceptor> {
    let unread = |what: &'static str, path: &Path| {
        let text = format!("{what} {} cannot be read as PEM; see the cause", path.display());
        move |error: rustls::pki_types::pem::Error| Error::invalid(text).with_source(error)
    };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect)
        .map_err(unread("the certificate", chain))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(unread("the key", key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, secret))
        .map_err(|error| {
            Error::invalid("certificate and key do not serve TLS; see the cause").with_source(error)
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until `stopping` gives the time at which the last of them are closed; until then, requests in
/// flight are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: Arc<dyn Service>,
    limits: Limits,
    mut stopping: watch::Receiver<Option<Instant>>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = next(&listener, &places) => accepted,
            _ = stopping.wait_for(Option::is_some) => break,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((place, stream, peer)) = accepted else {
            tokio::time::sleep(REST).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (tls, service, stopping) = (tls.clone(), Arc::clone(&service), stopping.clone());
        connections.spawn(async move {
            let open = Open::new(service.open());
            match tls {
                None => converse(stream, peer, &*service, limits, stopping).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(limits.head, tls.accept(stream)).await {
                        converse(stream, peer, &*service, limits, stopping).await;
                    }
                }
            }
            drop((open, place));
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let closing = stopping.borrow().unwrap_or_else(Instant::now);
    // Whatever is still open then is cut off.
    let _ = tokio::time::timeout_at(closing, all).await;
}

/// The next connection, once there is a place for it. Until then it waits in the system's queue: if it were accepted
/// and closed, a client that has sent a write would not know what became of it.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((place, stream, peer))
}

/// Serves one connection.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    service: &dyn Service,
    limits: Limits,
    mut stopping: watch::Receiver<Option<Instant>>,
) {
    let answer = service_fn(move |request: hyper::Request<Incoming>| async move {
        let mut response = service.answer(peer, request.map(Body::new)).await;
        if service.is_draining() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok::<_, Infallible>(response)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(Taken::new(stream, limits.pause)), answer);
    let mut connection = pin!(connection);
    tokio::select! {
        // A client that breaks the protocol or goes away is not worth a message.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(Option::is_some) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Counts a connection while it is open.
struct Open<'a>(&'a AtomicI64);

impl<'a> Open<'a> {
    fn new(open: &'a AtomicI64) -> Self {
        open.fetch_add(1, Relaxed);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest() {
        for (allowed, most) in [(None, 1_000), (Some(1_128), 1_000), (Some(1_127), 999), (Some(100), 1)] {
            let mut connections = 1_000;
            let told = fit_within(&mut connections, |wanted| {
                assert_eq!(wanted, 1_128);
                allowed
            });
            assert_eq!((connections, told.is_some()), (most, most < 1_000), "{allowed:?}");
        }
    }
}
