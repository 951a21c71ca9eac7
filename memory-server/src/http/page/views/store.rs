//! The store: health, capabilities, models, snapshots, and what this token may do.

use std::time::Duration;

use maud::{Markup, html};
use memory_core::{
    EmbeddingModel, Error, ErrorKind, Health, HealthStatus, Provider as _, Reply, Request, Result,
};
use serde_json::Value;

use super::super::ask::{Page, Visit, unexpected};
use super::super::html::{list, none, plain, refusal, remark, said, table, time};
use crate::terminal::bytes;

/// Time limit for the store's answer about its health.
const PROBE: Duration = Duration::from_secs(5);
/// Snapshots that are listed.
const SNAPSHOTS: usize = 50;

async fn asked(page: &Page, visit: &Visit) -> Result<Health> {
    let asked = tokio::time::timeout(PROBE, page.ask(visit, Request::Health {})).await;
    let late = || Error::new(ErrorKind::Timeout, "the store gives no answer in 5 s");
    match asked.unwrap_or_else(|_| Err(late()))? {
        Reply::Health(health) => Ok(health),
        _ => Err(unexpected()),
    }
}

/// The store's state, in one line.
pub(super) async fn health(page: &Page, visit: &Visit) -> Markup {
    state(&asked(page, visit).await)
}

fn state(asked: &Result<Health>) -> Markup {
    match asked {
        Ok(health) => {
            let (class, word) = match health.status {
                HealthStatus::Ok => ("yes", "ok"),
                HealthStatus::Degraded => ("partly", "degraded"),
                _ => ("no", "down"),
            };
            html! { p { strong class=(format!("state {class}")) { (word) } " " (said(&health.message)) } }
        }
        Err(error) => html! { p { strong class="state no" { "down" } } (refusal(error)) },
    }
}

/// Who else uses the store. Only for the operator, because the names reveal machines.
fn processes(visit: &Visit, asked: &Result<Health>) -> Markup {
    if !visit.caller.grant().is_operators() {
        return remark("Replicas are the operator’s. A token made with --all-tenants shows them.");
    }
    let known = asked.as_ref().map_or(&[][..], |health| &health.processes);
    if known.is_empty() {
        return remark("This store does not know which processes use it.");
    }
    let rows: Vec<Markup> = known
        .iter()
        .map(|process| {
            html! {
                td { (said(&process.name)) }
                td { @match &process.address { Some(address) => (said(address)), None => "the store’s machine" } }
                td class="number" { (process.connections) }
                td { (time(process.since)) }
            }
        })
        .collect();
    table(
        "Connected with the same user, the longest first",
        &["Process", "From", "Connections", "Since"],
        &rows,
    )
}

pub(super) async fn show(page: &Page, visit: &Visit) -> Result<Markup> {
    let asked = asked(page, visit).await;
    Ok(html! {
        h2 { "Health" }
        (state(&asked))
        h2 { "Replicas" }
        (processes(visit, &asked))
        h2 { "Models" }
        (list(&[
            ("Entries", model(page.memory.embedding_model())),
            ("Conversations", model(page.memory.conversation_model())),
        ]))
        h2 { "Quotas and limits of this token" }
        (limits(visit))
        h2 { "Snapshots" }
        (snapshots(page, visit).await)
        h2 { "What the store serves" }
        (capabilities(page)?)
    })
}

fn model(model: Option<&EmbeddingModel>) -> Markup {
    html! {
        @match model {
            Some(EmbeddingModel { provider, model, dimensions }) => { (provider) " " (model) ", " (dimensions) " dimensions" }
            None => "found by words alone",
        }
    }
}

fn limits(visit: &Visit) -> Markup {
    let (grant, policy) = (visit.caller.grant(), visit.caller.policy());
    let most = |limit: Option<String>| limit.map_or_else(|| html! { "none" }, |limit| html! { (limit) });
    let ops = grant.ops.as_ref().map(|ops| ops.iter().map(|op| op.as_str()).collect::<Vec<_>>().join(", "));
    let kinds: Vec<&str> = policy.memory_scopes.iter().map(|kind| kind.as_str()).collect();
    let access =
        |access: Option<Value>| access.map_or_else(|| html! { "nothing" }, |value| html! { (plain(&value)) });
    list(&[
        ("Agent", grant.agent.as_ref().map_or_else(none, |agent| said(agent.as_str()))),
        ("User", grant.user.as_ref().map_or_else(none, |user| said(user.as_str()))),
        ("Operations", html! { (ops.unwrap_or_else(|| "all but those on a whole store".to_owned())) }),
        ("Kinds of scope", html! { @if kinds.is_empty() { "none" } @else { (kinds.join(", ")) } }),
        (
            "Shared state",
            access(serde_json::to_value(policy.shared_state).ok().filter(|value| !value.is_null())),
        ),
        ("Graph", access(serde_json::to_value(policy.graph).ok().filter(|value| !value.is_null()))),
        ("Entries of a scope", most(policy.quota.max_entries.map(|most| most.to_string()))),
        ("Size of a scope", most(policy.quota.max_bytes.map(bytes))),
        ("Size of a SQL database", most(policy.sql_max_bytes.map(bytes))),
    ])
}

/// The snapshots taken. Only for the operator, because they cover the whole store and name files of this machine.
async fn snapshots(page: &Page, visit: &Visit) -> Markup {
    if !visit.caller.grant().is_operators() {
        return remark("Snapshots hold whole stores. A token made with --all-tenants shows them.");
    }
    let Some(ledger) = page.beside.snapshots.clone() else {
        return remark("This store keeps no list of its snapshots.");
    };
    let read = tokio::task::spawn_blocking(move || {
        let mut entries = ledger.entries()?;
        entries.reverse();
        entries.truncate(SNAPSHOTS);
        Ok::<_, Error>(entries.into_iter().map(|entry| (entry.path.is_file(), entry)).collect::<Vec<_>>())
    });
    let entries = match read.await {
        Ok(Ok(entries)) => entries,
        Ok(Err(error)) => return refusal(&error),
        Err(_) => return refusal(&Error::internal("the list of snapshots could not be read")),
    };
    if entries.is_empty() {
        return html! { p class="remark" { "None was taken. " code { "memory snapshot FILE" } " takes one." } };
    }
    let rows: Vec<Markup> = entries
        .iter()
        .map(|(is_there, entry)| {
            let of = match (&entry.scope, &entry.tenant) {
                (Some(scope), _) => scope.to_string(),
                (None, Some(tenant)) => tenant.to_string(),
                (None, None) => "everything".to_owned(),
            };
            html! {
                td { (time(entry.created_at)) }
                td { (said(&of)) }
                td class="number" { (bytes(entry.bytes)) }
                td { code { (said(&entry.path.display().to_string())) } }
                td { @if *is_there { "there" } @else { "gone" } }
            }
        })
        .collect();
    table("The latest snapshots", &["Taken", "Of", "Size", "File", "State"], &rows)
}

fn capabilities(page: &Page) -> Result<Markup> {
    let all = serde_json::to_value(page.memory.capabilities())
        .map_err(|error| Error::internal("capabilities have no JSON form").with_source(error))?;
    let members: Vec<(&String, &Value)> = all.as_object().into_iter().flatten().collect();
    let flags = members.iter().filter_map(|(name, value)| Some((name, value.as_bool()?)));
    let rows: Vec<Markup> = members
        .iter()
        .filter(|(_, value)| !value.is_boolean() && !value.is_null())
        .map(|(name, value)| html! { td { code { (name) } } td { (plain(value)) } })
        .collect();
    Ok(html! {
        ul class="flags" {
            @for (name, is_served) in flags {
                li class=(if is_served { "yes" } else { "no" }) { @if !is_served { "no " } code { (name) } }
            }
        }
        (table("Limits and choices", &["Name", "Value"], &rows))
    })
}
