//! `forget`: fetched and compared first, since ids alone reach every memory of a space.

use memory_core::layer::{FactId, ForgetOutcome};
use memory_core::{Error, ErrorKind, Result, Secret};
use memory_http::{CallKind, Method};
use serde::Deserialize;
use serde_json::json;

use crate::client::{Ask, Client, MEMORIES};
use crate::config::Mem9Options;
use crate::error;
use crate::listing::{MOST, list};
use crate::owner::{Owner, is_uuid};
use crate::rows::Row;

/// Where one memory is.
fn path_of(id: &str) -> [&str; 4] {
    let [version, spaces, memories] = MEMORIES;
    [version, spaces, memories, id]
}

/// Forgets one; whether it was there.
async fn forget_one(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    id: &FactId,
    options: &Mem9Options,
) -> Result<bool> {
    // Nothing but a UUID becomes part of a path.
    if !is_uuid(id.as_str()) {
        return Ok(false);
    }
    let path = path_of(id.as_str());
    let reply = client.exchange(Ask::of(Method::Get, &path, options.timeout()), Some(key)).await?;
    if reply.status() == 404 {
        return Ok(false);
    }
    if let Some(error) = error::error_of(&reply) {
        return Err(error);
    }
    let row: Row = reply.trusted_json()?;
    if !row.id.eq_ignore_ascii_case(id.as_str()) {
        return Err(Error::new(ErrorKind::Corrupt, "mem9 answered with another memory than was asked for"));
    }
    if row.agent_id.as_deref() != Some(owner.id())
        || row.state.as_deref().is_some_and(|state| state != "active")
    {
        return Ok(false);
    }
    let ask = Ask::of(Method::Delete, &path, options.timeout()).kind(CallKind::Idempotent);
    let reply = client.exchange(ask, Some(key)).await?;
    match reply.status() {
        // Gone since, by another.
        404 => Ok(true),
        _ => error::error_of(&reply).map_or(Ok(true), Err),
    }
}

/// Forgets these; those that are not the owner's are told and left alone.
pub(crate) async fn forget_ids(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    ids: &[FactId],
    options: &Mem9Options,
) -> Result<ForgetOutcome> {
    let mut forgotten = 0_u64;
    let mut not_found = Vec::new();
    for id in ids {
        match forget_one(client, key, owner, id, options).await {
            Ok(true) => forgotten = forgotten.saturating_add(1),
            Ok(false) => not_found.push(id.clone()),
            Err(error) if forgotten == 0 && error.kind() != ErrorKind::OutcomeUnknown => return Err(error),
            Err(error) => return Err(some_may_be_gone(Some(forgotten)).with_source(error)),
        }
    }
    let mut outcome = ForgetOutcome::new(Some(forgotten));
    outcome.not_found = not_found;
    Ok(outcome)
}

/// Forgets everything of the owner's: mem9 has no call for it, so it is listed and deleted page by page, what was
/// replaced by something newer too.
pub(crate) async fn forget_all(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    options: &Mem9Options,
) -> Result<ForgetOutcome> {
    let forgotten = delete_all(client, key, owner, "active", options).await?;
    delete_all(client, key, owner, "archived", options).await.map_err(|error| {
        if forgotten > 0 { some_may_be_gone(Some(forgotten)).with_source(error) } else { error }
    })?;
    Ok(ForgetOutcome::new(Some(forgotten)))
}

#[derive(Deserialize)]
struct Deleted {
    deleted: u64,
}

async fn delete_all(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    state: &str,
    options: &Mem9Options,
) -> Result<u64> {
    let [version, spaces, memories] = MEMORIES;
    let path = [version, spaces, memories, "batch-delete"];
    let mut forgotten = 0_u64;
    loop {
        let rows = list(client, key, owner, state, 0, MOST, options).await?.memories;
        if rows.is_empty() {
            return Ok(forgotten);
        }
        let mut ids = Vec::new();
        for row in rows {
            owner.check(row.agent_id.as_deref())?;
            ids.push(crate::rows::fact_id(&row.id)?.as_str().to_owned());
        }
        // Deleting what is deleted changes nothing.
        let ask = Ask::of(Method::Post, &path, options.timeout())
            .body(json!({ "ids": ids }))
            .kind(CallKind::Idempotent);
        let deleted = match client.request(ask, key).await {
            Ok(reply) => reply.trusted_json::<Deleted>()?.deleted,
            Err(error) if forgotten == 0 && error.kind() != ErrorKind::OutcomeUnknown => return Err(error),
            Err(error) => return Err(some_may_be_gone(Some(forgotten)).with_source(error)),
        };
        forgotten = forgotten.saturating_add(deleted);
        if deleted == 0 {
            return Err(some_may_be_gone(Some(forgotten)));
        }
    }
}

/// The end of a forgetting of which not everything is known.
pub(crate) fn some_may_be_gone(forgotten: Option<u64>) -> Error {
    let error = Error::new(
        ErrorKind::OutcomeUnknown,
        "mem9 did not say of everything whether it is forgotten; list the facts, and forget again what is left",
    );
    match forgotten {
        Some(forgotten) => error.with_detail("forgotten", forgotten),
        None => error,
    }
}
