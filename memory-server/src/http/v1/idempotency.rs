//! `Idempotency-Key`: a write that is sent again with the same key has the first reply, and is not done again.
//!
//! Replies are kept in this process for [`WINDOW`], at most [`MOST`] of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use memory_core::{Error, ErrorKind, Result, Retry};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::http::refusal::{self, json};

/// How long a reply is kept.
const WINDOW: Duration = Duration::from_secs(10 * 60);
/// Most replies that are kept.
const MOST: usize = 10_000;
/// Longest key.
const MAX_KEY_BYTES: usize = 256;
/// A larger reply is not kept; the repeat says so.
const MAX_REPLY_BYTES: usize = 64 << 10;

/// A reply and the request that it answered.
#[derive(Debug)]
struct Stored {
    request: [u8; 32],
    status: StatusCode,
    text: Option<String>,
}

/// Held while the request runs, so that a repeat waits for its reply.
type Slot = Arc<tokio::sync::Mutex<Option<Stored>>>;

#[derive(Debug, Default)]
struct Kept {
    slots: HashMap<String, Slot>,
    order: VecDeque<(Instant, String)>,
}

/// The replies.
#[derive(Debug, Default)]
pub(super) struct Replies(Mutex<Kept>);

impl Replies {
    fn slot(&self, key: String) -> Slot {
        let now = Instant::now();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((at, _)) = kept.order.front()
            && (kept.order.len() >= MOST || now.saturating_duration_since(*at) >= WINDOW)
        {
            if let Some((_, old)) = kept.order.pop_front() {
                kept.slots.remove(&old);
            }
        }
        if let Some(slot) = kept.slots.get(&key) {
            return Arc::clone(slot);
        }
        kept.order.push_back((now, key.clone()));
        Arc::clone(kept.slots.entry(key).or_default())
    }

    /// Runs a write, or returns the reply that it had. What the client no longer waits for is done nevertheless.
    pub(super) async fn once<F: Future<Output = Result<String>> + Send + 'static>(
        &self,
        caller: &str,
        key: &HeaderValue,
        op: &str,
        arguments: String,
        run: impl FnOnce(String) -> F,
    ) -> Result<Response> {
        let key =
            key.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len())).ok_or_else(|| {
                Error::invalid("`Idempotency-Key` is 1 to 256 characters of ASCII; use a random id")
            })?;
        let request: [u8; 32] =
            Sha256::new().chain_update(op).chain_update([0]).chain_update(&arguments).finalize().into();
        let mut slot = self.slot(format!("{caller}\0{key}")).lock_owned().await;
        if let Some(stored) = &*slot {
            return replay(stored, &request);
        }
        let run = run(arguments);
        let done = tokio::spawn(async move {
            let (status, text) = match run.await {
                Ok(text) => (StatusCode::OK, text),
                Err(error) if error.retry().is_retryable() => return Err(error),
                Err(error) => (refusal::status(error.kind()), refusal::text(&error)),
            };
            let kept = (text.len() <= MAX_REPLY_BYTES).then(|| text.clone());
            *slot = Some(Stored { request, status, text: kept });
            Ok(json(status, text))
        });
        done.await.unwrap_or_else(|error| {
            Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "the request was ended before it was answered; read before you try again",
            )
            .with_source(error))
        })
    }
}

fn replay(stored: &Stored, request: &[u8; 32]) -> Result<Response> {
    if stored.request != *request {
        return Err(Error::new(
            ErrorKind::Conflict,
            "this `Idempotency-Key` was used for another request; use a new one for each write",
        )
        .with_retry(Retry::Never));
    }
    let Some(text) = &stored.text else {
        return Err(Error::new(
            ErrorKind::Conflict,
            "this write was done, but its reply was too large to be kept; read what it stored",
        )
        .with_retry(Retry::Never));
    };
    let mut response = json(stored.status, text.clone());
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}
