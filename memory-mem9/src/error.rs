//! What a status other than 2xx means at mem9. A reply's message may quote what was sent, so it is read but never
//! passed on.

use memory_core::{Error, Retry};
use memory_http::Reply;
use serde::Deserialize;

#[derive(Deserialize)]
struct Refusal {
    error: Option<String>,
}

fn message(reply: &Reply) -> String {
    serde_json::from_slice::<Refusal>(reply.body()).ok().and_then(|refusal| refusal.error).unwrap_or_default()
}

/// The typed error of a reply; `None` for a success.
pub(crate) fn error_of(reply: &Reply) -> Option<Error> {
    let plain = reply.error()?;
    let message = message(reply);
    let error = match reply.status() {
        // The routes for memories answer 400 where others answer 401.
        400 | 401 if message.contains("API key") || message.contains("X-API-Key") => Error::unauthenticated(
            "mem9 rejects the key: it is unknown or suspended; check the environment variable or file that it is read from",
        ),
        400 if message.contains("Space Chain") => Error::invalid(
            "the key is for a chain of spaces, which would mix tenants' memories; use the key of a single space",
        ),
        402 => Error::quota_exceeded(
            "the space's quota at mem9 is used up; wait for the next period, or buy more",
        ),
        404 => Error::not_found("there is no mem9 with API v1alpha2 at this address; check `base_url`"),
        409 => Error::unavailable(
            "the space's schema does not match the server's embedder; its operator has to repair it",
        )
        .with_retry(Retry::Never),
        // mem9 says this before it does anything. Any other 503 may come after part of an add is stored.
        503 if message.contains("cannot connect to tenant database") => Error::unavailable(
            "mem9 cannot reach the database of this space; nothing was done, so try again later",
        ),
        429 if message.contains("quota") => {
            Error::quota_exceeded("the quota of this space's cluster at mem9 is used up; ask its operator")
        }
        _ => return Some(plain),
    };
    Some(error.with_detail("status", reply.status()))
}
