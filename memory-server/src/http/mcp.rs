//! MCP over Streamable HTTP: rmcp's transport, with a service for each token. A token's sessions do not exist for other
//! tokens. Only the token decides whom the tool serves, just as the operator does over standard input.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, Method, StatusCode};
use axum::response::Response;
use memory::audit::Auditor;
use memory::system::RandomIds;
use memory::{Memory, ToolOp};
use memory_api::{
    Authority, Caller, LATER, Metrics, Place, Share, Shares, bearer, cause, json, keeping, needs, refused,
    until,
};
use memory_core::{ChatModel, Error, ErrorKind, Op, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientJsonRpcMessage, ClientRequest, CustomRequest,
    CustomResult, ErrorData, GetPromptRequestParams, GetPromptResponse, InitializeRequestParams,
    InitializeResult, JsonRpcMessage, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::time::Instant;

use super::answers::{Answers, NOTHING, Resumable};
use crate::serve::wire::frame::{self, Arguments, Frame, MAX_ENVELOPE_BYTES};
use crate::serve::{Identity, MemoryServer, PURGE, Sessions};
use crate::terminal::{CredentialArgs, note};

/// Most sessions at a time, across all tokens.
const MAX_SESSIONS: usize = 1_024;
/// Most callers known at a time.
const MAX_SERVICES: usize = 1_024;
/// Time limit for reading the initial state of a run's scopes.
const BEGIN: Duration = Duration::from_secs(2);
/// A session unused for this long ends, and its run with it.
const IDLE: Duration = Duration::from_secs(3_600);

/// The header with which a client resumes a stream.
const LAST_EVENT: &str = "last-event-id";

type Service = StreamableHttpService<Door, Resumable>;

/// What every session needs.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) memory: Memory,
    pub(crate) auditor: Option<Arc<Auditor>>,
    pub(crate) credentials: CredentialArgs,
    pub(crate) interpreter: Option<Arc<dyn ChatModel>>,
    pub(crate) metrics: Arc<Metrics>,
    open: Mutex<BTreeMap<u64, Arc<Sessions>>>,
    next: AtomicU64,
}

impl Hub {
    pub(crate) fn new(memory: Memory, auditor: Option<Arc<Auditor>>, metrics: Arc<Metrics>) -> Self {
        Self {
            memory,
            auditor,
            credentials: CredentialArgs::default(),
            interpreter: None,
            metrics,
            open: Mutex::default(),
            next: AtomicU64::default(),
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Sessions>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run for a token.
    fn begin(self: &Arc<Self>, caller: &Caller) -> Result<Session> {
        let grant = caller.grant();
        let (Some(tenant), Some(agent)) = (grant.tenant.clone(), grant.agent.clone()) else {
            return Err(Error::new(
                ErrorKind::Forbidden,
                format!(
                    "the token `{}` names no agent, and MCP needs one whose memory it is: make a token with --agent",
                    caller.id()
                ),
            ));
        };
        let denied = caller.denied().collect();
        let identity = Identity {
            tenant,
            agent,
            user: grant.user.clone(),
            policy: caller.policy().clone(),
            trust_meta: false,
            credentials: self.credentials.clone(),
            runs: format!("{}-mcp-", caller.id()),
            denied,
            interpreter: self.interpreter.clone(),
        };
        let sessions =
            Arc::new(Sessions::begin(self.memory.clone(), identity, self.auditor.clone(), &RandomIds)?);
        let number = self.next.fetch_add(1, Relaxed);
        self.open().insert(number, Arc::clone(&sessions));
        Ok(Session {
            server: MemoryServer::new(Arc::clone(&sessions)),
            sessions,
            number,
            hub: Arc::clone(self),
        })
    }

    /// Ends every run when the server ends, by the given time.
    pub(crate) async fn end(&self, over: Instant) {
        let mut ending = tokio::task::JoinSet::new();
        for sessions in std::mem::take(&mut *self.open()).into_values() {
            ending.spawn(async move { sessions.end(over.saturating_duration_since(Instant::now())).await });
        }
        while let Some(ended) = ending.join_next().await {
            if let Ok(Err(error)) = ended {
                note(&format!("memory: {error}"));
            }
        }
    }
}

/// A run, which ends when it is dropped.
struct Session {
    server: MemoryServer,
    sessions: Arc<Sessions>,
    number: u64,
    hub: Arc<Hub>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // If the server has ended, it has already ended the run.
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && self.hub.open().contains_key(&self.number)
        {
            let (sessions, hub, number) = (Arc::clone(&self.sessions), Arc::clone(&self.hub), self.number);
            runtime.spawn(async move {
                if let Err(error) = sessions.end(PURGE).await {
                    note(&format!("memory: {error}"));
                }
                // Removed only now, so that the server's end waits for this.
                hub.open().remove(&number);
            });
        }
    }
}

/// The server of one MCP session, or of a single request from a client without a session.
pub(crate) struct Door {
    /// The run of such requests: one per token, for as long as the server runs.
    shared: Arc<Session>,
    own: OnceLock<(Session, Arc<Share>)>,
    hub: Arc<Hub>,
    caller: Arc<Caller>,
}

impl Door {
    fn server(&self) -> &MemoryServer {
        &self.own.get().map_or(&*self.shared, |(own, _)| own).server
    }
}

/// What [`Mcp::examine`] attached to a message.
fn beside<T: Clone + Send + Sync + 'static>(context: &RequestContext<RoleServer>) -> Option<T> {
    context.extensions.get::<Parts>()?.extensions.get::<T>().cloned()
}

impl Drop for Door {
    fn drop(&mut self) {
        if self.own.get().is_some() {
            self.hub.metrics.sessions.fetch_sub(1, Relaxed);
        }
    }
}

impl rmcp::ServerHandler for Door {
    fn get_info(&self) -> ServerConfig {
        self.server().get_info()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let place = beside::<Arc<Share>>(&context)
            .ok_or_else(|| ErrorData::internal_error("the session has no place", None))?;
        let session = self.hub.begin(&self.caller).map_err(|error| {
            note(&format!("memory: an MCP session cannot begin: {error}"));
            ErrorData::internal_error("the session cannot begin; try again later", None)
        })?;
        // If the store cannot be asked now, the first call will ask it.
        let _ = tokio::time::timeout(BEGIN, session.sessions.default_tool().begin()).await;
        if self.own.set((session, place)).is_ok() {
            self.hub.metrics.sessions.fetch_add(1, Relaxed);
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.server().list_tools(request, context).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server().get_tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (op, begun) = (beside::<Op>(&context), Instant::now());
        let called = self.server().call_tool(request, context).await;
        op.into_iter().for_each(|op| self.caller.took(op, begun.elapsed()));
        called
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.server().list_resources(request, context).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.server().list_resource_templates(request, context).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.server().read_resource(request, context).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.server().list_prompts(request, context).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.server().get_prompt(request, context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.server().on_custom_request(request, context).await
    }
}

/// The endpoint.
pub(crate) struct Mcp {
    hub: Arc<Hub>,
    authority: Arc<Authority>,
    sessions: Arc<Shares>,
    /// Streams that wait for events, each on its own connection.
    standing: Arc<Shares>,
    transport: StreamableHttpServerConfig,
    answers: Arc<Answers>,
    /// By caller, with the time of last use.
    services: Mutex<BTreeMap<String, (Service, Instant)>>,
}

impl Mcp {
    /// `connections` is the server's maximum, of which standing streams may take half.
    pub(crate) fn new(hub: Arc<Hub>, authority: Arc<Authority>, connections: usize) -> Self {
        // Host, Origin and the body's size have been checked earlier, for every path.
        let transport = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_json_response(true)
            .with_max_request_body_bytes(2 * MAX_ENVELOPE_BYTES);
        let sessions = Shares::new("open MCP sessions", MAX_SESSIONS, LATER);
        let standing = Shares::new("open MCP streams", (connections / 2).max(1), LATER);
        let (answers, services) = (Arc::default(), Mutex::default());
        Self { hub, authority, sessions, standing, transport, answers, services }
    }

    /// Ends every stream, so that connections can close.
    pub(crate) fn stop(&self) {
        self.transport.cancellation_token.cancel();
    }

    fn service(&self, caller: &Arc<Caller>) -> Result<Service> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((service, used)) = services.get_mut(caller.id()) {
            *used = Instant::now();
            return Ok(service.clone());
        }
        if services.len() >= MAX_SERVICES {
            // Its sessions end, and its clients begin new ones.
            let oldest = services.iter().min_by_key(|(_, (_, used))| *used).map(|(id, _)| id.clone());
            oldest.and_then(|id| services.remove(&id));
        }
        let (hub, owner) = (Arc::clone(&self.hub), Arc::clone(caller));
        let shared = Arc::new(hub.begin(caller)?);
        let sessions = Resumable::new(&self.answers, caller.shared_id(), IDLE);
        let door = move || {
            let (shared, hub, caller) = (Arc::clone(&shared), Arc::clone(&hub), Arc::clone(&owner));
            Ok(Door { shared, own: OnceLock::new(), hub, caller })
        };
        let service = StreamableHttpService::new(door, Arc::new(sessions), self.transport.clone());
        services.insert(caller.id().to_owned(), (service.clone(), Instant::now()));
        Ok(service)
    }

    async fn answer(&self, caller: &Arc<Caller>, request: Request) -> Result<Response> {
        let service = self.service(caller)?;
        let (mut parts, mut body) = request.into_parts();
        let ends = parts.method == Method::DELETE;
        let mut place = None;
        let last = parts.headers.get(LAST_EVENT).and_then(|id| id.to_str().ok()).unwrap_or(NOTHING);
        let is_kept = last == NOTHING || self.answers.has(caller.id(), last);
        if last == NOTHING {
            parts.headers.remove(LAST_EVENT);
        }
        let standing = match parts.method {
            Method::GET => Some((self.standing.take(caller, 1)?, bearer(&parts.headers).map(str::to_owned))),
            _ => None,
        };
        if parts.method == Method::POST {
            // The answer may be a stream. One that waits for events, as for GET, takes no place among requests in
            // flight.
            place = parts.extensions.get::<Place>().cloned();
            let limit = caller.policy().max_input_bytes.saturating_add(MAX_ENVELOPE_BYTES);
            let bytes = to_bytes(body, usize::MAX).await.map_err(|error| cause(&error))?;
            if bytes.len() > limit {
                return Err(Error::too_large("body", bytes.len(), limit, "bytes"));
            }
            let mut message = match frame::read(&bytes) {
                Frame::Message(message) => message,
                Frame::Refused(text) => return Ok(json(StatusCode::BAD_REQUEST, text)),
                Frame::Empty => return Err(Error::invalid("the body has no message")),
            };
            drop(bytes);
            self.examine(caller, &mut message, &mut parts.extensions)?;
            let text = serde_json::to_vec(&message)
                .map_err(|error| Error::internal("a message cannot be serialized").with_source(error))?;
            parts.headers.remove(axum::http::header::CONTENT_LENGTH);
            body = Body::from(Bytes::from(text));
        }
        let mut response = service.handle(Request::from_parts(parts, body)).await.map(Body::new);
        // Clients take the transport's 202 for a failure; they expect 200 or 204.
        if ends && response.status() == StatusCode::ACCEPTED {
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        // The transport would answer an empty stream, which clients would try to resume again and again.
        if standing.is_some() && !is_kept && response.status() == StatusCode::OK {
            return Err(Error::invalid(
                "what came after this `Last-Event-ID` is not kept; read what the call has done, or call again",
            ));
        }
        let Some((share, token)) = standing else { return Ok(response.map(|body| keeping(body, place))) };
        let authority = Arc::clone(&self.authority);
        let is_over = move || token.as_ref().is_none_or(|token| !authority.holds(token));
        Ok(response.map(|body| keeping(until(body, is_over), share)))
    }

    /// Attaches to a message what its handler needs: for a session its place; for a call its arguments, which the
    /// transport would otherwise parse, and its operation if the caller may do it. Counts the call.
    fn examine(
        &self,
        caller: &Caller,
        message: &mut ClientJsonRpcMessage,
        beside: &mut Extensions,
    ) -> Result<()> {
        let JsonRpcMessage::Request(request) = message else { return Ok(()) };
        match &mut request.request {
            ClientRequest::InitializeRequest(_) => {
                beside.insert(Arc::new(self.sessions.take(caller, 1)?));
            }
            ClientRequest::CallToolRequest(call) => {
                let Some(arguments) = call.extensions.remove::<Arguments>() else { return Ok(()) };
                // If the caller may not do it, the tool refuses in its own words.
                if let Some(op) = named(&arguments.0).and_then(needs)
                    && caller.may_do(op).is_ok()
                {
                    beside.insert(op);
                }
                beside.insert(arguments);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Answers a request to the MCP endpoint.
pub(crate) async fn handle(
    State(mcp): State<Arc<Mcp>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Response {
    mcp.answer(&caller, request).await.unwrap_or_else(|error| refused(&error))
}

/// The operation of a call.
fn named(arguments: &str) -> Option<ToolOp> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        op: Cow<'a, str>,
    }
    let call: Call<'_> = serde_json::from_str(arguments).ok()?;
    ToolOp::ALL.iter().copied().find(|op| op.as_str() == call.op)
}
