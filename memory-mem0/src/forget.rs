//! `forget`: each memory is fetched and its owner checked first, and its absence is confirmed afterwards.

use std::time::Duration;

use memory_core::layer::{FactId, ForgetOutcome};
use memory_core::{Error, ErrorKind, Result, Secret};
use memory_http::service::{Forgetting, Owner, Request, is_uuid, may_have_forgotten, some_may_remain};
use memory_http::{CallKind, Method};

use crate::client::Client;
use crate::config::{Flavour, Mem0Options};
use crate::listing::{MOST, platform_list, self_hosted_list};
use crate::owner::SERVICE;
use crate::rows::Row;

/// First wait before checking again whether a memory is gone. Each wait is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// Longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What mem0 keeps after a forget.
pub(crate) fn remains(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::SelfHosted => {
            "mem0 keeps the last 10 messages of this scope beside its memories and shows them to its language model at the \
             next add, so a forgotten fact may be learned again; 10 later messages replace them, and its operator can clear \
             its history database"
        }
        Flavour::Platform => {
            "the mem0 Platform may keep recent messages as context for its language model and does not say for how long; \
             ask its operator"
        }
    }
}

fn path_of(flavour: Flavour, id: &str) -> Vec<&str> {
    match flavour {
        Flavour::SelfHosted => vec!["memories", id],
        Flavour::Platform => vec!["v1", "memories", id, ""],
    }
}

/// Whether the memory exists and belongs to the owner. Another owner's counts as absent.
async fn is_owned(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    id: &str,
    options: &Mem0Options,
) -> Result<bool> {
    let path = path_of(client.flavour, id);
    let reply = client.exchange(Request::new(Method::Get, &path, options.timeout()), Some(key)).await?;
    // The Platform answers 400 for an id that it never issued.
    if reply.status() == 404 || (reply.status() == 400 && client.flavour == Flavour::Platform) {
        return Ok(false);
    }
    if let Some(error) = client.error_of(&reply) {
        return Err(error);
    }
    // A self-hosted server answers `null` for an unknown id.
    let row: Option<Row> = reply.trusted_json()?;
    let Some(row) = row else { return Ok(false) };
    if !row.id.eq_ignore_ascii_case(id) {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "mem0 answered with another memory than the requested one",
        ));
    }
    Ok(row.user_id.as_deref() == Some(owner.id()))
}

/// Forgets one memory; returns whether it existed.
async fn forget_one(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    id: &FactId,
    options: &Mem0Options,
) -> Result<bool> {
    // Only a UUID may become part of a path.
    if !is_uuid(id.as_str()) || !is_owned(client, key, owner, id.as_str(), options).await? {
        return Ok(false);
    }
    let path = path_of(client.flavour, id.as_str());
    let request = Request::new(Method::Delete, &path, options.timeout()).kind(CallKind::Idempotent);
    let reply =
        client.exchange(request, Some(key)).await.map_err(|error| may_have_forgotten(SERVICE, error))?;
    if reply.status() == 404 {
        // Already gone: deleted by an earlier attempt of this call, or by another call.
        return Ok(true);
    }
    if let Some(error) = client.error_of(&reply) {
        return Err(may_have_forgotten(SERVICE, error));
    }
    if client.flavour == Flavour::Platform {
        let mut wait = FIRST_WAIT;
        while is_owned(client, key, owner, id.as_str(), options).await? {
            pause(&mut wait).await;
        }
    }
    Ok(true)
}

/// Forgets these memories. Ids that are not the owner's are reported as not found and left alone.
pub(crate) async fn forget_ids(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    ids: &[FactId],
    options: &Mem0Options,
) -> Result<ForgetOutcome> {
    let mut forgetting = Forgetting::new(SERVICE);
    for id in ids {
        let existed = forget_one(client, key, owner, id, options).await;
        forgetting.note(id, existed)?;
    }
    Ok(forgetting.outcome())
}

/// Forgets everything of the owner and nothing else: the only filter sent is its id.
pub(crate) async fn forget_all(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    options: &Mem0Options,
) -> Result<ForgetOutcome> {
    let before = remaining(client, key, owner, options).await?;
    if before.is_empty() {
        return Ok(ForgetOutcome::new(Some(0)));
    }
    let parameters = [("user_id", owner.id())];
    let path: &[&str] = match client.flavour {
        Flavour::SelfHosted => &["memories"],
        Flavour::Platform => &["v1", "memories", ""],
    };
    // The server answers once everything is deleted.
    let request = Request::new(Method::Delete, path, options.forget_timeout())
        .parameters(&parameters)
        .kind(CallKind::Idempotent);
    let reply =
        client.exchange(request, Some(key)).await.map_err(|error| may_have_forgotten(SERVICE, error))?;
    if reply.status() == 403 {
        // On a self-hosted server only an administrator's key may delete by filter.
        return one_by_one(client, key, owner, options).await;
    }
    if let Some(error) = client.error_of(&reply) {
        return Err(may_have_forgotten(SERVICE, error));
    }
    let mut wait = FIRST_WAIT;
    while !remaining(client, key, owner, options)
        .await
        .map_err(|error| some_may_remain(SERVICE, None).with_source(error))?
        .is_empty()
    {
        pause(&mut wait).await;
    }
    let count =
        (before.len() < page_size(client.flavour)).then(|| u64::try_from(before.len()).ok()).flatten();
    Ok(ForgetOutcome::new(count))
}

fn page_size(flavour: Flavour) -> usize {
    match flavour {
        Flavour::SelfHosted => MOST,
        Flavour::Platform => 200,
    }
}

/// Ids of the owner's memories, at most one page.
async fn remaining(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    options: &Mem0Options,
) -> Result<Vec<FactId>> {
    let facts = match client.flavour {
        Flavour::SelfHosted => self_hosted_list(client, key, owner, options).await?,
        Flavour::Platform => {
            platform_list(client, key, owner, 1, page_size(client.flavour), options).await?.0
        }
    };
    Ok(facts.into_iter().map(|fact| fact.id).collect())
}

async fn one_by_one(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    options: &Mem0Options,
) -> Result<ForgetOutcome> {
    let mut forgetting = Forgetting::new(SERVICE);
    loop {
        let ids = remaining(client, key, owner, options).await.map_err(|error| forgetting.failed(error))?;
        let before = forgetting.forgotten();
        if ids.is_empty() {
            return Ok(ForgetOutcome::new(Some(before)));
        }
        for id in &ids {
            let existed = forget_one(client, key, owner, id, options).await;
            forgetting.note(id, existed)?;
        }
        if forgetting.forgotten() == before {
            return Err(some_may_remain(SERVICE, Some(before)));
        }
    }
}

async fn pause(wait: &mut Duration) {
    tokio::time::sleep(*wait).await;
    *wait = wait.saturating_mul(2).min(LONGEST_WAIT);
}
