//! What a status other than 2xx means at mem9. The message of a reply may quote what was sent, so it is read and never
//! repeated.

use memory_core::{Error, ErrorKind, Retry};
use memory_http::Reply;
use serde::Deserialize;

#[derive(Deserialize)]
struct Refusal {
    error: Option<String>,
}

fn said(reply: &Reply) -> String {
    serde_json::from_slice::<Refusal>(reply.body()).ok().and_then(|refusal| refusal.error).unwrap_or_default()
}

/// The typed error of a reply that refuses; `None` for one that does not.
pub(crate) fn error_of(reply: &Reply) -> Option<Error> {
    let plain = reply.error()?;
    let said = said(reply);
    let error = match reply.status() {
        // The routes of memories say 400 where others say 401.
        400 | 401 if said.contains("API key") || said.contains("X-API-Key") => Error::new(
            ErrorKind::Unauthenticated,
            "mem9 does not take the key: it is unknown or suspended; check where it is read from",
        ),
        400 if said.contains("Space Chain") => Error::new(
            ErrorKind::InvalidArgument,
            "the key is of a chain of spaces, which would mix what is to be kept apart; use the key of one space",
        ),
        402 => Error::new(
            ErrorKind::QuotaExceeded,
            "the space has no quota left at mem9; wait for the next period, or buy more",
        ),
        404 => {
            Error::new(ErrorKind::NotFound, "there is no mem9 of v1alpha2 at this address; check `base_url`")
        }
        409 => Error::new(
            ErrorKind::Unavailable,
            "the space's schema does not fit the server's way of embedding; it has to be mended there",
        )
        .with_retry(Retry::Never),
        // Said before anything is done. Any other 503 may come after a part of an add is stored.
        503 if said.contains("cannot connect to tenant database") => Error::new(
            ErrorKind::Unavailable,
            "mem9 cannot reach the database of this space, and nothing was done; try again later",
        ),
        429 if said.contains("quota") => {
            Error::new(ErrorKind::QuotaExceeded, "the cluster of this space has no quota left at mem9")
        }
        _ => return Some(plain),
    };
    Some(error.with_detail("status", reply.status()))
}
