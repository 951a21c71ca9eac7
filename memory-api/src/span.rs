//! The span of a request.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use memory_core::Op;
use tracing::Span;
use tracing::field::Empty;

use crate::metrics::Route;

/// Begins it. Its name contains no part of the path that a tenant chooses; `op` is the operation that the path names.
pub(super) fn of(request: &Request, route: Route, op: impl Fn() -> Option<Op>) -> Span {
    // Computed only if somebody records the span.
    let route = || op().map_or_else(|| route.path().to_owned(), |op| format!("/v1/ops/{op}"));
    tracing::info_span!(
        "request",
        otel.name = format!("{} {}", method(request.method()), route()),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method(request.method()),
        http.route = route(),
        http.response.status_code = Empty,
    )
}

/// Records how the request was answered.
pub(super) fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

/// The name of a standard method; a client could send any text.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}
