//! `forget`: each memory is fetched and its owner checked first, because an id alone reaches every memory of a space.

use memory_core::layer::{FactId, ForgetOutcome};
use memory_core::{Error, ErrorKind, Result, Secret};
use memory_http::service::{Forgetting, Owner, Request, is_uuid, may_have_forgotten, some_may_remain};
use memory_http::{CallKind, Method};
use serde::Deserialize;
use serde_json::json;

use crate::client::{Client, MEMORIES};
use crate::config::Mem9Options;
use crate::error;
use crate::listing::{MOST, list};
use crate::owner::SERVICE;
use crate::rows::Row;

/// What mem9 keeps after a forget.
pub(crate) const REMAINS: &str = "mem9 marks forgotten facts as deleted but keeps their rows, and on TiDB also the raw \
    messages. It extracts at most 50 facts from one add, so the messages may contain more than the facts did. Its \
    operator can delete both";

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
    // Only a UUID may become part of a path.
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
        return Err(Error::new(
            ErrorKind::Corrupt,
            "mem9 answered with another memory than the requested one",
        ));
    }
    if row.agent_id.as_deref() != Some(owner.id())
        || row.state.as_deref().is_some_and(|state| state != "active")
    {
        return Ok(false);
    }
    let request = Request::new(Method::Delete, &path, options.timeout()).kind(CallKind::Idempotent);
    let deleted = match client.exchange(request, Some(key)).await {
        // Already gone: deleted by another call.
        Ok(reply) if reply.status() == 404 => Ok(true),
        Ok(reply) => error::error_of(&reply).map_or(Ok(true), Err),
        Err(error) => Err(error),
    };
    deleted.map_err(|error| may_have_forgotten(SERVICE, error))
}

/// Forgets these memories. Ids that are not the owner's are reported as not found and left alone.
pub(crate) async fn forget_ids(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    ids: &[FactId],
    options: &Mem9Options,
) -> Result<ForgetOutcome> {
    let mut forgetting = Forgetting::new(SERVICE);
    for id in ids {
        let existed = forget_one(client, key, owner, id, options).await;
        forgetting.note(id, existed)?;
    }
    Ok(forgetting.outcome())
}

/// Forgets everything of the owner. mem9 has no call for that, so its memories are listed and deleted page by page,
/// including those that newer facts have replaced.
pub(crate) async fn forget_all(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    options: &Mem9Options,
) -> Result<ForgetOutcome> {
    let (mut facts, mut replaced) = (Forgetting::new(SERVICE), Forgetting::new(SERVICE));
    let deleting = async {
        delete_all(client, key, owner, "active", options, &mut facts).await?;
        delete_all(client, key, owner, "archived", options, &mut replaced).await
    };
    match deleting.await {
        Ok(()) => Ok(facts.outcome()),
        Err(error) => Err(facts.failed(replaced.failed(error))),
    }
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
    forgetting: &mut Forgetting,
) -> Result<()> {
    let [version, spaces, memories] = MEMORIES;
    let path = [version, spaces, memories, "batch-delete"];
    loop {
        let rows = list(client, key, owner, state, 0, MOST, options).await?.memories;
        if rows.is_empty() {
            return Ok(());
        }
        let mut ids = Vec::new();
        for row in rows {
            owner.check(row.agent_id.as_deref())?;
            ids.push(SERVICE.fact_id(&row.id)?.as_str().to_owned());
        }
        // Deleting a deleted memory has no effect.
        let request = Request::new(Method::Post, &path, options.forget_timeout())
            .body(json!({ "ids": ids }))
            .kind(CallKind::Idempotent);
        let reply = client.request(request, key).await.map_err(|error| may_have_forgotten(SERVICE, error))?;
        let Deleted { deleted } =
            reply.trusted_json().map_err(|error| some_may_remain(SERVICE, None).with_source(error))?;
        if deleted == 0 {
            return Err(some_may_remain(SERVICE, None));
        }
        forgetting.add(deleted);
    }
}
