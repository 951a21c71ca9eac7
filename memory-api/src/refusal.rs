//! Errors as responses: `{"error": {…}}` with a fitting status. A client can rebuild the error from it.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use memory_core::{Error, ErrorKind, Failure, Retry};
use serde::Serialize;

/// The status for a kind of error. Clients go by the code; the status is for anything in between.
pub fn status(kind: ErrorKind) -> StatusCode {
    match kind {
        ErrorKind::InvalidArgument => StatusCode::BAD_REQUEST,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::Forbidden | ErrorKind::ScopeDenied | ErrorKind::ReadOnly | ErrorKind::EgressDenied => {
            StatusCode::FORBIDDEN
        }
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Conflict | ErrorKind::DriftDetected | ErrorKind::TransactionLost => StatusCode::CONFLICT,
        ErrorKind::RunEnded => StatusCode::GONE,
        ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorKind::WrongType
        | ErrorKind::QuotaExceeded
        | ErrorKind::DimensionMismatch
        | ErrorKind::StatementRefused
        | ErrorKind::ResultTooLarge => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::RateLimited | ErrorKind::TransactionLimit => StatusCode::TOO_MANY_REQUESTS,
        ErrorKind::Unsupported | ErrorKind::VectorUnsupported | ErrorKind::EmbedderNotConfigured => {
            StatusCode::NOT_IMPLEMENTED
        }
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Timeout | ErrorKind::OutcomeUnknown => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The error of a request that was cut off before it was answered.
pub(crate) fn late(reads: bool) -> Error {
    if reads {
        return Error::new(
            ErrorKind::Timeout,
            "the answer was not there in time; ask for less, or try later",
        );
    }
    Error::new(
        ErrorKind::OutcomeUnknown,
        "the answer was not there in time, so it may or may not have been done; read before you try again",
    )
}

/// The response to a request that is refused.
pub fn refused(error: &Error) -> Response {
    refused_as(status(error.kind()), error)
}

/// The same with a different status.
pub fn refused_as(status: StatusCode, error: &Error) -> Response {
    let mut response = json(status, text(error));
    let headers = response.headers_mut();
    let challenge = match (status, error.kind()) {
        (StatusCode::UNAUTHORIZED, _) => Some("Bearer"),
        (StatusCode::FORBIDDEN, ErrorKind::Forbidden | ErrorKind::ScopeDenied | ErrorKind::ReadOnly) => {
            Some("Bearer error=\"insufficient_scope\"")
        }
        _ => None,
    };
    if let Some(challenge) = challenge {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    if let Retry::After(wait) = error.retry() {
        // Whole seconds, rounded up.
        let seconds = wait.saturating_add(Duration::from_millis(999)).as_secs().max(1);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// `{"error": {…}}`.
pub(crate) fn text(error: &Error) -> String {
    #[derive(Serialize)]
    struct Document {
        error: Failure,
    }
    serde_json::to_string(&Document { error: Failure::from(error) }).unwrap_or_else(|_| {
        r#"{"error":{"code":"internal","message":"the error has no JSON form","details":{},"retryable":false}}"#.into()
    })
}

/// A JSON text as a response that nothing on the way may cache.
pub fn json(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
