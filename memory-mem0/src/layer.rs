//! The facet: finds the key and the remote owner for each call.

use async_trait::async_trait;
use memory_core::layer::{
    AddOptions, AddOutcome, EventId, EventStatus, Fact, FactsPage, FactsQuery, Forget, ForgetOutcome,
    Message, RecallQuery,
};
use memory_core::{Error, MemoryLayer, Op, Provider as _, Result, RunContext, Scope, Secret, Ttl};
use memory_http::Method;
use memory_http::service::{Forgets as _, Owner, Request};
use serde::Deserialize;

use crate::add::{AddedRow, stored};
use crate::client::Session;
use crate::config::Flavour;
use crate::event;
use crate::forget::remains;
use crate::owner::SERVICE;
use crate::provider::Mem0Provider;

impl Mem0Provider {
    pub(crate) fn session_of(&self, key: Secret, owner: Owner) -> Session<'_> {
        Session { client: &self.client, options: &self.options, key, owner }
    }

    fn session(&self, run: &RunContext, scope: &Scope) -> Result<Session<'_>> {
        let owner = SERVICE.owner_for(&self.keys, run, scope)?;
        Ok(self.session_of(self.keys.of(run)?, owner))
    }
}

/// mem0 attaches metadata to a whole `add`, corrects facts itself, and lets nobody choose an expiry.
fn refuse_unserved(provider: &str, messages: &[Message], options: &AddOptions) -> Result<()> {
    for (refused, option) in [
        (messages.iter().any(|message| !message.metadata.is_empty()), "messages.metadata"),
        (!options.supersedes.is_empty(), "supersedes"),
        (!options.confirms.is_empty(), "confirms"),
        (options.ttl != Ttl::Keep, "ttl"),
    ] {
        if refused {
            return Err(Error::unsupported(Op::Add.as_str(), provider).with_detail("option", option));
        }
    }
    Ok(())
}

#[async_trait]
impl MemoryLayer for Mem0Provider {
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        refuse_unserved(self.name(), messages, &options)?;
        let owner = SERVICE.owner_for(&self.keys, run, scope)?;
        let session = self.session_of(self.keys.of_writer(run, scope)?, owner);
        session.add(messages, &options).await.map(AddOutcome::new)
    }

    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        let asked =
            [(query.as_of.is_some(), "as_of"), (query.unconfirmed_since.is_some(), "unconfirmed_since")];
        if let Some((_, option)) = asked.into_iter().find(|(is_asked, _)| *is_asked) {
            return Err(Error::unsupported(Op::Recall.as_str(), self.name()).with_detail("option", option));
        }
        self.session(run, scope)?.recall(&query).await
    }

    async fn event(&self, run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus> {
        if self.client.flavour != Flavour::Platform {
            return Err(Error::unsupported(Op::Event.as_str(), self.name()));
        }
        let session = self.session(run, scope)?;
        let remote = event::unbind(&session.key, scope, id)?;
        let path = ["v1", "event", remote, ""];
        let reply = session.exchange(Request::new(Method::Get, &path, self.options.timeout())).await?;
        if reply.status() == 404 {
            return Err(event::unknown());
        }
        if let Some(error) = self.client.error_of(&reply) {
            return Err(error);
        }
        event_status(reply.trusted_json()?, remote, &session.owner)
    }

    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        let session = self.session(run, scope)?;
        let mut outcome = session.forget(what, self.options.forget_timeout()).await?;
        outcome.remains.push(remains(self.client.flavour).to_owned());
        Ok(outcome)
    }

    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        if query.session.is_some() {
            return Err(Error::unsupported(Op::Facts.as_str(), self.name()).with_detail("option", "session"));
        }
        self.session(run, scope)?.facts(&query).await
    }
}

#[derive(Deserialize)]
struct Event {
    id: Option<String>,
    status: String,
    results: Option<Vec<AddedRow>>,
}

fn event_status(event: Event, asked: &str, owner: &Owner) -> Result<EventStatus> {
    if event.id.is_some_and(|id| id != asked) {
        return Err(Error::corrupt("mem0 answered with another event than the requested one"));
    }
    match event.status.as_str() {
        "PENDING" | "RUNNING" => Ok(EventStatus::Pending),
        "SUCCEEDED" => stored(event.results.unwrap_or_default(), owner).map(EventStatus::Done),
        // The reason may quote the messages.
        "FAILED" => {
            Ok(EventStatus::Failed("mem0 could not process the messages; its dashboard says why".to_owned()))
        }
        _ => Err(Error::corrupt("mem0 answered with an unknown status of an event")),
    }
}
