//! The facet: finds the key and the remote owner for each call.

use async_trait::async_trait;
use memory_core::layer::{
    AddOptions, AddOutcome, AddStatus, EventId, EventStatus, Fact, FactsPage, FactsQuery, Forget,
    ForgetOutcome, Message, RecallQuery, Role,
};
use memory_core::{
    Error, ErrorKind, MemoryLayer, Op, Provider as _, Result, RunContext, Scope, ScopeKind, Secret, Ttl,
};
use memory_http::service::{Forgets as _, Owner, Request};
use memory_http::{CallKind, Method, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{MEMORIES, Session};
use crate::forget::REMAINS;
use crate::owner::SERVICE;
use crate::provider::Mem9Provider;

impl Mem9Provider {
    pub(crate) fn session_of(&self, key: Secret, owner: Owner) -> Session<'_> {
        Session { client: &self.client, options: &self.options, key, owner }
    }

    fn session(&self, run: &RunContext, scope: &Scope) -> Result<Session<'_>> {
        let owner = SERVICE.owner_for(&self.keys, run, scope)?;
        Ok(self.session_of(self.keys.of(run)?, owner))
    }
}

/// A message in mem9's form; `None` if it is empty. mem9 extracts facts from the user's messages; the others are context.
fn to_mem9(message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => "tool",
    };
    (!message.content.trim().is_empty()).then(|| json!({ "role": role, "content": message.content }))
}

#[derive(Deserialize)]
struct Added {
    status: String,
}

/// The outcome of an `add`. A reply names no facts, and `accepted` does not even promise that any were stored.
fn status(reply: &Reply) -> Result<AddStatus> {
    let added: Added = reply.trusted_json()?;
    match (reply.status(), added.status.as_str()) {
        (202, "accepted") => Ok(AddStatus::Pending(None)),
        (200, "ok") => Ok(AddStatus::Done(Vec::new())),
        _ => Err(Error::corrupt("mem9's reply to an add does not say whether it was stored")),
    }
}

#[async_trait]
impl MemoryLayer for Mem9Provider {
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        let owner = SERVICE.owner_for(&self.keys, run, scope)?;
        for (refused, option) in [
            (!options.infer, "infer"),
            (!options.metadata.is_empty(), "metadata"),
            (!options.supersedes.is_empty(), "supersedes"),
            (!options.confirms.is_empty(), "confirms"),
            (options.ttl != Ttl::Keep, "ttl"),
        ] {
            if refused {
                return Err(Error::unsupported(Op::Add.as_str(), self.name()).with_detail("option", option));
            }
        }
        let sent: Vec<Value> = messages.iter().filter_map(to_mem9).collect();
        if sent.is_empty() {
            return Ok(AddOutcome::new(AddStatus::Done(Vec::new())));
        }
        let session = self.session_of(self.keys.of_writer(run, scope)?, owner);
        let run_scope = Scope::new(run.tenant.clone(), ScopeKind::Run, run.root_run.clone());
        let body = json!({
            "messages": sent,
            "agent_id": session.owner.id(),
            "session_id": self.keys.remote_id(&run_scope)?,
            "sync": self.options.sync,
        });
        let request = Request::new(Method::Post, &MEMORIES, self.options.add_timeout())
            .body(body)
            .kind(CallKind::NotIdempotent);
        let reply = match session.request(request).await {
            Ok(reply) => reply,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                return Ok(AddOutcome::new(AddStatus::Unknown));
            }
            Err(error) => return Err(error),
        };
        Ok(AddOutcome::new(status(&reply).unwrap_or_else(|error| {
            // The messages were accepted; only the reply cannot be trusted.
            tracing::warn!(%error, "mem9 accepted an add, but its reply cannot be trusted");
            AddStatus::Unknown
        })))
    }

    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        let asked =
            [(query.as_of.is_some(), "as_of"), (query.unconfirmed_since.is_some(), "unconfirmed_since")];
        if let Some((_, option)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
            return Err(Error::unsupported(Op::Recall.as_str(), self.name()).with_detail("option", option));
        }
        self.session(run, scope)?.recall(&query).await
    }

    async fn event(&self, _run: &RunContext, _scope: &Scope, _id: &EventId) -> Result<EventStatus> {
        Err(Error::unsupported(Op::Event.as_str(), self.name()))
    }

    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        let session = self.session(run, scope)?;
        let mut outcome = session.forget(what, self.options.forget_timeout()).await?;
        outcome.remains.push(REMAINS.to_owned());
        Ok(outcome)
    }

    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        if query.session.is_some() {
            return Err(Error::unsupported(Op::Facts.as_str(), self.name()).with_detail("option", "session"));
        }
        self.session(run, scope)?.facts(&query).await
    }
}
