//! What a status other than 2xx means at mem0. A reply's message may quote what was sent, so it is never passed on.

use memory_core::{Error, Retry};
use memory_http::Reply;
use serde::Deserialize;

use crate::config::Flavour;

/// Codes of a self-hosted server's 502. All but the last two mean that nothing was stored yet.
const CODES: [&str; 7] = [
    "provider_rate_limited",
    "provider_unavailable",
    "provider_timeout",
    "provider_auth_failed",
    "provider_bad_request",
    "datastore_unavailable",
    "unknown",
];

/// The code of a 502, if it is a known one.
pub(crate) fn code(reply: &Reply) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Refusal {
        code: Option<String>,
    }
    if reply.status() != 502 {
        return None;
    }
    let sent = serde_json::from_slice::<Refusal>(reply.body()).ok()?.code?;
    CODES.into_iter().find(|code| *code == sent)
}

/// Whether to retry a call that got this reply; `None` means that the status decides. It holds for `add` too: when its
/// language model fails, the server has not stored anything yet.
pub(crate) fn retries(reply: &Reply) -> Option<bool> {
    match code(reply)? {
        // The server has already retried its model three times, so retry only if the reply says when.
        "provider_rate_limited" => Some(reply.retry_after().is_some()),
        "provider_unavailable" | "provider_timeout" => Some(true),
        "datastore_unavailable" => None,
        _ => Some(false),
    }
}

/// As [`retries`], for an `add` whose messages the server stores one by one: those before the failed one are stored
/// already.
pub(crate) fn retries_one_by_one(reply: &Reply) -> Option<bool> {
    retries(reply).map(|_| false)
}

/// The typed error of a reply; `None` for a success.
pub(crate) fn error_of(reply: &Reply, flavour: Flavour) -> Option<Error> {
    let plain = reply.error()?;
    let code = code(reply);
    let error = match (reply.status(), code) {
        (_, Some("provider_auth_failed")) => Error::unavailable(
            "the language model that mem0 uses rejects mem0's key; set the key on the server's configuration page",
        )
        .with_retry(Retry::Never),
        (_, Some("provider_bad_request")) => Error::unavailable(
            "the language model that mem0 uses rejects the request; check which model the server is configured for",
        )
        .with_retry(Retry::Never),
        (_, Some("provider_rate_limited")) => {
            let error = Error::rate_limited(
                "the language model that mem0 uses limits its rate; call less often",
            );
            match reply.retry_after() {
                Some(after) => error.with_retry(Retry::After(after)),
                None => error,
            }
        }
        (_, Some("provider_unavailable" | "provider_timeout")) => Error::unavailable(
            "the language model that mem0 uses does not answer; nothing was stored, so try again later",
        ),
        (404, _) => Error::not_found(
            match flavour {
                Flavour::SelfHosted => {
                    "there is no self-hosted mem0 at this address; check `base_url`, and set `flavour` if it is the Platform"
                }
                Flavour::Platform => {
                    "there is no mem0 Platform at this address; check `base_url`, and set `flavour` if it is a self-hosted server"
                }
            },
        ),
        // The Platform gives these two statuses meanings of its own, as its client shows.
        (413, _) if flavour == Flavour::Platform => Error::quota_exceeded(
            "the mem0 Platform refuses more: the account's quota is used up, or the request is too large; look at its dashboard",
        ),
        (403, _) if flavour == Flavour::Platform => Error::forbidden(
            "the mem0 Platform does not allow this key to do that, or restricts the account because it is new; look at its dashboard",
        ),
        _ => return Some(plain),
    };
    let error = error.with_detail("status", reply.status());
    Some(match code {
        Some(code) => error.with_detail("code", code),
        None => error,
    })
}
