//! `POST /v1/tenants/{tenant}/agents/{agent}/{op}`: shared state and an agent's graph, through operations of the Memory
//! tool and a few more. The policy is the tool's.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use memory::StateOp;
use memory::audit::AuditRequest;
use memory_core::{Error, ErrorKind, Op, Result, Scope, ScopeKind};
use tokio::time::Instant;

use super::api::{Api, decoded};
use super::body;
use super::idempotency::{Answer, Write, key_of};
use crate::caller::{Caller, needs};
use crate::recording::Recording;
use crate::refusal::refused;

/// The handler.
pub(super) async fn call(
    api: &Arc<Api>,
    caller: Arc<Caller>,
    [tenant, agent, name]: [&str; 3],
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let answer = async {
        let (tenant, agent, name) = (decoded(tenant)?, decoded(agent)?, decoded(name)?);
        let scope = Scope::new(tenant.parse()?, ScopeKind::Agent, agent.parse()?);
        let op = StateOp::ALL.iter().copied().find(|op| op.as_str() == name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no such operation of an agent; see /v1/openapi.json")
        })?;
        let fields = body::text(body).await?;
        let key = needs(op.like()).and_then(|needed| key_of(headers, &caller, needed));
        // Only a request for the same agent is a repeat.
        let write = Write::new(key, &caller, Some(&scope.tenant), &[&tenant, &agent, &name, &fields])?;
        let run = {
            let (api, caller) = (Arc::clone(api), Arc::clone(&caller));
            Box::pin(async move { api.on_state(&caller, &scope, op, &fields).await.map(Answer::ok) })
        };
        api.replies.once(write, run).await
    };
    answer.await.unwrap_or_else(|error: Error| refused(&error))
}

impl Api {
    /// Runs one operation as an agent, within the caller's rights, and records it.
    async fn on_state(&self, caller: &Caller, agent: &Scope, op: StateOp, fields: &str) -> Result<String> {
        let record = AuditRequest::new(caller.id(), op.as_str(), Some(&agent.tenant), Some(agent));
        let needed = needs(op.like());
        let reads = needed.is_some_and(Op::is_read);
        let recording = Recording::begin(self.auditor.as_ref(), record, reads);
        let answer = async {
            caller.may_as(op.like(), &agent.tenant, &agent.id)?;
            let tool = self.tools.of(&self.memory, caller, &agent.tenant, &agent.id)?;
            let begun = Instant::now();
            let answer = (self.tools.on_state)(&tool, op, fields).await;
            needed.into_iter().for_each(|needed| caller.took(needed, begun.elapsed()));
            answer
        };
        recording.ended(answer.await)
    }
}
