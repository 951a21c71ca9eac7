//! What is served besides the API: the page, MCP, health and metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use memory::audit::Auditor;
use memory::{HealthStatus, Memory};
use memory_api::{Gate, Resource, json, refused, refused_as};
use memory_core::{Error, ErrorKind, Provider as _};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::mcp::{self, Mcp};
use super::page::{self, Page};

/// Time limit for the store's answer about its health.
const PROBE: Duration = Duration::from_secs(2);
/// How long a health answer stays valid. Probes need no token, so they must not cost the store more than one query in
/// this time.
const STANDS: Duration = Duration::from_secs(1);

/// Whether the store answered, and when it was asked; the auditor, for its metrics.
struct Ready {
    memory: Memory,
    auditor: Option<Arc<Auditor>>,
    last: Mutex<Option<(Instant, bool)>>,
}

/// The routes of everything but the API.
pub(crate) fn beside(
    memory: Memory,
    page: Page,
    mcp: Arc<Mcp>,
    gate: Arc<Gate>,
    resource: Option<&Resource>,
) -> Router {
    let ready = Arc::new(Ready { memory, auditor: page.beside.auditor.clone(), last: Mutex::default() });
    let mut router = Router::new();
    if let Some(Resource { path, document, .. }) = resource {
        let document = document.clone();
        router = router.route(path, get(move || async move { json(StatusCode::OK, document) }));
    }
    router
        .merge(page::router(page))
        .route("/mcp", any(mcp::handle).with_state(mcp))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness).with_state((Arc::clone(&gate), Arc::clone(&ready))))
        .route("/metrics", get(counters).with_state((gate, ready)))
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
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
