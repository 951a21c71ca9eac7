//! What a status other than 2xx means at mem0. The message of a reply may quote what was sent, so it is never repeated.

use memory_core::{Error, ErrorKind, Retry};
use memory_http::Reply;
use serde::Deserialize;

use crate::config::Flavour;

/// Codes of a self-hosted server's 502. All but the last two came before anything was stored.
const CODES: [&str; 7] = [
    "provider_rate_limited",
    "provider_unavailable",
    "provider_timeout",
    "provider_auth_failed",
    "provider_bad_request",
    "datastore_unavailable",
    "unknown",
];

/// The code of a 502, where it is one that is known.
pub(crate) fn code(reply: &Reply) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Refusal {
        code: Option<String>,
    }
    if reply.status() != 502 {
        return None;
    }
    let said = serde_json::from_slice::<Refusal>(reply.body()).ok()?.code?;
    CODES.into_iter().find(|code| *code == said)
}

/// Whether a call is repeated that was answered like this; `None`: as its status says. What stood before the model was
/// asked is not stored yet, so this holds for an `add` that is stored as a whole, too.
pub(crate) fn repeats(reply: &Reply) -> Option<bool> {
    match code(reply)? {
        // The server has asked its model three times by then, so it is asked again only when the reply says when.
        "provider_rate_limited" => Some(reply.retry_after().is_some()),
        "provider_unavailable" | "provider_timeout" => Some(true),
        "datastore_unavailable" => None,
        _ => Some(false),
    }
}

/// The same for an `add` of several messages that the server stores one after the other: those before the one that
/// failed are there.
pub(crate) fn repeats_of_parts(reply: &Reply) -> Option<bool> {
    repeats(reply).map(|_| false)
}

/// The typed error of a reply that refuses; `None` for one that does not.
pub(crate) fn error_of(reply: &Reply, flavour: Flavour) -> Option<Error> {
    let plain = reply.error()?;
    let code = code(reply);
    let error = match (reply.status(), code) {
        (_, Some("provider_auth_failed")) => Error::new(
            ErrorKind::Unavailable,
            "mem0's own language model refuses its key; set it on the server's configuration page",
        )
        .with_retry(Retry::Never),
        (_, Some("provider_bad_request")) => Error::new(
            ErrorKind::Unavailable,
            "mem0's own language model refuses the request; check which model the server is configured for",
        )
        .with_retry(Retry::Never),
        (_, Some("provider_rate_limited")) => {
            let error = Error::new(
                ErrorKind::RateLimited,
                "mem0's own language model is asked too often; call less often",
            );
            match reply.retry_after() {
                Some(after) => error.with_retry(Retry::After(after)),
                None => error,
            }
        }
        (_, Some("provider_unavailable" | "provider_timeout")) => Error::new(
            ErrorKind::Unavailable,
            "mem0's own language model does not answer; nothing was stored",
        ),
        (404, _) => Error::new(
            ErrorKind::NotFound,
            match flavour {
                Flavour::SelfHosted => {
                    "there is no self-hosted mem0 at this address; check `base_url`, and `flavour` for the Platform"
                }
                Flavour::Platform => {
                    "there is no mem0 Platform at this address; check `base_url`, and `flavour` for a server of one's own"
                }
            },
        ),
        // The Platform's own client takes both for other things than their numbers say.
        (413, _) if flavour == Flavour::Platform => Error::new(
            ErrorKind::QuotaExceeded,
            "the mem0 Platform takes no more: the account's quota is used up, or too much was sent at once; look at its dashboard",
        ),
        (403, _) if flavour == Flavour::Platform => Error::new(
            ErrorKind::Forbidden,
            "the mem0 Platform does not let this key do that, or holds back a new account; look at its dashboard",
        ),
        _ => return Some(plain),
    };
    let error = error.with_detail("status", reply.status());
    Some(match code {
        Some(code) => error.with_detail("code", code),
        None => error,
    })
}
