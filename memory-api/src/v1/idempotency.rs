//! `Idempotency-Key`: a write that is repeated with the same key gets the first reply and is not done again, whichever
//! server of the store it reaches.
//!
//! Before a write begins, its key is claimed by an entry in a scope of the runtime itself, under the write's tenant;
//! the reply then replaces the claim. If the store has no such scopes, or the write does not belong to one tenant, this
//! process keeps the replies.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use memory::Memory;
use memory_core::{
    Backend, DeleteOptions, Embed, Error, ErrorKind, Expect, GetOptions, Json, Key, Op, Provider as _, Quota,
    Result, Retry, Scope, SetOptions, TenantId, Ttl,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::caller::Caller;
use crate::place;
use crate::refusal::{self, json};
use crate::token::hexadecimal;

/// How long a reply is kept.
const WINDOW: Duration = Duration::from_secs(10 * 60);
/// A tenant's replies are spread over this many scopes, because writes to one scope wait for each other.
const PARTS: u8 = 64;
/// Most replies in each.
const QUOTA: Quota = Quota { max_entries: Some(1_024), max_bytes: Some(4 << 20) };
/// When to retry a write if there is no room for its key.
const FULL: Duration = Duration::from_secs(60);
/// Longest key.
const MAX_KEY_BYTES: usize = 256;
/// Larger replies are not kept; a repeat is told so.
const MAX_REPLY_BYTES: usize = 64 << 10;
/// How long a repeat waits for the first reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// Its first pause between two looks, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// The key of a request, if the request may change something and the caller is allowed to make it.
pub(super) fn key_of<'a>(headers: &'a HeaderMap, caller: &Caller, op: Op) -> Option<&'a HeaderValue> {
    headers.get("idempotency-key").filter(|_| !op.is_read() && caller.allows(op).is_ok())
}

/// The answer to a write.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    status: u16,
    /// The entry's version, which is its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// `None` if it was too large to keep.
    text: Option<String>,
}

impl Answer {
    pub(super) fn new(status: StatusCode, text: String) -> Self {
        Self { status: status.as_u16(), version: None, text: Some(text) }
    }

    pub(super) fn ok(text: String) -> Self {
        Self::new(StatusCode::OK, text)
    }

    pub(super) fn tagged(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    pub(super) fn response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let response = json(status, self.text.unwrap_or_default());
        match self.version {
            Some(version) => tagged(response, version),
            None => response,
        }
    }
}

/// A response with an entry's version as its tag.
pub(super) fn tagged(mut response: Response, version: u64) -> Response {
    if let Ok(tag) = HeaderValue::try_from(format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// A write that is done only once.
#[derive(Debug)]
pub(super) struct Write {
    /// Hash of the caller and the key.
    name: [u8; 32],
    /// Hash of the request.
    request: String,
    tenant: Option<TenantId>,
}

impl Write {
    /// The write with this key; `parts` is everything that identifies the request. `None` without a key.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed key.
    pub(super) fn new(
        key: Option<&HeaderValue>,
        caller: &Caller,
        tenant: Option<&TenantId>,
        parts: &[&str],
    ) -> Result<Option<Self>> {
        let Some(key) = key else { return Ok(None) };
        let key =
            key.to_str().ok().filter(|key| (1..=MAX_KEY_BYTES).contains(&key.len())).ok_or_else(|| {
                Error::invalid("`Idempotency-Key` is 1 to 256 characters of ASCII; use a random id")
            })?;
        let tenant = caller.grant().tenant.as_ref().or(tenant).cloned();
        Ok(Some(Self { name: hash(&[caller.id(), key]), request: hexadecimal(&hash(parts)), tenant }))
    }
}

/// What is kept under a key.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    request: String,
    /// `None`: it has begun.
    reply: Option<Answer>,
}

/// The replies.
#[derive(Debug)]
pub(super) struct Replies {
    memory: Memory,
    /// Whether the store keeps the replies.
    in_store: OnceCell<bool>,
    own: OnceCell<Memory>,
    patience: Duration,
}

impl Replies {
    pub(super) fn new(memory: Memory) -> Self {
        Self { memory, in_store: OnceCell::new(), own: OnceCell::new(), patience: PATIENCE }
    }

    /// Does a write, or returns its earlier reply. The write goes on even if the client stops waiting.
    pub(super) async fn once(
        &self,
        write: Option<Write>,
        run: impl Future<Output = Result<Answer>> + Send + 'static,
    ) -> Result<Response> {
        let Some(write) = write else { return run.await.map(Answer::response) };
        let place = self.place(&write).await?;
        let claim = loop {
            if let Some(version) = place.claim(&write.request).await? {
                break version;
            }
            if let Some(reply) = self.first_reply(&place, &write.request).await? {
                return Ok(reply);
            }
        };
        let own = place::Place::own();
        let done = tokio::spawn(async move {
            let _own = own;
            match run.await {
                Err(error) if error.retry().is_retryable() => {
                    if let Err(kept) = place.release(claim).await {
                        place.warn(&kept, "a write was not done, and a repeat of it cannot learn that");
                    }
                    Err(error)
                }
                done => {
                    let answer = done.unwrap_or_else(|error| {
                        Answer::new(refusal::status(error.kind()), refusal::text(&error))
                    });
                    if let Err(error) = place.keep(claim, write.request, &answer).await {
                        place.warn(
                            &error,
                            "the reply to a write is not kept, and a repeat of it cannot have it",
                        );
                    }
                    Ok(answer.response())
                }
            }
        });
        done.await.unwrap_or_else(|error| {
            Err(Error::new(
                ErrorKind::OutcomeUnknown,
                "the request was ended before it was answered; read before you try again",
            )
            .with_source(error))
        })
    }

    /// Waits for the reply to the request that holds the key; `None` if it no longer does.
    async fn first_reply(&self, place: &Place, request: &str) -> Result<Option<Response>> {
        let begun = Instant::now();
        let [mut pause, longest] = PAUSES;
        while let Some(kept) = place.read().await? {
            if kept.request != request {
                return Err(used(
                    "this `Idempotency-Key` was used for another request; use a new one for each write",
                ));
            }
            if let Some(reply) = kept.reply {
                return replay(reply).map(Some);
            }
            if begun.elapsed() >= self.patience {
                return Err(Error::new(
                    ErrorKind::OutcomeUnknown,
                    "a request with this `Idempotency-Key` has begun and has no answer: it still runs, or its server was \
                     ended; read before you try again with a new key",
                ));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
        Ok(None)
    }

    async fn place(&self, write: &Write) -> Result<Place> {
        let part = format!("replies-{:02x}", write.name[0] % PARTS);
        let key = Key::new(hexadecimal(&write.name))?;
        if let Some(tenant) = &write.tenant {
            let scope = Scope::host(tenant.as_str(), &part)?;
            let place = Place { memory: self.memory.clone(), scope, key: key.clone() };
            if *self.in_store.get_or_try_init(|| place.is_served()).await? {
                return Ok(place);
            }
        }
        let own = self.own.get_or_try_init(|| memory::open("sqlite::memory:")).await?;
        Ok(Place { memory: own.clone(), scope: Scope::host("replies", &part)?, key })
    }
}

fn replay(reply: Answer) -> Result<Response> {
    if reply.text.is_none() {
        return Err(used("this write was done, but its reply was too large to be kept; read what it stored"));
    }
    let mut response = reply.response();
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    Ok(response)
}

fn used(why: &'static str) -> Error {
    Error::new(ErrorKind::Conflict, why).with_retry(Retry::Never)
}

/// Where the state of one key is kept.
struct Place {
    memory: Memory,
    scope: Scope,
    key: Key,
}

impl Place {
    fn backend(&self) -> Result<&dyn Backend> {
        self.memory.backend().ok_or_else(|| Error::unsupported("kv", self.memory.name()))
    }

    /// Whether this store keeps entries in scopes of the runtime. A remote memory's server does not.
    async fn is_served(&self) -> Result<bool> {
        let capabilities = self.memory.capabilities();
        if !capabilities.kv || !capabilities.compare_and_set || !capabilities.quotas {
            return Ok(false);
        }
        match self.read().await {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(false),
            read => read.map(|_| true),
        }
    }

    async fn read(&self) -> Result<Option<Kept>> {
        let entry = self.backend()?.get(&self.scope, &self.key, GetOptions::uncounted()).await?;
        let kept = entry.map(|entry| entry.value.deserialize()).transpose();
        kept.map_err(|error| {
            Error::new(ErrorKind::Corrupt, "a kept reply is not one of this program").with_source(error)
        })
    }

    async fn write(&self, kept: &Kept, expect: Expect, ttl: Ttl) -> Result<Option<u64>> {
        let value = Json::from_serialize(kept)
            .map_err(|error| Error::internal("a reply has no JSON form").with_source(error))?;
        // Nobody searches here.
        let options = SetOptions::default().with_text("").with_embed(Embed::Never);
        let options = options.with_expect(expect).with_ttl(ttl).with_quota(QUOTA);
        let outcome = self.backend()?.set(&self.scope, &self.key, value, options).await?;
        Ok(outcome.written.then_some(outcome.version))
    }

    /// Claims the key for a request. Returns the claim's version, or `None` if the key is taken.
    async fn claim(&self, request: &str) -> Result<Option<u64>> {
        let claim = Kept { request: request.to_owned(), reply: None };
        match self.write(&claim, Expect::Absent, Ttl::After(WINDOW)).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            Err(error) if error.kind() == ErrorKind::QuotaExceeded => Err(Error::new(
                ErrorKind::RateLimited,
                "more writes with an `Idempotency-Key` were made than can be remembered for ten minutes; wait",
            )
            .with_retry(Retry::After(FULL))),
            claimed => claimed,
        }
    }

    /// Releases the key, because nothing was done.
    async fn release(&self, claim: u64) -> Result<()> {
        let options = DeleteOptions::expecting(Expect::Version(claim));
        self.backend()?.delete(&self.scope, &self.key, options).await.map(drop)
    }

    /// Keeps the reply or, if there is no room for it, the fact that there was one.
    async fn keep(&self, claim: u64, request: String, answer: &Answer) -> Result<()> {
        let text = answer.text.clone().filter(|text| text.len() <= MAX_REPLY_BYTES);
        let reply = Answer { text, ..*answer };
        let mut kept = Kept { request, reply: Some(reply) };
        let expect = Expect::Version(claim);
        if self.write(&kept, expect, Ttl::Keep).await.is_err() {
            kept.reply = Some(Answer { text: None, ..*answer });
            self.write(&kept, expect, Ttl::Keep).await?;
        }
        Ok(())
    }

    /// The entry's key identifies the request: it is a hash of the caller and its `Idempotency-Key`.
    fn warn(&self, error: &Error, what: &str) {
        let (tenant, request) = (&self.scope.tenant, self.key.as_str());
        tracing::warn!(%error, %tenant, request, "{what}");
    }
}

/// SHA-256 of arbitrary texts.
fn hash(parts: &[&str]) -> [u8; 32] {
    let part = |hash: Sha256, part: &&str| hash.chain_update(part.len().to_le_bytes()).chain_update(part);
    parts.iter().fold(Sha256::new(), part).finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use axum::body::to_bytes;
    use memory_core::ScopeKind;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;
    use crate::caller::Grant;

    /// Two servers of one store.
    async fn two() -> [Replies; 2] {
        let memory = memory::open("sqlite::memory:").await.unwrap();
        let patience = Duration::from_millis(50);
        [memory.clone(), memory].map(|memory| Replies { patience, ..Replies::new(memory) })
    }

    fn write(token: &str, tenant: Option<&str>, key: &str, what: &str) -> Option<Write> {
        let grant = Grant { tenant: tenant.map(|tenant| tenant.parse().unwrap()), ..Grant::default() };
        let caller = Caller::new(token.into(), grant, &memory::Policy::default(), Arc::default());
        Write::new(Some(&HeaderValue::from_str(key).unwrap()), &caller, None, &[what]).unwrap()
    }

    async fn text(response: Result<Response>) -> (u16, bool, String) {
        let response = response.unwrap();
        let replayed = response.headers().contains_key("idempotency-replayed");
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, replayed, String::from_utf8(bytes.into()).unwrap())
    }

    /// A write that counts how often it is done.
    async fn done(replies: &Replies, write: Option<Write>, count: &Arc<AtomicU32>) -> Result<Response> {
        let count = Arc::clone(count);
        let run = async move { Ok(Answer::ok(count.fetch_add(1, Ordering::SeqCst).to_string())) };
        replies.once(write, run).await
    }

    #[tokio::test]
    async fn a_write_is_done_once_by_all_servers_of_a_store() {
        let [one, two] = two().await;
        let count = Arc::default();
        let of = |token: &str, key: &str| write(token, Some("acme"), key, "w");
        assert_eq!(text(done(&one, of("t-1", "a"), &count).await).await, (200, false, "0".to_owned()));
        for replies in [&one, &two] {
            assert_eq!(text(done(replies, of("t-1", "a"), &count).await).await, (200, true, "0".to_owned()));
        }
        // Another key, another token.
        assert_eq!(text(done(&two, of("t-1", "b"), &count).await).await.2, "1");
        assert_eq!(text(done(&two, of("t-2", "a"), &count).await).await.2, "2");
        let other = done(&two, write("t-1", Some("acme"), "a", "x"), &count).await.unwrap_err();
        assert_eq!((other.kind(), other.retry()), (ErrorKind::Conflict, Retry::Never));
        // Not tied to a tenant: each process keeps its own.
        for (replies, replayed) in [(&one, false), (&one, true), (&two, false)] {
            assert_eq!(text(done(replies, write("t-3", None, "a", "w"), &count).await).await.1, replayed);
        }
    }

    #[tokio::test]
    async fn a_repeat_waits_for_the_first_and_is_never_done_beside_it() {
        let [one, two] = two().await;
        let of = || write("t-1", Some("acme"), "a", "w");
        let (answer, answered) = tokio::sync::oneshot::channel();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let first = tokio::spawn(async move {
            let run = async move {
                begins.send(()).unwrap();
                Ok(Answer::ok(answered.await.unwrap()))
            };
            one.once(of(), run).await
        });
        begun.await.unwrap();
        let count = Arc::default();
        let unknown = done(&two, of(), &count).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::OutcomeUnknown);
        answer.send("first".to_owned()).unwrap();
        assert!(!text(first.await.unwrap()).await.1);
        assert_eq!(text(done(&two, of(), &count).await).await, (200, true, "first".to_owned()));
        assert_eq!(count.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_refusal_is_kept_unless_it_may_be_tried_again_and_a_large_reply_is_told() {
        let [one, two] = two().await;
        let count = Arc::default();
        let of = |key: &str| write("t-1", Some("acme"), key, "w");
        let busy = one.once(of("a"), async { Err(Error::new(ErrorKind::Unavailable, "busy")) }).await;
        assert_eq!(busy.unwrap_err().kind(), ErrorKind::Unavailable);
        assert_eq!(text(done(&two, of("a"), &count).await).await.2, "0");
        let wrong = || async { Err(Error::new(ErrorKind::WrongType, "no number")) };
        assert_eq!(text(one.once(of("b"), wrong()).await).await.0, 422);
        assert_eq!(text(done(&two, of("b"), &count).await).await.0, 422);
        let large = || async { Ok(Answer::ok("x".repeat(MAX_REPLY_BYTES + 1))) };
        assert_eq!(text(one.once(of("c"), large()).await).await.2.len(), MAX_REPLY_BYTES + 1);
        assert_eq!(done(&two, of("c"), &count).await.unwrap_err().kind(), ErrorKind::Conflict);
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded_expires_and_is_in_no_list_of_scopes() {
        let [one, _] = two().await;
        let write = write("t-1", Some("acme"), "a", "w").unwrap();
        let place = one.place(&write).await.unwrap();
        assert_eq!(place.scope.kind, ScopeKind::Host);
        place.claim("w").await.unwrap().unwrap();
        let backend = place.backend().unwrap();
        let entry = backend.get(&place.scope, &place.key, GetOptions::uncounted()).await.unwrap().unwrap();
        let lasts = entry.expires_at.unwrap().as_millis() - entry.updated_at.as_millis();
        assert_eq!(lasts, i64::try_from(WINDOW.as_millis()).unwrap());
        let tenant = "acme".parse().unwrap();
        assert!(backend.scopes(&tenant, Default::default()).await.unwrap().scopes.is_empty());
        for at in 1..QUOTA.max_entries.unwrap() {
            let place = Place { key: Key::new(at.to_string()).unwrap(), ..one.place(&write).await.unwrap() };
            place.claim("w").await.unwrap().unwrap();
        }
        let place = Place { key: Key::new("full").unwrap(), ..place };
        let full = place.claim("w").await.unwrap_err();
        assert_eq!((full.kind(), full.retry()), (ErrorKind::RateLimited, Retry::After(FULL)));
    }

    #[tokio::test]
    async fn a_reply_that_cannot_be_kept_and_a_key_that_cannot_be_given_back_are_logged() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let writer = Mutex::new(log.reopen().unwrap());
        let subscriber =
            tracing_subscriber::registry().with(tracing_subscriber::fmt::layer().with_writer(writer));
        let _logging = tracing::subscriber::set_default(subscriber);
        let [one, _] = two().await;
        for (key, done) in
            [("a", Ok(Answer::ok("done".to_owned()))), ("b", Err(Error::new(ErrorKind::Unavailable, "busy")))]
        {
            let write = write("t-1", Some("acme"), key, "w").unwrap();
            let (place, name) = (one.place(&write).await.unwrap(), hexadecimal(&write.name));
            // What is stored is no longer this write's claim.
            let run = async move {
                place.write(&Kept { request: "w".to_owned(), reply: None }, Expect::Any, Ttl::Keep).await?;
                done
            };
            let _ = one.once(Some(write), run).await;
            let text = std::fs::read_to_string(log.path()).unwrap();
            assert!(text.lines().any(|line| line.contains("WARN") && line.contains(&name)), "{text}");
        }
    }
}
