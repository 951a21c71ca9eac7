//! Everything that is served: the gate, the API, the routes next to it, and compression. None of it is a router's
//! layer, because that would wrap each route in boxes that every request clones.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::{Service as _, service_fn};
use tower_http::compression::Compression;
use tower_http::compression::predicate::{Predicate as _, SizeAbove};

use crate::body::keeping;
use crate::boxed::Boxed;
use crate::connections::{self, Limits, Service};
use crate::gate::{Admitted, Gate};
use crate::v1::V1;

/// Smaller replies are not compressed.
const COMPRESSED_BYTES: u16 = 8 << 10;

/// Everything that `memory serve --http` serves. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Served {
    gate: Arc<Gate>,
    api: V1,
    beside: Router,
}

impl Served {
    /// Serves the API, and next to it what this router answers. The router finds the request's [`Place`](crate::Place),
    /// and its [`Caller`](crate::Caller) if it has one, among the request's extensions.
    #[must_use]
    pub fn new(gate: Arc<Gate>, api: V1, beside: Router) -> Self {
        Self { gate, api, beside }
    }

    /// Answers a request from an unknown address.
    pub fn answer(&self, request: Request) -> Boxed<'_, Response> {
        Box::pin(self.gate.pass(request, None, |request, admitted| self.route(request, admitted)))
    }

    /// Serves connections without TLS, as `memory serve --http` does, until the future is dropped.
    pub fn serve(self, listener: TcpListener) -> Boxed<'static, ()> {
        Box::pin(async move {
            let (_never, stopping) = watch::channel(None);
            self.listen(listener, None, stopping).await;
        })
    }

    /// Serves connections until `stopping` gives the time at which the last of them are closed.
    pub fn listen(
        self,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        stopping: watch::Receiver<Option<Instant>>,
    ) -> Boxed<'static, ()> {
        let limits = self.gate.limits();
        let limits = Limits {
            connections: limits.max_connections,
            head: limits.header_timeout(),
            pause: limits.request_timeout(),
        };
        Box::pin(connections::serve(listener, tls, Arc::new(self), limits, stopping))
    }

    async fn route(&self, mut request: Request, admitted: Admitted) -> Response {
        let Admitted { caller, place, reads, .. } = admitted;
        let mut accepted = HeaderMap::new();
        for value in request.headers().get_all(header::ACCEPT_ENCODING) {
            accepted.append(header::ACCEPT_ENCODING, value.clone());
        }
        let response = match caller {
            Some(caller) if V1::owns(request.uri().path()) => {
                self.api.respond(caller, &reads, request).await.map(|body| keeping(body, place))
            }
            caller => {
                let extensions = request.extensions_mut();
                extensions.insert(place);
                if let Some(caller) = caller {
                    extensions.insert(caller);
                }
                let answered: Result<_, Infallible> = Box::pin(self.beside.clone().call(request)).await;
                answered.unwrap_or_else(|never| match never {})
            }
        };
        if is_compressed(&response) { Box::pin(compressed(accepted, response)).await } else { response }
    }
}

impl Service for Served {
    fn answer(&self, peer: SocketAddr, request: Request) -> Boxed<'_, Response> {
        Box::pin(self.gate.pass(request, Some(peer), |request, admitted| self.route(request, admitted)))
    }

    fn is_draining(&self) -> bool {
        self.gate.is_draining()
    }

    fn open(&self) -> &AtomicI64 {
        &self.gate.metrics().connections
    }
}

/// Whether a reply is compressed for clients that accept it. Streams go out at their own pace and must not be held
/// back.
fn is_compressed(response: &Response) -> bool {
    SizeAbove::new(COMPRESSED_BYTES).should_compress(response)
        && response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
}

/// A reply in an encoding that the client accepts.
async fn compressed(accepted: HeaderMap, response: Response) -> Response {
    let mut asked = Request::default();
    *asked.headers_mut() = accepted;
    let mut whole = Some(response);
    let service = service_fn(move |_: Request| ready(Ok(whole.take().unwrap_or_default())));
    let answered =
        Compression::new(service).compress_when(SizeAbove::new(COMPRESSED_BYTES)).call(asked).await;
    answered.unwrap_or_else(|never: Infallible| match never {}).map(Body::new)
}
