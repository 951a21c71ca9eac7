//! Everything that is served: the gate, the API and the routes beside it, and compression. None is a layer of a router, which
//! would wrap each route in boxes that every request clones.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use memory::audit::Auditor;
use memory::{HealthStatus, Memory};
use memory_core::{Error, ErrorKind, Provider as _};
use memory_listen::{Answering, Limits};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::{Service as _, service_fn};
use tower_http::compression::Compression;
use tower_http::compression::predicate::{Predicate as _, SizeAbove};

use super::body::keeping;
use super::gate::{Admitted, Gate};
use super::mcp::{self, Mcp};
use super::page::{self, Page};
use super::refusal::{refused, refused_as};
use super::v1::V1;

/// Time limit for the store's answer about its health.
const PROBE: Duration = Duration::from_secs(2);
/// How long an answer about health stands: probes, which need no token, cost the store no more than one question in this time.
const STANDS: Duration = Duration::from_secs(1);
/// Smaller replies are not compressed.
const COMPRESSED_BYTES: u16 = 8 << 10;

/// Everything that `memory serve --http` serves. Cloning shares it.
#[doc(hidden)]
#[derive(Clone)]
pub struct Served {
    gate: Arc<Gate>,
    api: V1,
    beside: Router,
}

/// Whether the store answered, and when it was asked; the audit, for its figures.
struct Ready {
    memory: Memory,
    auditor: Option<Arc<Auditor>>,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Served {
    pub(crate) fn new(memory: Memory, api: V1, page: Page, mcp: Arc<Mcp>, gate: Arc<Gate>) -> Self {
        let ready = Arc::new(Ready { memory, auditor: page.beside.auditor.clone(), last: Mutex::default() });
        let beside = Router::new()
            .merge(page::router(page))
            .route("/mcp", any(mcp::handle).with_state(mcp))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readiness).with_state((Arc::clone(&gate), Arc::clone(&ready))))
            .route("/metrics", get(counters).with_state((Arc::clone(&gate), ready)))
            .fallback(unknown)
            .method_not_allowed_fallback(other_method);
        Self { gate, api, beside }
    }

    /// Answers a request of which it is not known where it is from.
    pub async fn answer(&self, request: Request) -> Response {
        self.gate.pass(request, None, |request, admitted| self.route(request, admitted)).await
    }

    /// Serves connections without TLS, as `memory serve --http` does, until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let (_never, stopping) = watch::channel(None);
        self.listen(listener, None, stopping).await;
    }

    /// Serves connections until `stopping` says when the last of them are closed.
    pub(crate) async fn listen(
        self,
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        stopping: watch::Receiver<Option<Instant>>,
    ) {
        let limits = self.gate.limits();
        let limits = Limits {
            connections: limits.max_connections,
            head: limits.header_timeout(),
            pause: limits.request_timeout(),
        };
        memory_listen::serve(listener, tls, Arc::new(self), limits, stopping).await;
    }

    async fn route(&self, mut request: Request, admitted: Admitted) -> Response {
        let Admitted { caller, place, reads, .. } = admitted;
        let mut accepted = HeaderMap::new();
        for value in request.headers().get_all(header::ACCEPT_ENCODING) {
            accepted.append(header::ACCEPT_ENCODING, value.clone());
        }
        let response = match caller {
            Some(caller) if V1::owns(request.uri().path()) => {
                self.api.answer(caller, &reads, request).await.map(|body| keeping(body, place))
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

impl memory_listen::Service for Served {
    fn answer(&self, peer: SocketAddr, request: Request) -> Answering<'_> {
        Box::pin(self.gate.pass(request, Some(peer), |request, admitted| self.route(request, admitted)))
    }

    fn is_draining(&self) -> bool {
        self.gate.is_draining()
    }

    fn open(&self) -> &AtomicI64 {
        &self.gate.metrics().connections
    }
}

async fn readiness(State((gate, ready)): State<(Arc<Gate>, Arc<Ready>)>) -> Response {
    if gate.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response();
    }
    let mut last = ready.last.lock().await;
    let answers = match *last {
        Some((at, answers)) if at.elapsed() < STANDS => answers,
        _ => {
            let health = tokio::time::timeout(PROBE, ready.memory.health()).await;
            let answers = matches!(health, Ok(Ok(health)) if health.status != HealthStatus::Down);
            *last = Some((Instant::now(), answers));
            answers
        }
    };
    if answers {
        "ready\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
    }
}

async fn counters(State((gate, store)): State<(Arc<Gate>, Arc<Ready>)>) -> Response {
    let mut figures = store.memory.figures();
    figures.extend(store.auditor.iter().flat_map(|auditor| auditor.figures()));
    let mut response = gate.metrics().text(&figures).into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn unknown() -> Response {
    refused(&Error::new(ErrorKind::NotFound, "nothing is served at this path; see docs/http.md"))
}

async fn other_method() -> Response {
    let error = Error::invalid("this path has other methods, which `Allow` names");
    refused_as(StatusCode::METHOD_NOT_ALLOWED, &error)
}

/// Whether a reply is compressed for who accepts it. Streams go out at their own pace, and are not held back for that.
fn is_compressed(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
        && SizeAbove::new(COMPRESSED_BYTES).should_compress(response)
}

/// A reply as the client accepts it.
async fn compressed(accepted: HeaderMap, response: Response) -> Response {
    let mut asked = Request::default();
    *asked.headers_mut() = accepted;
    let mut whole = Some(response);
    let service = service_fn(move |_: Request| ready(Ok(whole.take().unwrap_or_default())));
    let answered =
        Compression::new(service).compress_when(SizeAbove::new(COMPRESSED_BYTES)).call(asked).await;
    answered.unwrap_or_else(|never: Infallible| match never {}).map(Body::new)
}
