//! The provider: each request of a facet as a request over HTTP.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use memory_core::interposed::frames::{Item, Lines, Read, Written};
use memory_core::sql::TxId;
use memory_core::{
    Capabilities, Clock, EmbeddingOwner, Error, ErrorKind, Exchange, Failure, Health, HealthStatus, IdGen,
    Op, Proxy, Reply, Request, Result, RunContext, Scope,
};
use memory_http::{
    BreakerPolicy, Call, CallKind, Credential, EgressPolicy, Endpoint, HttpClient, Limits, Method,
    Reply as HttpReply,
};
use serde::Deserialize;

use crate::config::RemoteOptions;
use crate::streams::{Cause, Noted, Timed};

/// Largest request, streams apart: what a server accepts.
const MAX_REQUEST_BYTES: usize = 80 << 20;
/// The type of a request's body, streams apart.
const JSON: &str = "application/json";
/// Time for an answer of the server besides what a statement may take.
const MARGIN: Duration = Duration::from_secs(10);

/// A store behind a server.
pub type RemoteProvider = Proxy<Remote>;

/// The connection to a server.
#[derive(Clone, Debug)]
pub struct Remote {
    http: HttpClient,
    endpoint: Endpoint,
    credential: Option<Credential>,
    options: RemoteOptions,
    /// Whose time is sent along; `None`: no time is.
    clock: Option<Arc<dyn Clock>>,
    name: String,
    capabilities: Capabilities,
}

/// Asks a server what it serves, and connects to it.
///
/// # Errors
/// `invalid_argument` for options out of range; `egress_denied` if the policy does not allow the address;
/// `unauthenticated` if the token is missing or refused; `unavailable` if the server does not answer.
pub async fn open(
    options: RemoteOptions,
    policy: EgressPolicy,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
) -> Result<RemoteProvider> {
    options.check()?;
    let told = options.tell_clock.then(|| Arc::clone(&clock));
    let limits = Limits {
        max_request_bytes: MAX_REQUEST_BYTES,
        max_response_bytes: options.max_reply_bytes,
        idle_timeout: options.stream_timeout().max(options.write_timeout()),
        ..Limits::default()
    };
    let http = HttpClient::builder(policy, clock, ids)
        .limits(limits)
        // One server, restarted more often than lost: it is asked again soon.
        .breaker(BreakerPolicy { cooldown: Duration::from_secs(1), ..BreakerPolicy::default() })
        .trust_file(options.ca_file.as_deref())?
        .build()?;
    let endpoint = Endpoint::parse(&options.base_url)?;
    let credential =
        options.token()?.map(|token| Credential::bearer(endpoint.origin().clone(), &token)).transpose()?;
    let (name, capabilities) = (String::new(), Capabilities::none());
    let mut remote = Remote { http, endpoint, credential, options, clock: told, name, capabilities };
    remote.meet().await?;
    Ok(Proxy::new(remote))
}

/// What `/v1/capabilities` answers.
#[derive(Deserialize)]
struct Served {
    provider: String,
    capabilities: Capabilities,
}

impl Remote {
    async fn meet(&mut self) -> Result<()> {
        let url = self.endpoint.url(&["v1", "capabilities"], &[])?;
        let call = self.authorized(Call::new(Method::Get, &url)?.timeout(self.options.timeout()))?;
        let reply = self.http.exchange(call).await?;
        if !reply.is_success() {
            let error = error_of(&reply);
            // What the server says to do is for who writes requests.
            return Err(if self.credential.is_none() && error.kind() == ErrorKind::Unauthenticated {
                Error::unauthenticated(
                    "the server asks for a token; say where it is, as `?api_key=env:MEMORY_TOKEN` at the end of the URL",
                )
            } else {
                error
            });
        }
        let Served { provider, mut capabilities } = reply.trusted_json()?;
        // A live handle, and tables of the host, do not cross.
        capabilities.read_snapshot = false;
        capabilities.host_tables = false;
        if capabilities.embedding == EmbeddingOwner::Embedder {
            capabilities.embedding = EmbeddingOwner::Remote;
        }
        self.name = provider;
        self.capabilities = capabilities;
        Ok(())
    }

    fn authorized(&self, mut call: Call) -> Result<Call> {
        if let Some(clock) = &self.clock {
            call = call.header("memory-clock", &clock.now().as_millis().to_string())?;
        }
        match &self.credential {
            Some(credential) => call.credential(credential.clone()),
            None => Ok(call),
        }
    }

    fn call(&self, op: Op, timeout: Duration) -> Result<Call> {
        let url = self.endpoint.url(&["v1", "ops", op.as_str()], &[])?;
        let kind = if op.is_read() { CallKind::Safe } else { CallKind::NotIdempotent };
        self.authorized(Call::new(Method::Post, &url)?.kind(kind).timeout(timeout).judged_by(judge))
    }

    fn timeout(&self, request: &Request) -> Duration {
        let usual =
            if request.op().is_read() { self.options.timeout() } else { self.options.write_timeout() };
        match request {
            Request::Exec { options, .. } | Request::Query { options, .. } => {
                let own = options.timeout.map_or(Duration::ZERO, |own| own.saturating_add(MARGIN));
                usual.max(own)
            }
            _ => usual,
        }
    }

    /// A call whose arguments and reply are JSON.
    async fn ask(&self, request: Request) -> Result<Reply> {
        let op = request.op();
        let call = self.call(op, self.timeout(&request))?.body(JSON, text(&request)?)?;
        // A request may have a stream, which is not shared between threads.
        drop(request);
        let reply = self.http.exchange(call).await?;
        read(op, &reply)
    }

    /// Begins a transaction. A server cannot know that its caller stopped waiting, so the call ends by itself, and a
    /// transaction that nobody heard of is rolled back.
    async fn begin(&self, run: RunContext, scope: Scope, parent: Option<TxId>) -> Result<Reply> {
        let (remote, (told, heard)) = (self.clone(), tokio::sync::oneshot::channel());
        tokio::spawn(async move {
            let request = Request::Begin { run: run.clone(), scope: scope.clone(), parent };
            if let Err(Ok(Reply::Begin(begun))) = told.send(remote.ask(request).await) {
                let _ = remote.ask(Request::Rollback { run, scope, tx: begun.tx }).await;
            }
        });
        heard.await.unwrap_or_else(|error| {
            Err(lost(Error::internal("the call was ended before its reply").with_source(error)))
        })
    }

    /// A call that is sent a stream.
    async fn send<T: Item>(
        &self,
        op: Op,
        arguments: String,
        items: Pin<Box<dyn Stream<Item = Result<T>> + Send>>,
    ) -> Result<Reply> {
        let cause = Cause::default();
        let items = Noted { items, cause: cause.clone() };
        let call =
            self.call(op, self.options.stream_timeout())?.header("content-type", "application/x-ndjson")?;
        let upload = Box::pin(Written::new(Some(&arguments), Box::pin(items)));
        let sent = self.http.upload(call, upload).await;
        match cause.take() {
            Some(error) => Err(error),
            None => read(op, &sent?),
        }
    }

    /// A call that returns a stream.
    async fn receive<T: Item>(
        &self,
        op: Op,
        arguments: String,
    ) -> Result<Pin<Box<dyn Stream<Item = Result<T>> + Send>>> {
        let call = self.call(op, self.options.stream_timeout())?.body(JSON, arguments)?;
        let download = self.http.download(call).await?;
        if !download.reply().is_success() {
            return Err(error_of(download.reply()));
        }
        let items = Box::pin(Read::<T, _>::new(Lines::new(download)));
        Ok(Box::pin(Timed::new(items, self.options.stream_timeout())))
    }
}

#[async_trait]
impl Exchange for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn exchange(&self, request: Request) -> Result<Reply> {
        match request {
            Request::ReadSnapshot {} => Err(Error::unsupported(Op::ReadSnapshot.as_str(), &self.name)),
            Request::Health {} => Ok(Reply::Health(health(self.ask(request).await)?)),
            Request::ExportScope { .. }
            | Request::Dump { .. }
            | Request::ImportScope { .. }
            | Request::Restore { .. } => {
                let (op, arguments) = (request.op(), text(&request)?);
                match request {
                    Request::ImportScope { records, .. } => self.send(op, arguments, records).await,
                    Request::Restore { dump, .. } => self.send(op, arguments, dump).await,
                    Request::Dump { .. } => self.receive(op, arguments).await.map(Reply::Dump),
                    _ => self.receive(op, arguments).await.map(Reply::ExportScope),
                }
            }
            Request::Begin { run, scope, parent } => self.begin(run, scope, parent).await,
            request => self.ask(request).await,
        }
    }
}

/// A server that cannot be asked is down.
fn health(asked: Result<Reply>) -> Result<Health> {
    match asked {
        Ok(Reply::Health(health)) => Ok(health),
        Ok(_) => Err(Error::internal("a reply was read as that of another call")),
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
            Ok(Health::new(HealthStatus::Down, error.message().to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn text(request: &Request) -> Result<String> {
    serde_json::to_string(request)
        .map_err(|error| Error::internal("a request has no JSON form").with_source(error))
}

fn read(op: Op, reply: &HttpReply) -> Result<Reply> {
    if !reply.is_success() {
        return Err(error_of(reply));
    }
    let text = std::str::from_utf8(reply.body())
        .map_err(|error| Error::corrupt("the reply is not UTF-8; check the server").with_source(error));
    text.and_then(|text| Reply::from_json(op, text)).map_err(|error| {
        let error = reply.page_error().unwrap_or(error);
        if op.is_read() { error } else { lost(error) }
    })
}

/// `outcome_unknown`: the reply to a write cannot be read.
fn lost(error: Error) -> Error {
    Error::outcome_unknown(format!(
        "{}; the call may have had its effect, so read before calling again",
        error.message()
    ))
    .with_source(error)
}

/// What a server answers instead of a reply.
#[derive(Deserialize)]
struct Refusal {
    error: Failure,
}

fn refusal(reply: &HttpReply) -> Option<Failure> {
    serde_json::from_slice::<Refusal>(reply.body()).ok().map(|refusal| refusal.error)
}

/// The server's own refusal, or what the status says.
fn error_of(reply: &HttpReply) -> Error {
    match refusal(reply) {
        Some(failure) => failure.into(),
        None => reply.error().unwrap_or_else(|| Error::internal("a reply was read as a refusal")),
    }
}

/// The server has answered, so the caller decides about repeating it.
fn judge(reply: &HttpReply) -> Option<bool> {
    refusal(reply).map(|_| false)
}
