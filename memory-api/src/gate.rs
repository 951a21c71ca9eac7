//! What every request has to pass: checks of Host and Origin, a place among those in flight, its token, its rate, and
//! limits on size and time.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header, uri};
use axum::response::Response;
use memory::StateOp;
use memory::config::HttpSection;
use memory_core::{Error, ErrorKind, Op, Result, Retry};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use crate::authority::Authority;
use crate::body::{bearer, guarded, is_sent_unasked, linger, only, token_of};
use crate::boxed::Boxed;
use crate::caller::{Caller, needs};
use crate::jwt::{challenge, is_jwt};
use crate::metrics::{Metrics, Refused, Route};
use crate::place::shares::{LATER, SOON, Shares};
use crate::place::{Place, Tally};
use crate::recording::Reads;
use crate::refusal::{late, refused};
use crate::span;

/// What is known of an admitted request.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// `None`: the request needs no token.
    pub caller: Option<Arc<Caller>>,
    pub place: Place,
    pub reads: Reads,
    op: Option<Op>,
}

/// How the server is reached, and hooks of the program around this crate.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Whether only this machine connects, without a proxy; then `Host` must name it.
    pub local: bool,
    /// The scheme of its own pages; `None` if a proxy decides.
    pub scheme: Option<&'static str>,
    /// Whether a path belongs to the operator's page, which identifies callers by its sessions.
    pub is_page: fn(&str) -> bool,
    /// Makes the span of a request part of the trace that its headers name.
    pub continues: fn(&Span, &HeaderMap),
}

/// What decides about requests.
#[derive(Debug)]
pub struct Gate {
    authority: Arc<Authority>,
    metrics: Arc<Metrics>,
    limits: HttpSection,
    in_flight: Arc<Semaphore>,
    /// How many of them one token may take; `None` if there is only one.
    shares: Option<Arc<Shares>>,
    /// Those that clients may hold by sending streams slowly.
    streams: Arc<Shares>,
    /// Bytes of bodies in memory.
    bodies: Arc<Shares>,
    /// Places for requests to the page, which cannot take those of other requests.
    of_page: Arc<Semaphore>,
    /// Places for sign-in forms, which anybody may send.
    of_login: Arc<Semaphore>,
    /// Whether the server is about to end and takes no new clients.
    draining: AtomicBool,
    around: Around,
}

impl Gate {
    /// A gate that admits callers known to the authority, within these limits.
    #[must_use]
    pub fn new(
        authority: Arc<Authority>,
        metrics: Arc<Metrics>,
        limits: HttpSection,
        around: Around,
    ) -> Self {
        let in_flight = Arc::new(Semaphore::new(limits.max_in_flight));
        let [of_page, of_login] = [OF_PAGE; 2].map(|most| Arc::new(Semaphore::new(most)));
        let most = limits.max_in_flight;
        let shares = (most > 1).then(|| Shares::new("requests being answered", most, SOON));
        let streams = Shares::new("streams on their way to this server", (most / 2).max(1), LATER);
        let bodies = Shares::new("bytes of bodies in memory", BODIES * limits.max_body_bytes, SOON);
        Self {
            authority,
            metrics,
            limits,
            in_flight,
            shares,
            streams,
            bodies,
            of_page,
            of_login,
            draining: AtomicBool::new(false),
            around,
        }
    }

    /// From now on, reports the server as not ready and ends each connection after its next answer.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Whether it is.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// The counters of the server.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub(crate) fn limits(&self) -> &HttpSection {
        &self.limits
    }

    /// Resolves once no request is in flight.
    pub fn idle(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            let all = u32::try_from(self.limits.max_in_flight).unwrap_or(u32::MAX);
            let _ = self.in_flight.acquire_many(all).await;
            for places in [&self.of_page, &self.of_login] {
                let _ = places.acquire_many(u32::try_from(OF_PAGE).unwrap_or(u32::MAX)).await;
            }
        })
    }

    /// Guards against DNS rebinding: another site's page whose name resolves to this machine sends its own name as
    /// Host. Also refuses pages of other sites in general.
    fn check_names(&self, request: &Request) -> Result<()> {
        let forbidden = |why: &'static str| Error::new(ErrorKind::Forbidden, why);
        let headers = request.headers();
        let host = only(headers, header::HOST)?
            .and_then(|host| host.parse::<uri::Authority>().ok())
            .filter(is_plain)
            .ok_or_else(|| Error::invalid("the request has no valid Host; send one"))?;
        let named = [Some(&host), request.uri().authority()];
        if self.around.local && named.into_iter().flatten().any(|name| !is_loopback(name.host())) {
            return Err(forbidden(
                "this server is reached by loopback alone: use 127.0.0.1 or localhost; behind a proxy start it with \
                 --behind-proxy",
            ));
        }
        if let Some(origin) = only(headers, header::ORIGIN)? {
            let own = origin.split_once("://").is_some_and(|(scheme, site)| {
                site == host.as_str() && self.around.scheme.is_none_or(|own| own == scheme)
            });
            if !own {
                return Err(forbidden("pages of other sites are not served"));
            }
        }
        Ok(())
    }

    /// A coding that is not undone here would be taken for part of the body.
    fn check_framing(headers: &HeaderMap) -> Result<()> {
        match only(headers, header::TRANSFER_ENCODING)? {
            Some(coding) if !coding.eq_ignore_ascii_case("chunked") => Err(Error::invalid(
                "a body comes as it is, with `Transfer-Encoding: chunked` or `Content-Length`",
            )),
            _ => Ok(()),
        }
    }

    /// Whether a path needs neither a token nor a place: health, readiness, and what OAuth clients are told.
    fn is_public(&self, path: &str) -> bool {
        matches!(path, "/healthz" | "/readyz")
            || self.authority.resource().is_some_and(|resource| resource.path == path)
    }

    /// The caller, if the request has to identify one.
    fn authenticate(&self, request: &Request, peer: Option<SocketAddr>) -> Result<Option<Arc<Caller>>> {
        let path = request.uri().path();
        // The page identifies callers by its sessions.
        if self.is_public(path) || (self.around.is_page)(path) {
            return Ok(None);
        }
        if path == "/metrics" && self.around.local && peer.is_some_and(|peer| peer.ip().is_loopback()) {
            return Ok(None);
        }
        let missing = || {
            Error::new(
                ErrorKind::Unauthenticated,
                "a token is needed: send `Authorization: Bearer TOKEN`; the operator makes one by `memory token create NAME`",
            )
        };
        let given = only(request.headers(), header::AUTHORIZATION)?.ok_or_else(missing)?;
        let text = token_of(given).ok_or_else(missing)?;
        let caller = self.authority.caller(text)?;
        if path == "/metrics" && caller.grant().tenant.is_some() {
            return Err(Error::new(
                ErrorKind::Forbidden,
                "metrics are the operator's: use a token made with --all-tenants",
            ));
        }
        Ok(Some(caller))
    }

    /// A stream is limited only by the size of each item and by the client's pauses.
    fn max_body_bytes(&self, op: Option<Op>) -> usize {
        if takes_stream(op) { usize::MAX } else { self.limits.max_body_bytes }
    }

    /// Everything before the handler.
    fn admit(&self, request: &Request, peer: Option<SocketAddr>) -> Result<Admitted, (Refused, Error)> {
        self.check_names(request).map_err(|error| (Refused::Host, error))?;
        Self::check_framing(request.headers()).map_err(|error| (Refused::Framing, error))?;
        let busy = || {
            let error = Error::new(
                ErrorKind::Unavailable,
                format!("{} requests are being answered, as many as allowed", self.limits.max_in_flight),
            );
            (Refused::Busy, error.with_retry(Retry::After(SOON)))
        };
        let caller = self.authenticate(request, peer).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::RateLimited | ErrorKind::Unavailable => of_limit(&error),
                _ => Refused::Unauthenticated,
            };
            (why, error)
        })?;
        let places = match request.uri().path() {
            // A busy server is alive, and must be able to say how busy it is.
            path if self.is_public(path) || path == "/metrics" => None,
            "/login" => Some(&self.of_login),
            path if (self.around.is_page)(path) => Some(&self.of_page),
            _ => Some(&self.in_flight),
        };
        let op = op_of(request);
        let place = match places {
            None => Place::NONE,
            Some(places) => {
                let take = |shares: Option<&Arc<Shares>>| {
                    let share = shares.zip(caller.as_ref()).map(|(shares, caller)| shares.take(caller, 1));
                    share.transpose().map_err(|error| (of_limit(&error), error))
                };
                let stream = take(takes_stream(op).then_some(&self.streams))?;
                let share = take(self.shares.as_ref())?;
                let permit = Arc::clone(places).try_acquire_owned().map_err(|_| busy())?;
                Place::new(permit, [share, stream])
            }
        };
        let limit = self.max_body_bytes(op);
        let announced = request.body().size_hint().lower();
        if announced > u64::try_from(limit).unwrap_or(u64::MAX) {
            let announced = usize::try_from(announced).unwrap_or(usize::MAX);
            return Err((Refused::Size, Error::too_large("body", announced, limit, "bytes")));
        }
        Ok(Admitted { caller, place, reads: Reads::new(reads(request)), op })
    }

    /// Answers a request from this address: `next` handles it if it is admitted.
    pub(crate) async fn pass<F>(
        &self,
        request: Request,
        peer: Option<SocketAddr>,
        next: impl FnOnce(Request, Admitted) -> F,
    ) -> Response
    where
        F: Future<Output = Response>,
    {
        let begun = Instant::now();
        // Waiting for an issuer's keys does not count.
        let mut started = begun;
        let route = Route::of(request.uri().path());
        let span = span::of(&request, route, || op_of(&request));
        (self.around.continues)(&span, request.headers());
        self.metrics.in_flight.fetch_add(1, Relaxed);
        let counted = InFlight(&self.metrics);
        if self.authority.takes_jwt()
            && let Some(jwt) = bearer(request.headers()).filter(|text| is_jwt(text)).map(str::to_owned)
        {
            self.authority.prepare(&jwt).await;
            started = Instant::now();
        }
        let response = match self.admit(&request, peer) {
            Ok(admitted) => {
                let (op, place, reads) = (admitted.op, admitted.place.clone(), admitted.reads.clone());
                let lingers = !request.body().is_end_stream() && is_sent_unasked(request.headers());
                let request = request.map(|body| {
                    if body.is_end_stream() {
                        return body;
                    }
                    let tally = admitted.caller.clone().map(|caller| {
                        Tally::new(place.clone(), Arc::clone(&self.bodies), caller, takes_stream(op))
                    });
                    guarded(body, self.max_body_bytes(op), self.limits.body_timeout(), lingers, tally)
                });
                let limit = if takes_stream(op) { STREAM } else { self.limits.request_timeout() };
                // Large, so it is pinned in place while other futures wrap it.
                let mut next = pin!(next(request, admitted));
                let answering = place.scope(next.as_mut()).instrument(span.clone());
                let answered = tokio::time::timeout_at(started + limit, answering).await;
                answered.unwrap_or_else(|_| {
                    self.metrics.refused(Refused::Timeout);
                    refused(&late(reads.told()))
                })
            }
            Err((why, error)) => {
                self.metrics.refused(why);
                let resource = self.authority.resource().filter(|_| route == Route::Mcp);
                let asked =
                    challenge(resource, bearer(request.headers()).is_some_and(|text| !text.is_empty()));
                if is_sent_unasked(request.headers()) {
                    linger(request.into_body().into_data_stream());
                }
                let mut response = refused(&error);
                let headers = response.headers_mut();
                if error.kind() == ErrorKind::Unauthenticated {
                    headers.insert(header::WWW_AUTHENTICATE, asked);
                }
                if why == Refused::Host {
                    headers.remove(header::WWW_AUTHENTICATE);
                }
                if why == Refused::Framing {
                    // Others on the way may see another end of this request.
                    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
        };
        span::answered(&span, response.status());
        self.metrics.answered(route, response.status().as_u16(), begun.elapsed());
        drop(counted);
        response
    }
}

/// Which limit caused an error.
fn of_limit(error: &Error) -> Refused {
    if error.kind() == ErrorKind::RateLimited { Refused::Rate } else { Refused::Busy }
}

/// Most requests to the page answered at a time, and most sign-in forms.
const OF_PAGE: usize = 32;
/// How many bodies of the largest size may be in memory.
const BODIES: usize = 8;
/// Time limit for a stream that a client sends.
const STREAM: Duration = Duration::from_secs(24 * 3_600);

/// The operation that a path below `/v1` names.
fn op_of(request: &Request) -> Option<Op> {
    let name = request.uri().path().strip_prefix("/v1/ops/")?;
    Op::ALL.iter().copied().find(|op| op.as_str() == name)
}

/// Whether a request changes nothing, as far as its head tells.
fn reads(request: &Request) -> bool {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return true;
    }
    let parts: Vec<&str> = request.uri().path().split('/').collect();
    let needed = match *parts {
        ["", "v1", "tenants", _, "agents", _, name] => {
            StateOp::ALL.iter().find(|op| op.as_str() == name).and_then(|op| needs(op.like()))
        }
        _ => op_of(request),
    };
    needed.is_some_and(Op::is_read)
}

fn takes_stream(op: Option<Op>) -> bool {
    matches!(op, Some(Op::ImportScope | Op::Restore))
}

/// Counts down even if the client has gone and nothing is answered.
struct InFlight<'a>(&'a Metrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Relaxed);
    }
}

/// Whether it is a name and at most a port: no user before it, and no port that is none.
fn is_plain(host: &uri::Authority) -> bool {
    let port = host.as_str().strip_prefix(host.host());
    port.is_some_and(|port| port.is_empty() || host.port().is_some())
}

/// Whether a host in a URL means this machine, whatever a name server says.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use memory::system::SystemClock;
    use memory_core::Clock as _;

    use super::*;
    use crate::caller::Grant;
    use crate::rules::Rules;
    use crate::token::Token;
    use crate::tokens::TokenFile;

    #[tokio::test]
    async fn what_a_handler_tells_decides_what_is_said_of_a_batch_that_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("tokens"));
        let now = SystemClock.now();
        let (text, token) = Token::make("ci".to_owned(), Grant::default(), now).unwrap();
        file.create(token, now).unwrap();
        let (metrics, clock) = (Arc::new(Metrics::default()), Arc::new(SystemClock));
        let rules = Arc::new(Rules::default());
        let authority = Arc::new(Authority::new(file, None, rules, clock, Arc::clone(&metrics), |_| ()));
        let mut limits = HttpSection::default();
        limits.request_timeout_ms = 1;
        let around = Around { local: true, scheme: Some("http"), is_page: |_| false, continues: |_, _| () };
        let gate = Gate::new(authority, metrics, limits, around);
        for (told, code) in
            [(None, "outcome_unknown"), (Some(false), "outcome_unknown"), (Some(true), "timeout")]
        {
            let request = Request::post("/v1/batch")
                .header(header::HOST, "127.0.0.1")
                .header(header::AUTHORIZATION, format!("Bearer {text}"))
                .body(Body::empty())
                .unwrap();
            let next = |_, admitted: Admitted| async move {
                told.into_iter().for_each(|reads| admitted.reads.tell(reads));
                std::future::pending().await
            };
            let body = gate.pass(request, None, next).await.into_body();
            let body: serde_json::Value =
                serde_json::from_slice(&to_bytes(body, 10_000).await.unwrap()).unwrap();
            assert_eq!(body["error"]["code"], code, "{told:?}");
        }
    }

    #[test]
    fn only_names_that_no_name_server_decides_about_are_this_machine() {
        for own in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "10.0.0.1", "[::2]", ""] {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn a_request_that_only_reads_is_known_by_its_head() {
        let reads = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(axum::body::Body::empty());
            super::reads(&request.unwrap())
        };
        for path in
            ["/v1/ops/get", "/v1/tenants/acme/agents/ann/shared", "/v1/tenants/a/agents/b/recall_graph"]
        {
            assert!(reads("POST", path), "{path}");
        }
        for path in [
            "/v1/ops/set",
            "/v1/batch",
            "/mcp",
            "/v1/tenants/acme/agents/ann/note",
            "/v1/tenants/a/agents/b/get",
        ] {
            assert!(!reads("POST", path), "{path}");
        }
        let entry = "/v1/tenants/acme/agent/agents/entries/shared";
        assert!(reads("GET", entry) && !reads("PUT", entry) && !reads("DELETE", entry));
    }
}
