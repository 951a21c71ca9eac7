//! `add`: what is sent, and what an answer says of it.

use std::collections::BTreeSet;
use std::time::Duration;

use memory_core::layer::{AddOptions, AddStatus, FactId, Message, Role};
use memory_core::{Error, ErrorKind, Result, Secret};
use memory_http::service::{Owner, Request};
use memory_http::{CallKind, Method, Reply};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::Client;
use crate::config::Flavour;
use crate::error;
use crate::event;
use crate::owner::SERVICE;
use crate::rows::check_metadata;

/// Adds messages. What cannot be known is `Unknown`, and nothing is sent a second time that may have been stored.
pub(crate) async fn add(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    messages: &[Message],
    options: &AddOptions,
    timeout: Duration,
) -> Result<AddStatus> {
    check_metadata(&options.metadata)?;
    let said: Vec<Value> = messages.iter().filter_map(sent).collect();
    if said.is_empty() {
        // mem0 hears neither tools nor silence.
        return Ok(AddStatus::Done(Vec::new()));
    }
    let mut body = json!({ "messages": said, "user_id": owner.id() });
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
    let path: &[&str] = match client.flavour {
        Flavour::SelfHosted => &["memories"],
        Flavour::Platform => &["v3", "memories", "add", ""],
    };
    let ask = Request::new(Method::Post, path, timeout).body(body).kind(CallKind::NotIdempotent);
    // Word for word, the server embeds and stores one message after the other.
    let in_parts = !options.infer && said.len() > 1;
    let judge = if in_parts { error::repeats_of_parts } else { error::repeats };
    let refused = |reply: &Reply| {
        if in_parts && error::code(reply).is_some() { reply.error() } else { client.error_of(reply) }
    };
    let answered = client.exchange_judged(ask, Some(key), judge).await;
    let reply = match answered.and_then(|reply| refused(&reply).map_or(Ok(reply), Err)) {
        Ok(reply) => reply,
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => return Ok(AddStatus::Unknown),
        Err(error) => return Err(error),
    };
    Ok(status(client.flavour, key, owner, &reply).unwrap_or_else(|error| {
        // It took the words; only what it said of them cannot be trusted.
        tracing::warn!(%error, "mem0 took an add and answered what cannot be trusted");
        AddStatus::Unknown
    }))
}

/// A message as mem0 hears it.
fn sent(message: &Message) -> Option<Value> {
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

/// The facts that rows say were stored.
///
/// # Errors
/// `corrupt` for rows that cannot be trusted.
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
        return Err(Error::new(ErrorKind::Corrupt, "mem0 says that it stored the same memory twice"));
    }
    Ok(ids)
}

fn status(flavour: Flavour, key: &Secret, owner: &Owner, reply: &Reply) -> Result<AddStatus> {
    let added: Added = reply.trusted_json()?;
    let unclear = || Error::new(ErrorKind::Corrupt, "mem0 does not say what became of an add");
    match (flavour, added.results, added.status.as_deref()) {
        (Flavour::SelfHosted, Some(rows), _) | (Flavour::Platform, Some(rows), Some("SUCCEEDED")) => {
            stored(rows, owner).map(AddStatus::Done)
        }
        (Flavour::Platform, _, Some("PENDING" | "RUNNING" | "SUCCEEDED")) => match added.event_id {
            Some(id) => event::bind(key, owner.scope(), &id).map(|event| AddStatus::Pending(Some(event))),
            None => Ok(AddStatus::Pending(None)),
        },
        _ => Err(unclear()),
    }
}
