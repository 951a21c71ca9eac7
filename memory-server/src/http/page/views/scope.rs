//! A scope as a whole: size and quota, vectors, drift and its backups, the SQL database.

use maud::{Markup, html};
use memory::conversations::{TurnVectorStats, turn_vectors};
use memory::drift::Backups;
use memory_core::{Error, Op, Provider as _, Reply, Request, Result, Scope, ScopeStats};

use super::super::ask::{Page, Visit, unexpected};
use super::super::html::{list, none, refusal, remark, table, time};
use super::super::place::Place;
use crate::terminal::bytes;

pub(super) async fn show(page: &Page, visit: &Visit, place: &Place) -> Result<Markup> {
    let Some(scope) = &place.scope else {
        return Ok(
            html! { (place.chooser("/page/scope", true)) (remark("Choose a scope; the overview lists them.")) },
        );
    };
    let capabilities = page.memory.capabilities();
    Ok(html! {
        (place.chooser("/page/scope", true))
        h2 { "Entries" }
        @if capabilities.stats {
            @match page.ask(visit, Request::Stats { scope: scope.clone() }).await {
                Ok(Reply::Stats(stats)) => (counted(visit, &stats, capabilities.vector_search)),
                Ok(_) => (refusal(&unexpected())),
                Err(error) => (refusal(&error)),
            }
        } @else { (remark("This store does not count what a scope holds.")) }
        @if let Some(vectors) = turn_vectors(&page.memory) {
            h2 { "Conversation" }
            @match page.as_op(visit, Op::Stats, &scope.tenant, Some(scope), vectors.stats(scope)).await {
                Ok(turns) => (spoken(&turns)),
                Err(error) => (refusal(&error)),
            }
        }
        h2 { "SQL database" }
        @if capabilities.sql {
            @match page.ask(visit, Request::SqlUsage { scope: scope.clone() }).await {
                Ok(Reply::SqlUsage(usage)) => (list(&[
                    ("Size", html! { (bytes(usage.bytes)) }),
                    ("Quota", limit(usage.quota_bytes.map(bytes))),
                ])),
                Ok(_) => (refusal(&unexpected())),
                Err(error) => (refusal(&error)),
            }
        } @else { (remark("This store serves no SQL to agents.")) }
        h2 { "Drift" }
        @if capabilities.drift.is_empty() {
            (remark("This store does not notice when another program changes a scope."))
        } @else {
            @match page.ask(visit, Request::DriftState { scope: scope.clone() }).await {
                Ok(Reply::DriftState(state)) => {
                    (list(&[
                        ("Token", html! { code { (state.token) } }),
                        ("Highest version", html! { (state.version) }),
                        ("Checks served", html! { @for policy in &capabilities.drift { code { (policy.as_str()) } " " } }),
                    ]))
                    (backups(page, scope).await)
                }
                Ok(_) => (refusal(&unexpected())),
                Err(error) => (refusal(&error)),
            }
        }
    })
}

/// A limit, or "none".
fn limit(limit: Option<String>) -> Markup {
    html! { @match limit { Some(limit) => (limit), None => "none" } }
}

fn counted(visit: &Visit, stats: &ScopeStats, has_vectors: bool) -> Markup {
    let quota = visit.caller.policy().quota;
    let rows: Vec<Markup> = stats
        .models
        .iter()
        .map(|of| {
            html! {
                td { (of.model.provider) " " (of.model.model) }
                td class="number" { (of.model.dimensions) }
                td class="number" { (of.rows) }
                td class="number" { (bytes(of.bytes)) }
                td class="number" { (of.stale) }
                td class="number" { (of.missing) }
            }
        })
        .collect();
    html! {
        (list(&[
            ("Entries", html! { (stats.entries) }),
            ("Size", html! { (bytes(stats.bytes)) }),
            ("Expiring", html! { (stats.expiring) }),
            ("Quota of entries", limit(quota.max_entries.map(|most| most.to_string()))),
            ("Quota of size", limit(quota.max_bytes.map(bytes))),
        ]))
        p class="remark" { "The quotas are those of this token’s rules; another agent may have others." }
        h3 { "Vectors" }
        @if !has_vectors { (remark("No embedder is configured, so entries have no vectors. Conversations have their own model.")) }
        @else if rows.is_empty() { (remark("No entry has a vector yet.")) }
        @else {
            (table("Vectors by model", &["Model", "Dimensions", "Vectors", "Size", "Stale", "Missing"], &rows))
            p class="remark" {
                "Stale vectors are of an older text and are never searched; missing ones were not computed. "
                code { "memory reembed" } " computes both, but not of turns, which have vectors of their own and count as missing here."
            }
        }
    }
}

/// Which models' vectors a scope's turns have.
fn spoken(stats: &TurnVectorStats) -> Markup {
    let TurnVectorStats { model, turns, stale, missing, stale_models, .. } = stats;
    if *turns == 0 {
        return remark("Nothing was said here.");
    }
    html! {
        (list(&[
            ("Turns", html! { (turns) }),
            ("Model", html! { (model.provider) " " (model.model) }),
            ("Stale", html! { (stale) @for (other, turns) in stale_models { ", " (turns) " by " (other) } }),
            ("Missing", html! { (missing) }),
        ]))
        @if stale + missing > 0 {
            p class="remark" {
                "Stale turns have vectors of another model, missing ones have none: they are found by words alone. "
                code { "memory reembed" } " embeds them."
            }
        }
    }
}

/// The copies of the scope that were made before writes were refused.
async fn backups(page: &Page, scope: &Scope) -> Markup {
    let Some(folder) = page.memory.drift_backups().map(std::path::Path::to_path_buf) else {
        return remark("No folder is set for copies of a scope whose writes are refused.");
    };
    let scope = scope.clone();
    let found = tokio::task::spawn_blocking(move || Backups::new(folder).list(&scope)).await;
    let found = match found {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return refusal(&error),
        Err(_) => return refusal(&Error::internal("the folder of backups could not be read")),
    };
    if found.is_empty() {
        return remark("No write was refused for drift, so there is no backup.");
    }
    let rows: Vec<Markup> = found
        .iter()
        .map(|backup| {
            let name = backup.path.file_name().map(|name| name.to_string_lossy().into_owned());
            html! {
                td { (time(backup.timestamp)) }
                td { @match name { Some(name) => code { (name) }, None => (none()) } }
                td class="number" { (bytes(backup.bytes)) }
                td { @if backup.resolved { "resolved" } @else { strong { "open" } } }
            }
        })
        .collect();
    html! {
        (table("Backups of this scope", &["Made", "File", "Size", "State"], &rows))
        p class="remark" {
            code { "memory drift diff" } " shows what a backup has otherwise, " code { "memory drift restore" } " brings it back."
        }
    }
}
