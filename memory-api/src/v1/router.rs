//! The routes. They are matched by hand rather than by axum's router, which keeps the parts of a path as owned strings
//! in a map next to the request and boxes a handler for each request. For reading an entry, that costs more than the
//! read itself.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use memory::audit::Auditor;
use memory::{Memory, Policy};
use memory_core::{Error, ErrorKind, Op, Provider as _, ScopeKind};
use serde_json::json;

use super::api::Api;
use super::tools::Tools;
use super::{batch, calls, entries, state};
use crate::body::only;
use crate::boxed::Boxed;
use crate::caller::{Caller, Grant};
use crate::metrics::Metrics;
use crate::recording::Reads;
use crate::refusal;

/// The description of the API. A test keeps it in step with the types.
const DOCUMENT: &str = include_str!("../../../docs/openapi.json");

/// How many parts of a path after `/v1` are looked at: one more than any route has.
const MOST_PARTS: usize = 7;

/// Everything below `/v1`. Cloning shares it.
#[derive(Clone, Debug)]
pub struct V1(Arc<Api>);

impl V1 {
    /// The API of a memory; records each request in this audit.
    pub fn new(memory: Memory, auditor: Option<Arc<Auditor>>, tools: Tools) -> Self {
        Self(Arc::new(Api::new(memory, auditor, tools)))
    }

    /// Whether a path is the API's.
    pub fn owns(path: &str) -> bool {
        path.strip_prefix("/v1/").is_some_and(|rest| !rest.is_empty())
    }

    /// Answers a caller's request. `reads` is told whether it changes anything, if its head does not say. Less frequent
    /// requests are boxed, so that they do not enlarge the others' futures.
    pub fn answer<'a>(
        &'a self,
        caller: Arc<Caller>,
        reads: &'a Reads,
        request: Request,
    ) -> Boxed<'a, Response> {
        Box::pin(self.respond(caller, reads, request))
    }

    /// The same for callers that box it themselves.
    pub(crate) async fn respond(&self, caller: Arc<Caller>, reads: &Reads, request: Request) -> Response {
        let api = &self.0;
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        let path = head.uri.path();
        if !Self::owns(path) || path.contains("//") || path.ends_with('/') {
            return nothing();
        }
        let mut parts = [""; MOST_PARTS];
        let known = parts.iter_mut().zip(path.split('/').skip(2)).map(|(known, part)| *known = part).count();
        let path = parts.get(..known).unwrap_or_default();
        // Ignoring an option that a client relies on would be wrong.
        if head.uri.query().is_some_and(|query| !query.is_empty()) {
            let what = "no route takes a query behind `?`; send arguments and options to /v1/ops/OP, as /v1/openapi.json says";
            return refusal::refused(&Error::invalid(what));
        }
        if head.method != Method::GET
            && let Err(refusal) = plain(headers)
        {
            return refusal;
        }
        match (&head.method, path) {
            (&Method::GET | &Method::HEAD, &["tenants", tenant, kind, id, "entries", key]) => {
                entries::get(api, &caller, [tenant, kind, id, key], headers).await
            }
            (&Method::PUT, &["tenants", tenant, kind, id, "entries", key]) => {
                Box::pin(entries::put(api, caller, [tenant, kind, id, key], headers, body)).await
            }
            (&Method::DELETE, &["tenants", tenant, kind, id, "entries", key]) => {
                Box::pin(entries::delete(api, caller, [tenant, kind, id, key], headers)).await
            }
            (&Method::POST, &["ops", op]) => Box::pin(calls::call(api, caller, op, headers, body)).await,
            (&Method::POST, &["batch"]) => Box::pin(batch::run(api, caller, reads, headers, body)).await,
            (&Method::POST, &["tenants", tenant, "agents", agent, op]) => {
                Box::pin(state::call(api, caller, [tenant, agent, op], headers, body)).await
            }
            (&Method::GET | &Method::HEAD, ["capabilities"]) => capabilities(api, &caller),
            (&Method::GET | &Method::HEAD, ["openapi.json"]) => {
                refusal::json(StatusCode::OK, DOCUMENT.to_owned())
            }
            (_, ["tenants", _, _, _, "entries", _]) => other_method("GET,HEAD,PUT,DELETE"),
            (_, ["ops", _] | ["batch"] | ["tenants", _, "agents", _, _]) => other_method("POST"),
            (_, ["capabilities" | "openapi.json"]) => other_method("GET,HEAD"),
            _ => nothing(),
        }
    }
}

/// Refuses what no route accepts: an encoded body, or two keys for one write.
#[allow(clippy::result_large_err, reason = "it is the answer, and made at once")]
fn plain(headers: &HeaderMap) -> Result<(), Response> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        let error = Error::invalid("bodies are not decoded; send it without `Content-Encoding`");
        return Err(refusal::refused_as(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error));
    }
    let key = only(headers, HeaderName::from_static("idempotency-key"));
    key.map(drop).map_err(|error| refusal::refused(&error))
}

fn nothing() -> Response {
    refusal::refused(&Error::new(ErrorKind::NotFound, "there is no such route; see /v1/openapi.json"))
}

fn other_method(allowed: &'static str) -> Response {
    let error = Error::invalid("this route has other methods, which `Allow` names; see /v1/openapi.json");
    let mut response = refusal::refused_as(StatusCode::METHOD_NOT_ALLOWED, &error);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// What is served to this caller, and by whom.
fn capabilities(api: &Api, caller: &Caller) -> Response {
    let served = caller.capabilities(&api.capabilities);
    let text = json!({ "provider": api.memory.name(), "capabilities": served });
    refusal::json(StatusCode::OK, text.to_string())
}

/// `/v1` without tokens and with every operation allowed, for tests of the crates around this one. Anyone who reaches
/// its socket can read and change everything that the memory serves.
#[doc(hidden)]
pub fn unguarded(memory: Memory) -> Router {
    let policy = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
    let grant = Grant { ops: Some(Op::ALL.iter().copied().collect()), ..Grant::default() };
    let caller = Arc::new(Caller::new("test".into(), grant, &policy, Arc::new(Metrics::default())));
    let v1 = V1::new(memory, None, Tools::default());
    let answer = move |request: Request| async move { v1.answer(caller, &Reads::new(false), request).await };
    Router::new().fallback(answer)
}
