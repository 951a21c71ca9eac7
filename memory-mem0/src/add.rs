//! `add`: the request, and how its reply is read.

use std::collections::BTreeSet;

use memory_core::layer::{AddOptions, AddStatus, FactId, Message, Role};
use memory_core::{Error, ErrorKind, Result};
use memory_http::service::{Owner, Request};
use memory_http::{CallKind, Method, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Session;
use crate::config::Flavour;
use crate::error;
use crate::event;
use crate::owner::SERVICE;
use crate::rows::check_metadata;

impl Session<'_> {
    /// Adds messages. If the outcome is not known, it is `Unknown`; what may have been stored is not sent again.
    pub(crate) async fn add(&self, messages: &[Message], options: &AddOptions) -> Result<AddStatus> {
        check_metadata(&options.metadata)?;
        let sent: Vec<Value> = messages.iter().filter_map(to_mem0).collect();
        if sent.is_empty() {
            // mem0 accepts neither tool messages nor empty ones.
            return Ok(AddStatus::Done(Vec::new()));
        }
        let mut body = json!({ "messages": sent, "user_id": self.owner.id() });
        if let Some(members) = body.as_object_mut() {
            if !options.metadata.is_empty() {
                let metadata = serde_json::to_value(&options.metadata)
                    .map_err(|error| Error::internal("metadata does not serialise").with_source(error))?;
                members.insert("metadata".to_owned(), metadata);
            }
            if !options.infer {
                members.insert("infer".to_owned(), Value::Bool(false));
            }
        }
        let path = self.by_flavour(&["memories"][..], &["v3", "memories", "add", ""]);
        let request = Request::new(Method::Post, path, self.options.add_timeout())
            .body(body)
            .kind(CallKind::NotIdempotent);
        // Verbatim messages are embedded and stored one after the other.
        let one_by_one = !options.infer && sent.len() > 1;
        let retries = if one_by_one { error::retries_one_by_one } else { error::retries };
        let error_of = |reply: &Reply| {
            if one_by_one && error::code(reply).is_some() {
                reply.error()
            } else {
                self.client.error_of(reply)
            }
        };
        let answered = self.client.exchange(request, Some(&self.key), retries).await;
        let reply = match answered.and_then(|reply| error_of(&reply).map_or(Ok(reply), Err)) {
            Ok(reply) => reply,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => return Ok(AddStatus::Unknown),
            Err(error) => return Err(error),
        };
        Ok(self.status(&reply).unwrap_or_else(|error| {
            // The messages were accepted; only the reply cannot be trusted.
            tracing::warn!(%error, "mem0 accepted an add, but its reply cannot be trusted");
            AddStatus::Unknown
        }))
    }

    fn status(&self, reply: &Reply) -> Result<AddStatus> {
        let added: Added = reply.trusted_json()?;
        match (self.client.flavour, added.results, added.status.as_deref()) {
            (Flavour::SelfHosted, Some(rows), _) | (Flavour::Platform, Some(rows), Some("SUCCEEDED")) => {
                stored(rows, &self.owner).map(AddStatus::Done)
            }
            (Flavour::Platform, _, Some("PENDING" | "RUNNING" | "SUCCEEDED")) => match added.event_id {
                Some(id) => event::bind(&self.key, self.owner.scope(), &id)
                    .map(|event| AddStatus::Pending(Some(event))),
                None => Ok(AddStatus::Pending(None)),
            },
            _ => Err(Error::corrupt("mem0's reply to an add does not say whether it was stored")),
        }
    }
}

/// A message in mem0's form; `None` if mem0 does not accept it.
fn to_mem0(message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => return None,
    };
    (!message.content.trim().is_empty()).then(|| json!({ "role": role, "content": message.content }))
}

#[derive(Deserialize)]
struct Added {
    results: Option<Vec<AddedRow>>,
    event_id: Option<String>,
    status: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct AddedRow {
    id: Option<String>,
    event: Option<String>,
    user_id: Option<String>,
}

/// Ids of the facts that these rows report as stored.
/// Fails with `corrupt` for rows that cannot be trusted.
pub(crate) fn stored(rows: Vec<AddedRow>, owner: &Owner) -> Result<Vec<FactId>> {
    let mut ids = Vec::new();
    for row in rows {
        if let Some(user_id) = &row.user_id {
            owner.check(Some(user_id))?;
        }
        let Some(id) = row.id.filter(|_| !matches!(row.event.as_deref(), Some("DELETE" | "NONE" | "NOOP")))
        else {
            continue;
        };
        ids.push(SERVICE.fact_id(&id)?);
    }
    let distinct: BTreeSet<&FactId> = ids.iter().collect();
    if distinct.len() != ids.len() {
        return Err(Error::corrupt("mem0 reports the same memory as stored twice"));
    }
    Ok(ids)
}
