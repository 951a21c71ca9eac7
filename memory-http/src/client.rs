//! [`HttpClient`]: takes each call through policy, circuit breaker, deadline and retries.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, Error, IdGen, Result, Retry};
use tracing::Instrument as _;

use crate::call::breaker::{BreakerPolicy, Breakers};
use crate::call::failure::Failure;
use crate::call::kind::Method;
use crate::call::reply::Reply;
use crate::call::request::Call;
use crate::call::retry::{RetryPolicy, parse_retry_after};
use crate::call::timer::{Timer, TokioTimer};
use crate::call::transfer::{Download, Unsent, Upload, UploadBody};
use crate::egress::policy::EgressPolicy;
use crate::egress::resolve::{GuardedResolver, Resolver, SystemResolver};
use crate::tls;

/// Largest body kept of a reply other than 2xx, in bytes; a larger one is dropped.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;
/// How long a connection is kept unused: shorter than servers keep theirs (`memory serve --http` 15 seconds), since a write
/// that is sent while the server closes has no known outcome.
const IDLE_CONNECTION: Duration = Duration::from_secs(10);
/// Largest file of root certificates, in bytes.
const MAX_ROOTS_BYTES: u64 = 1 << 20;
/// Longest deadline of a call.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The default limits of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request body, in bytes.
    pub max_request_bytes: usize,
    /// Largest reply body after decompression, in bytes.
    pub max_response_bytes: usize,
    /// Time to connect: DNS, TCP and TLS.
    pub connect_timeout: Duration,
    /// Time until the reply starts, and between two parts of it.
    pub idle_timeout: Duration,
    /// Time for all attempts and the waits between them.
    pub total_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_request_bytes: 16 * 1024 * 1024,
            max_response_bytes: 16 * 1024 * 1024,
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(60),
        }
    }
}

/// The guarded client. Cheap to clone; clones share connections and breakers.
///
/// # Behavior
/// - Connects only where its [`EgressPolicy`] allows, judged by the actual address.
/// - Speaks HTTP/1.1, TLS 1.2 and 1.3; follows no redirect, uses no proxy, keeps no cookie.
/// - Every call ends: by its deadline, by its byte caps, or by a reply.
/// - Needs a Tokio runtime with time and I/O enabled; without a runtime a call is an error.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
}

struct Shared {
    policy: EgressPolicy,
    limits: Limits,
    retry: RetryPolicy,
    breakers: Breakers,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
    timer: Arc<dyn Timer>,
    /// For unlisted hosts: resolves their names to public addresses only.
    public: reqwest::Client,
    /// For listed hosts. A separate client, so that connections and lookups are not shared.
    listed: reqwest::Client,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("policy", &self.shared.policy)
            .field("limits", &self.shared.limits)
            .field("retry", &self.shared.retry)
            .finish_non_exhaustive()
    }
}

/// Builds a [`HttpClient`].
#[derive(Debug)]
pub struct HttpClientBuilder {
    policy: EgressPolicy,
    limits: Limits,
    retry: RetryPolicy,
    breaker: BreakerPolicy,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
    timer: Option<Arc<dyn Timer>>,
    resolver: Arc<dyn Resolver>,
    roots: Vec<rustls::pki_types::CertificateDer<'static>>,
}

impl HttpClientBuilder {
    memory_core::setters! {
        /// Caps and timeouts.
        limits(limits: Limits);
        retry(retry: RetryPolicy);
        breaker(breaker: BreakerPolicy);
        /// Replaces Tokio's timer for waits.
        timer(timer: Arc<dyn Timer> => Some(timer));
        /// Replaces the operating system's resolver. The policy applies to its answers too.
        resolver(resolver: Arc<dyn Resolver>);
    }

    /// Trusts these roots in addition to the system's.
    ///
    /// # Errors
    /// `invalid_argument` if it is not PEM with at least one certificate.
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self> {
        self.roots.extend(tls::parse_pem(pem)?);
        Ok(self)
    }

    /// Trusts the root certificates of this PEM file in addition to the system's; `None` adds none.
    ///
    /// # Errors
    /// `invalid_argument`, naming the option `ca_file`, for a file that cannot be read, is larger than 1 MiB, or is not
    /// PEM.
    pub fn trust_file(self, ca_file: Option<&Path>) -> Result<Self> {
        let Some(path) = ca_file else { return Ok(self) };
        let unfit = |why: &str| {
            Error::invalid(format!("`ca_file` {why}; give a PEM file of at most {MAX_ROOTS_BYTES} bytes"))
        };
        let about = std::fs::metadata(path).map_err(|error| unfit("cannot be read").with_source(error))?;
        if !about.is_file() || about.len() > MAX_ROOTS_BYTES {
            return Err(unfit("is not a regular file, or is too large"));
        }
        self.trust_pem(&std::fs::read(path).map_err(|error| unfit("cannot be read").with_source(error))?)
    }

    /// The client.
    ///
    /// # Errors
    /// `invalid_argument` for an unusable root certificate; `internal` if TLS cannot be set up.
    pub fn build(self) -> Result<HttpClient> {
        let tls = tls::config(self.roots)?;
        let transport = |listed: bool| {
            reqwest::Client::builder()
                .user_agent(concat!("memory-http/", env!("CARGO_PKG_VERSION")))
                .tls_backend_preconfigured(tls.clone())
                .dns_resolver(Arc::new(GuardedResolver { inner: Arc::clone(&self.resolver), listed }))
                .redirect(reqwest::redirect::Policy::none())
                // Retries happen only in this client.
                .retry(reqwest::retry::never())
                .no_proxy()
                .referer(false)
                .http1_only()
                .connect_timeout(self.limits.connect_timeout)
                .read_timeout(self.limits.idle_timeout)
                .pool_idle_timeout(IDLE_CONNECTION)
                .pool_max_idle_per_host(8)
                .build()
                .map_err(|error| {
                    Error::internal("the HTTP client cannot be set up").with_source(error.without_url())
                })
        };
        let shared = Shared {
            public: transport(false)?,
            listed: transport(true)?,
            policy: self.policy,
            limits: self.limits,
            retry: self.retry,
            breakers: Breakers::new(self.breaker),
            clock: self.clock,
            ids: self.ids,
            timer: self.timer.unwrap_or_else(|| Arc::new(TokioTimer::new())),
        };
        Ok(HttpClient { shared: Arc::new(shared) })
    }
}

impl HttpClient {
    /// A client with `policy`, a clock for `Retry-After` and randomness for backoff.
    #[must_use]
    pub fn builder(policy: EgressPolicy, clock: Arc<dyn Clock>, ids: Arc<dyn IdGen>) -> HttpClientBuilder {
        HttpClientBuilder {
            policy,
            limits: Limits::default(),
            retry: RetryPolicy::default(),
            breaker: BreakerPolicy::default(),
            clock,
            ids,
            timer: None,
            resolver: Arc::new(SystemResolver),
            roots: Vec::new(),
        }
    }

    /// The caps and timeouts.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &EgressPolicy {
        &self.shared.policy
    }

    /// Makes a call; a status other than 2xx is an error.
    ///
    /// # Errors
    /// Those of [`HttpClient::exchange`], and by status: 401 `unauthenticated`, 402 `quota_exceeded`, 403 `forbidden`,
    /// 404 `not_found`, 408 and 504 `timeout`, 409 `conflict`, 413 `too_large`, 429 `rate_limited` with the time from
    /// `Retry-After`, other 4xx `invalid_argument`, 5xx `unavailable`, 3xx `egress_denied`; `details.status` has the
    /// number. For calls that must not happen twice, every 5xx except 501 and 505 is `outcome_unknown`.
    pub async fn request(&self, call: Call) -> Result<Reply> {
        let reply = self.exchange(call).await?;
        match reply.error() {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }

    /// Makes a call and returns the reply whatever its status, for callers that need more than the status;
    /// [`Reply::error`] is the error that [`HttpClient::request`] would return.
    ///
    /// # Errors
    /// `egress_denied` if the policy refuses; `too_large` for a request over its cap, or for such a reply to a call
    /// that changes nothing; `unavailable` without a connection, or with an untrusted certificate, a broken reply or an
    /// open breaker; `timeout`; `outcome_unknown` if the reply to a call that must not happen twice is lost.
    pub async fn exchange(&self, call: Call) -> Result<Reply> {
        let span = tracing::debug_span!(
            "http_call",
            otel.kind = "client",
            method = call.method.as_str(),
            origin = %call.origin,
            request_bytes = call.body.len(),
        );
        Box::pin(self.attempts(call)).instrument(span).await
    }

    async fn attempts(&self, call: Call) -> Result<Reply> {
        let shared = &*self.shared;
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(Error::internal(
                "an HTTP call needs a Tokio runtime with time and I/O; call from within one",
            ));
        }
        if call.body.len() > shared.limits.max_request_bytes {
            return Err(Error::too_large(
                "request body",
                call.body.len(),
                shared.limits.max_request_bytes,
                "bytes",
            ));
        }
        let listed = shared.policy.admit(&call.url, &call.origin)?;
        let timeout = call.timeout.unwrap_or(shared.limits.total_timeout).min(MAX_TIMEOUT);
        let deadline = shared.timer.now().saturating_add(timeout);
        let mut failures = 0_u32;
        loop {
            let permit = match shared.breakers.admit(&call.origin, shared.timer.now()) {
                Ok(permit) => permit,
                Err(wait) => return Err(left_alone(&call, wait)),
            };
            let left = deadline.saturating_sub(shared.timer.now());
            let unsent = Unsent::default();
            let outcome = match tokio::time::timeout(left, self.attempt(&call, listed, None, &unsent)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Failure::out_of_time(&call, timeout, unsent.claim())),
            };
            failures = failures.saturating_add(1);
            note(&call, failures, &outcome);
            let (repeats, retry_after) = match &outcome {
                Ok(reply) => {
                    let judged = call.judged(reply);
                    if reply.status >= 500 && judged.is_none() {
                        permit.failed(shared.timer.now());
                    } else {
                        permit.succeeded();
                    }
                    (judged.unwrap_or_else(|| reply.repeats()), reply.retry_after)
                }
                Err(failure) => {
                    if failure.counts {
                        permit.failed(shared.timer.now());
                    } else {
                        drop(permit);
                    }
                    (failure.repeats, None)
                }
            };
            let result = outcome.map_err(|failure| failure.error);
            if !repeats || failures >= shared.retry.attempts {
                return result;
            }
            let left = deadline.saturating_sub(shared.timer.now());
            match shared.retry.wait(failures, retry_after, &*shared.ids) {
                Some(wait) if wait < left => shared.timer.sleep(wait).await,
                _ => return result,
            }
        }
    }

    /// Makes a call with the body `upload`, only once, and returns the reply whatever its status.
    ///
    /// # Errors
    /// As [`HttpClient::exchange`].
    pub async fn upload(&self, call: Call, upload: Upload) -> Result<Reply> {
        let listed = self.shared.policy.admit(&call.url, &call.origin)?;
        let unsent = Unsent::default();
        self.once(&call, &unsent, self.attempt(&call, listed, Some(upload), &unsent)).await
    }

    /// Makes a call only once, and returns the reply before its body has arrived. The call's timeout covers everything
    /// up to then; the client's idle timeout applies between parts of the body.
    ///
    /// # Errors
    /// As [`HttpClient::exchange`].
    pub async fn download(&self, call: Call) -> Result<Download> {
        let listed = self.shared.policy.admit(&call.url, &call.origin)?;
        let unsent = Unsent::default();
        let attempt = async {
            let (mut reply, mut response) = self.send(&call, listed, None, &unsent).await?;
            if reply.is_success() {
                return Ok((reply, Some(response.into())));
            }
            reply.body = read(&mut response, &call, MAX_ERROR_BODY_BYTES).await.unwrap_or_default();
            Ok((reply, None))
        };
        let (reply, body) = self.once(&call, &unsent, attempt).await?;
        Ok(Download { reply, body, call })
    }

    /// Makes one attempt within the call's timeout.
    async fn once<T>(
        &self,
        call: &Call,
        unsent: &Unsent,
        attempt: impl Future<Output = std::result::Result<T, Failure>>,
    ) -> Result<T> {
        let shared = &*self.shared;
        let permit =
            shared.breakers.admit(&call.origin, shared.timer.now()).map_err(|wait| left_alone(call, wait))?;
        let timeout = call.timeout.unwrap_or(shared.limits.total_timeout).min(MAX_TIMEOUT);
        let outcome = match tokio::time::timeout(timeout, attempt).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::out_of_time(call, timeout, unsent.claim())),
        };
        match &outcome {
            Ok(_) => permit.succeeded(),
            Err(failure) if failure.counts => permit.failed(shared.timer.now()),
            Err(_) => {}
        }
        outcome.map_err(|failure| failure.error)
    }

    /// Sends a request; the reply has no body yet.
    async fn send(
        &self,
        call: &Call,
        listed: bool,
        upload: Option<Upload>,
        unsent: &Unsent,
    ) -> std::result::Result<(Reply, reqwest::Response), Failure> {
        let transport = if listed { &self.shared.listed } else { &self.shared.public };
        let mut request =
            transport.request(call.method.to_transport(), call.url.clone()).headers(call.all_headers());
        if let Some(upload) = upload {
            request = request.body(unsent.watch(reqwest::Body::wrap(UploadBody(upload.into()))));
        } else if !call.body.is_empty() {
            request = request.body(unsent.watch(call.body.clone().into()));
        } else {
            // The transport asks for no body, so nothing would show that it began.
            unsent.claim();
            if !matches!(call.method, Method::Get | Method::Delete) {
                request = request.body(call.body.clone());
            }
        }
        let mut response = request.send().await.map_err(|error| {
            if error.is_timeout() && unsent.claim() {
                return Failure::unconnected(call, true);
            }
            Failure::of_transport(error, call)
        })?;
        let mut reply = Reply {
            status: response.status().as_u16(),
            headers: std::mem::take(response.headers_mut()),
            body: Vec::new(),
            origin: call.origin.clone(),
            kind: call.kind,
            retry_after: None,
        };
        reply.retry_after =
            reply.header("retry-after").and_then(|value| parse_retry_after(value, self.shared.clock.now()));
        Ok((reply, response))
    }

    async fn attempt(
        &self,
        call: &Call,
        listed: bool,
        upload: Option<Upload>,
        unsent: &Unsent,
    ) -> std::result::Result<Reply, Failure> {
        let (mut reply, mut response) = self.send(call, listed, upload, unsent).await?;
        let limit = call.max_response_bytes.unwrap_or(self.shared.limits.max_response_bytes);
        if reply.is_success() {
            // A body that the transport decoded has lost this header; others would pass as text.
            if reply
                .header("content-encoding")
                .is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity"))
            {
                return Err(Failure::unread_encoding(call));
            }
            reply.body = read(&mut response, call, limit).await?;
        } else {
            // The status matters; a huge or broken body does not change it.
            reply.body = read(&mut response, call, limit.min(MAX_ERROR_BODY_BYTES)).await.unwrap_or_default();
        }
        Ok(reply)
    }
}

/// Reads the body up to `limit`.
async fn read(
    response: &mut reqwest::Response,
    call: &Call,
    limit: usize,
) -> std::result::Result<Vec<u8>, Failure> {
    let announced = response.content_length().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if let Some(announced) = announced.filter(|announced| *announced > limit) {
        return Err(Failure::too_large(call, announced, limit));
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| Failure::of_transport(error, call))? {
        let bytes = body.len().saturating_add(part.len());
        if bytes > limit {
            return Err(Failure::too_large(call, bytes, limit));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

fn left_alone(call: &Call, wait: Duration) -> Error {
    Error::unavailable(format!(
        "calls to {} are suspended after repeated failures; try again later",
        call.origin
    ))
    .with_detail("breaker", "open")
    .with_retry(Retry::After(wait))
}

/// One event per attempt, without content.
fn note(call: &Call, attempt: u32, outcome: &std::result::Result<Reply, Failure>) {
    match outcome {
        Ok(reply) => tracing::debug!(
            origin = %call.origin,
            attempt,
            status = reply.status,
            bytes = reply.body.len(),
            "http reply"
        ),
        Err(failure) => tracing::debug!(
            origin = %call.origin,
            attempt,
            code = failure.error.kind().code(),
            "http failure"
        ),
    }
}
