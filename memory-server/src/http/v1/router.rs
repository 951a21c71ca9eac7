//! The routes.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{any, get, post};
use memory::audit::Auditor;
use memory::{Memory, Policy};
use memory_core::{Error, ErrorKind, Op, Provider as _, ScopeKind};
use serde_json::json;

use super::api::Api;
use super::tools::Tools;
use super::{batch, calls, entries, state};
use crate::http::caller::{Caller, Grant};
use crate::http::metrics::Metrics;
use crate::http::refusal::{self, refused};

/// The description of the API. A test keeps it as the types are.
const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

/// The routes of `/v1`. They expect an `Arc<Caller>` in the request's extensions, and record each request in this audit.
pub(crate) fn router(memory: Memory, auditor: Option<Arc<Auditor>>, tools: Tools) -> Router {
    Router::new()
        .route("/v1/capabilities", get(capabilities))
        .route("/v1/openapi.json", get(async || refusal::json(StatusCode::OK, DOCUMENT.to_owned())))
        .route("/v1/ops/{op}", post(calls::call))
        .route("/v1/batch", post(batch::run))
        .route(
            "/v1/tenants/{tenant}/{kind}/{id}/entries/{key}",
            get(entries::get).put(entries::put).delete(entries::delete),
        )
        .route("/v1/tenants/{tenant}/agents/{agent}/{op}", post(state::call))
        .route(
            "/v1/{*other}",
            any(async || nothing("there is no such route; see /v1/openapi.json", StatusCode::NOT_FOUND)),
        )
        .method_not_allowed_fallback(async || {
            nothing("this route has another method; see /v1/openapi.json", StatusCode::METHOD_NOT_ALLOWED)
        })
        .with_state(Arc::new(Api::new(memory, auditor, tools)))
}

fn nothing(message: &'static str, status: StatusCode) -> Response {
    refusal::refused_as(status, &Error::new(ErrorKind::NotFound, message))
}

/// What is served, and by whom.
async fn capabilities(State(api): State<Arc<Api>>) -> Response {
    let text = json!({ "provider": api.memory.name(), "capabilities": api.capabilities });
    refusal::json(StatusCode::OK, text.to_string())
}

/// `/v1` without tokens, every operation allowed: for tests of the crates around this one. Whoever reaches its socket
/// reads and changes everything that the memory serves.
#[doc(hidden)]
pub fn unguarded(memory: Memory) -> Router {
    let policy = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
    let grant = Grant { ops: Some(Op::ALL.iter().copied().collect()), ..Grant::default() };
    let caller = Arc::new(Caller::new("test".into(), grant, &policy, Arc::new(Metrics::default())));
    router(memory, None, Tools::default())
        .layer(axum::Extension(caller))
        .fallback(async || refused(&Error::new(ErrorKind::NotFound, "the API is under /v1")))
}
