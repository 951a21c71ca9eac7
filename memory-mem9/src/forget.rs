//! `forget`: each memory is fetched and compared first, since an id alone reaches every memory of a space.

use memory_core::layer::{FactId, ForgetOutcome};
use memory_core::{Error, ErrorKind, Result, Secret};
use memory_http::service::{Forgetting, Owner, Request, is_uuid, some_may_remain};
use memory_http::{CallKind, Method};
use serde::Deserialize;
use serde_json::json;

use crate::client::{Client, MEMORIES};
use crate::config::Mem9Options;
use crate::error;
use crate::listing::{MOST, list};
use crate::owner::SERVICE;
use crate::rows::Row;

/// The path of one memory.
fn path_of(id: &str) -> [&str; 4] {
    let [version, spaces, memories] = MEMORIES;
    [version, spaces, memories, id]
}

/// Forgets one memory; returns whether it existed.
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
    let reply = client.exchange(Request::new(Method::Get, &path, options.timeout()), Some(key)).await?;
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
    let ask = Request::new(Method::Delete, &path, options.timeout()).kind(CallKind::Idempotent);
    let reply = client.exchange(ask, Some(key)).await?;
    match reply.status() {
        // Already gone, deleted by another.
        404 => Ok(true),
        _ => error::error_of(&reply).map_or(Ok(true), Err),
    }
}

/// Forgets these; ids that are not the owner's are reported and left alone.
pub(crate) async fn forget_ids(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    ids: &[FactId],
    options: &Mem9Options,
) -> Result<ForgetOutcome> {
    let mut forgetting = Forgetting::new(SERVICE);
    for id in ids {
        let was_there = forget_one(client, key, owner, id, options).await;
        forgetting.note(id, was_there)?;
    }
    Ok(forgetting.outcome())
}

/// Forgets everything of the owner. mem9 has no call for that, so its memories are listed and deleted page by page,
/// including those that newer ones have replaced.
pub(crate) async fn forget_all(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    options: &Mem9Options,
) -> Result<ForgetOutcome> {
    let forgotten = delete_all(client, key, owner, "active", options).await?;
    delete_all(client, key, owner, "archived", options).await.map_err(|error| {
        if forgotten > 0 { some_may_remain(SERVICE, Some(forgotten)).with_source(error) } else { error }
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
            ids.push(SERVICE.fact_id(&row.id)?.as_str().to_owned());
        }
        // Deleting a deleted memory changes nothing.
        let ask = Request::new(Method::Post, &path, options.timeout())
            .body(json!({ "ids": ids }))
            .kind(CallKind::Idempotent);
        let deleted = match client.request(ask, key).await {
            Ok(reply) => reply.trusted_json::<Deleted>()?.deleted,
            Err(error) if forgotten == 0 && error.kind() != ErrorKind::OutcomeUnknown => return Err(error),
            Err(error) => return Err(some_may_remain(SERVICE, Some(forgotten)).with_source(error)),
        };
        forgotten = forgotten.saturating_add(deleted);
        if deleted == 0 {
            return Err(some_may_remain(SERVICE, Some(forgotten)));
        }
    }
}
