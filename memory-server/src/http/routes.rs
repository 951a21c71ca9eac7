//! Everything that is served, as one service: the gate, compression, and the routes. Neither is a layer of the router, which
//! would wrap each route in boxes that every request clones.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use memory::{HealthStatus, Memory};
use memory_core::{Error, ErrorKind, Provider as _};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower_http::compression::Compression;
use tower_http::compression::predicate::{And, Predicate as _, SizeAbove};

use super::gate::Gate;
use super::mcp::{self, Mcp};
use super::page::{self, Page};
use super::refusal::{refused, refused_as};

/// Time limit for the store's answer about its health.
const PROBE: Duration = Duration::from_secs(2);
/// How long an answer about health stands: probes, which need no token, cost the store no more than one question in this time.
const STANDS: Duration = Duration::from_secs(1);
/// Smaller replies are not compressed.
const COMPRESSED_BYTES: u16 = 8 << 10;

type WholeJson = fn(StatusCode, Version, &HeaderMap, &Extensions) -> bool;

/// Everything that `memory serve --http` serves. Cloning shares it.
#[doc(hidden)]
#[derive(Clone)]
pub struct Served {
    gate: Arc<Gate>,
    routes: TowerToHyperService<Compression<Router, And<SizeAbove, WholeJson>>>,
}

/// Whether the store answered, and when it was asked.
struct Ready {
    memory: Memory,
    last: Mutex<Option<(Instant, bool)>>,
}

impl Served {
    pub(crate) fn new(memory: Memory, api: Router, page: Page, mcp: Arc<Mcp>, gate: Arc<Gate>) -> Self {
        let ready = Arc::new(Ready { memory, last: Mutex::default() });
        let routes = Router::new()
            .merge(api)
            .merge(page::router(page))
            .route("/mcp", any(mcp::handle).with_state(mcp))
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(readiness).with_state(ready))
            .route("/metrics", get(counters).with_state(Arc::clone(&gate)))
            .fallback(unknown)
            .method_not_allowed_fallback(other_method);
        let compressed = SizeAbove::new(COMPRESSED_BYTES).and(is_whole_json as WholeJson);
        let routes = Compression::new(routes).compress_when(compressed);
        Self { gate, routes: TowerToHyperService::new(routes) }
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request) -> Response {
        let next = |request| {
            let answered = self.routes.call(request);
            async {
                let answered: Result<_, Infallible> = answered.await;
                answered.unwrap_or_else(|never| match never {}).map(Body::new)
            }
        };
        self.gate.pass(request, next).await
    }
}

async fn readiness(State(ready): State<Arc<Ready>>) -> Response {
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

async fn counters(State(gate): State<Arc<Gate>>) -> Response {
    let mut response = gate.metrics().text().into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

async fn unknown() -> Response {
    refused(&Error::new(ErrorKind::NotFound, "nothing is served at this path; see docs/http.md"))
}

async fn other_method() -> Response {
    let error = Error::new(ErrorKind::NotFound, "this path has another method; see docs/http.md");
    refused_as(StatusCode::METHOD_NOT_ALLOWED, &error)
}

/// Streams go out at their own pace, and are not held back to be compressed.
fn is_whole_json(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json")
}
