//! Identifies the caller of a request by its token, checked against the current file of tokens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory_core::{Clock, Error, ErrorKind, Result, Retry};
use tokio::time::Instant;

use crate::boxed::Boxed;
use crate::caller::Caller;
use crate::jwt::{Jwt, Resource, is_jwt};
use crate::metrics::Metrics;
use crate::rules::Rules;
use crate::token::digits_of;
use crate::tokens::{Known, Look, STANDS, TokenFile};

/// At this many buckets, the full ones are removed.
const MAX_BUCKETS: usize = 10_000;

/// A server's tokens and their rate limits.
#[derive(Debug)]
pub struct Authority {
    file: TokenFile,
    jwt: Option<Jwt>,
    rules: Arc<Rules>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    note: fn(&str),
    /// The tokens as last read, and when the file was last checked.
    read: Mutex<Option<(Instant, Arc<Tokens>)>>,
    buckets: Mutex<BTreeMap<Arc<str>, Bucket>>,
}

/// The tokens as read from the file.
#[derive(Debug)]
struct Tokens {
    look: Look,
    /// By the digits of their ids.
    known: BTreeMap<Arc<str>, (Known, Arc<Caller>)>,
}

/// The requests a token has left: at most a minute's worth, steadily refilled.
#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Authority {
    /// `note` reports a line of text to the operator.
    #[must_use]
    pub fn new(
        file: TokenFile,
        jwt: Option<Jwt>,
        rules: Arc<Rules>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        note: fn(&str),
    ) -> Self {
        Self { file, jwt, rules, clock, metrics, note, read: Mutex::default(), buckets: Mutex::default() }
    }

    /// Whether any token exists, or an issuer can make one.
    ///
    /// # Errors
    /// As [`TokenFile::read`].
    pub fn has_tokens(&self) -> Result<bool> {
        let now = self.clock.now();
        let tokens = self.tokens(Duration::ZERO)?;
        Ok(self.jwt.is_some() || tokens.known.values().any(|(known, _)| !known.token.is_expired(now)))
    }

    /// The caller with this token. Unknown, revoked and expired tokens are refused with the same message.
    ///
    /// # Errors
    /// `unauthenticated`; `rate_limited`; `unavailable` if the file of tokens cannot be used.
    pub fn caller(&self, text: &str) -> Result<Arc<Caller>> {
        let (caller, per_minute) = self.holder(text)?;
        if let Some(per_minute) = per_minute {
            self.spend(caller.shared_id(), per_minute)?;
        }
        Ok(caller)
    }

    /// Whether a connection that this token opened may stay open. While tokens cannot be checked, it may.
    pub fn holds(&self, text: &str) -> bool {
        self.holder(text).map_or_else(|error| error.kind() == ErrorKind::Unavailable, |_| true)
    }

    /// The caller with this token, and its limit of requests per minute.
    fn holder(&self, text: &str) -> Result<(Arc<Caller>, Option<u32>)> {
        let refused = || {
            Error::new(
                ErrorKind::Unauthenticated,
                "the token is not valid here: unknown, revoked or expired; ask the operator for one",
            )
        };
        if let Some(jwt) = self.jwt.as_ref().filter(|_| is_jwt(text)) {
            return self.of_jwt(jwt, text);
        }
        let digits = digits_of(text).ok_or_else(refused)?;
        let tokens = |stands| {
            self.tokens(stands).map_err(|error| {
                (self.note)(&format!("memory: no token can be checked: {error}"));
                // What is wrong with the file is only the operator's business.
                Error::new(ErrorKind::Unavailable, "tokens cannot be checked now; try again later")
            })
        };
        let mut read = tokens(STANDS)?;
        if !read.known.contains_key(digits) {
            // It may be new.
            read = tokens(Duration::ZERO)?;
        }
        let (known, caller) = read.known.get(digits).ok_or_else(refused)?;
        if !known.token.is(text) || known.token.is_expired(self.clock.now()) {
            return Err(refused());
        }
        self.rules.serves(caller.grant().agent.as_ref(), caller.id())?;
        Ok((Arc::clone(caller), known.token.per_minute))
    }

    /// Whether JWTs are accepted, so that [`Authority::prepare`] may have to wait.
    pub(crate) fn takes_jwt(&self) -> bool {
        self.jwt.is_some()
    }

    /// What OAuth clients are told of `/mcp`.
    pub fn resource(&self) -> Option<&Resource> {
        self.jwt.as_ref()?.resource()
    }

    /// Fetches what is needed to check this JWT, because [`Authority::caller`] never waits.
    pub fn prepare<'a>(&'a self, text: &'a str) -> Boxed<'a, ()> {
        Box::pin(async move {
            if let Some(jwt) = &self.jwt {
                jwt.prepare(text).await;
            }
        })
    }

    fn of_jwt(&self, jwt: &Jwt, text: &str) -> Result<(Arc<Caller>, Option<u32>)> {
        let holder = jwt.verified(text)?;
        let agent = holder.grant.agent.as_ref();
        self.rules.serves(agent, &holder.id)?;
        let policy = self.rules.policy(agent.map_or("", |agent| agent.as_str()));
        let caller = Caller::new(holder.id, holder.grant, &policy, Arc::clone(&self.metrics));
        Ok((Arc::new(caller), jwt.per_minute()))
    }

    fn spend(&self, id: &Arc<str>, per_minute: u32) -> Result<()> {
        let now = Instant::now();
        let most = f64::from(per_minute);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_BUCKETS {
            // After a minute a bucket is full, which is the same as no bucket.
            buckets.retain(|_, bucket| now.saturating_duration_since(bucket.at) < Duration::from_secs(60));
        }
        let bucket = buckets.entry(Arc::clone(id)).or_insert(Bucket { left: most, at: now });
        let refill = now.saturating_duration_since(bucket.at).as_secs_f64() * most / 60.0;
        bucket.left = (bucket.left + refill).min(most);
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let wait = Duration::from_secs_f64((1.0 - bucket.left) * 60.0 / most);
        Err(Error::new(
            ErrorKind::RateLimited,
            format!("the token `{id}` may ask {per_minute} times a minute; wait"),
        )
        .with_retry(Retry::After(wait)))
    }

    /// The tokens in the file, or those of up to `stands` ago; if the file has changed, it is read again. Requests do
    /// not wait while another checks the file or computes a hash.
    fn tokens(&self, stands: Duration) -> Result<Arc<Tokens>> {
        let now = Instant::now();
        let fresh = |at: Instant| now.saturating_duration_since(at) < stands;
        let lock = || self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tokens)) = lock().as_ref().filter(|(at, _)| fresh(*at)) {
            return Ok(Arc::clone(tokens));
        }
        let look = self.file.look()?;
        let mut read = lock();
        if let Some((at, tokens)) = read.as_mut().filter(|(_, tokens)| tokens.look == look) {
            *at = now;
            return Ok(Arc::clone(tokens));
        }
        *read = None;
        let (look, known) = self.file.read()?;
        let known = known
            .into_iter()
            .filter(|(_, known)| known.revoked_at.is_none())
            .map(|(id, known)| {
                let grant = known.token.grant();
                let policy = self.rules.policy(grant.agent.as_ref().map_or("", |agent| agent.as_str()));
                let digits = id.strip_prefix("t-").unwrap_or(&id).into();
                let caller = Caller::new(id, grant, &policy, Arc::clone(&self.metrics));
                (digits, (known, Arc::new(caller)))
            })
            .collect();
        let tokens = Arc::new(Tokens { look, known });
        *read = Some((now, Arc::clone(&tokens)));
        Ok(tokens)
    }
}
