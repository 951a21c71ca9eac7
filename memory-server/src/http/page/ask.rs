//! What all views share: asking the API as the token that signed in.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request as HttpRequest;
use memory::Memory;
use memory::audit::{AuditRequest, Auditor};
use memory::snapshot::Ledger;
use memory_core::{
    Error, ErrorKind, Failure, Op, Provider as _, Reply, Request, Result, RunContext, Scope, ScopeId,
    ScopeKind, TenantId,
};
use serde::Deserialize;

use super::sessions::Sessions;
use memory_api::Authority;
use memory_api::Caller;
use memory_api::V1;
use memory_api::{Reads, Recording};

/// Largest API reply that is read.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// What is kept outside the store.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) auditor: Option<Arc<Auditor>>,
    pub(crate) audit_file: Option<PathBuf>,
    pub(crate) snapshots: Option<Ledger>,
}

/// The page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(super) memory: Memory,
    pub(crate) beside: Beside,
    pub(super) authority: Arc<Authority>,
    pub(super) sessions: Sessions,
    api: V1,
}

/// The signed-in caller, for one request.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) caller: Arc<Caller>,
    /// What forms carry.
    pub(super) form_key: String,
}

impl Page {
    /// `secure`: browsers reach it over TLS.
    pub(crate) fn new(
        memory: Memory,
        beside: Beside,
        authority: Arc<Authority>,
        api: V1,
        secure: bool,
    ) -> Self {
        Self { memory, beside, authority, sessions: Sessions::new(secure), api }
    }

    /// Asks the API, which decides what the caller may do and records it.
    ///
    /// # Errors
    /// Those of the API.
    pub(super) async fn ask(&self, visit: &Visit, request: Request) -> Result<Reply> {
        #[derive(Deserialize)]
        struct Refusal {
            error: Failure,
        }
        let op = request.op();
        let unsent =
            |error: &dyn std::fmt::Display| Error::internal(format!("`{op}` cannot be asked: {error}"));
        let arguments = serde_json::to_string(&request).map_err(|error| unsent(&error))?;
        let asked = HttpRequest::post(format!("/v1/ops/{op}"))
            .body(Body::from(arguments))
            .map_err(|error| unsent(&error))?;
        let caller = Arc::clone(&visit.caller);
        let response = self.api.answer(caller, &Reads::new(op.is_read()), asked).await;
        let done = response.status().is_success();
        let bytes = to_bytes(response.into_body(), MAX_REPLY_BYTES).await.map_err(|error| {
            Error::new(ErrorKind::ResultTooLarge, "the answer is too large for this page; use the API")
                .with_source(error)
        })?;
        let text = String::from_utf8_lossy(&bytes);
        if done {
            return Reply::from_json(op, &text);
        }
        Err(match serde_json::from_str::<Refusal>(&text) {
            Ok(refusal) => refusal.error.into(),
            Err(_) => Error::internal(format!("`{op}` was refused without a reason")),
        })
    }

    /// Does something that the API has no operation for, as `op`, and records it like a request.
    ///
    /// # Errors
    /// The caller's refusals, and those of `work`.
    pub(super) async fn as_op<T>(
        &self,
        visit: &Visit,
        op: Op,
        tenant: &TenantId,
        scope: Option<&Scope>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let record = AuditRequest::new(visit.caller.id(), op.as_str(), Some(tenant), scope);
        let recording = Recording::begin(self.beside.auditor.as_ref(), record, op.is_read());
        let allowed = match (scope, &visit.caller.grant().tenant) {
            (Some(scope), _) => visit.caller.may(op, scope),
            (None, Some(own)) if own != tenant => Err(Error::new(
                ErrorKind::ScopeDenied,
                format!(
                    "the token `{}` does not reach this tenant; see {}",
                    visit.caller.id(),
                    visit.caller.whereabouts()
                ),
            )),
            _ => visit.caller.may_do(op),
        };
        recording.ended(match allowed {
            Ok(()) => work.await,
            Err(error) => Err(error),
        })
    }
}

impl Page {
    /// Whether the runtime's own tables of this space exist, so that merely looking does not create them.
    ///
    /// # Errors
    /// `capability_unsupported` without SQL; the store's.
    pub(super) async fn has_tables(&self, tenant: &TenantId, space: &str) -> Result<bool> {
        let sql = self.memory.sql().ok_or_else(|| Error::unsupported("sql_usage", self.memory.name()))?;
        let usage = sql.sql_usage(&Scope::host(tenant.as_str(), space)?).await?;
        Ok(usage.bytes > 0)
    }
}

impl Visit {
    /// The run in which a scope's conversations are read.
    pub(super) fn run(&self, scope: &Scope) -> Result<RunContext> {
        let run = ScopeId::new(format!("{}-page", self.caller.id()))?;
        let agent = match (&self.caller.grant().agent, scope.kind) {
            (Some(agent), _) => agent.clone(),
            (None, ScopeKind::Agent) => scope.id.clone(),
            _ => run.clone(),
        };
        Ok(RunContext::new(scope.tenant.clone(), agent, run))
    }
}

/// The API answered a different operation.
pub(super) fn unexpected() -> Error {
    Error::internal("the API answered another operation")
}
