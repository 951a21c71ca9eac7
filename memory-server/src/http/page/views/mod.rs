//! The pages, by their paths.

mod activity;
mod conversations;
mod entries;
mod entry;
mod graph;
mod overview;
mod records;
mod scope;
mod shared;
mod store;

use maud::Markup;
use memory_core::{Error, ErrorKind, Result};

use super::ask::{Page, Visit};
use super::fields::Fields;
use super::place::Place;

/// What a form did: where to go next, and what to say there.
pub(super) struct Done {
    pub(super) to: String,
    pub(super) notice: String,
}

/// A page: its title and content.
pub(super) async fn show(
    page: &Page,
    visit: &Visit,
    path: &str,
    place: &Place,
    fields: &Fields,
) -> Result<(&'static str, Markup)> {
    Ok(match path {
        "/" => ("Overview", overview::show(page, visit, place, fields).await?),
        "/page/entries" => ("Entries", entries::show(page, visit, place, fields).await?),
        "/page/entry" => ("Entry", entry::show(page, visit, place, fields).await?),
        "/page/scope" => ("Scope", scope::show(page, visit, place).await?),
        "/page/recall" => ("Conversations", conversations::recall(page, visit, place, fields).await?),
        "/page/facts" => ("What is remembered", conversations::facts(page, visit, place, fields).await?),
        "/page/shared" => ("Shared state", shared::show(page, visit, place, fields).await?),
        "/page/why" => ("Why it is so", shared::why(page, visit, place, fields).await?),
        "/page/graph" => ("Graph", graph::show(page, visit, place, fields).await?),
        "/page/memory" => ("A memory of the graph", graph::memory(page, visit, place, fields).await?),
        "/page/activity" => ("Activity", activity::show(page, visit, place).await?),
        "/page/store" => ("Store", store::show(page, visit).await?),
        _ => return Err(nowhere()),
    })
}

/// Carries out what a form asks for.
pub(super) async fn act(page: &Page, visit: &Visit, path: &str, fields: &Fields) -> Result<Done> {
    let place = Place::of(&visit.caller, fields)?;
    match path {
        "/page/entry" => entry::delete(page, visit, &place, fields).await,
        "/page/facts" => conversations::forget(page, visit, &place, fields).await,
        "/page/shared" => shared::decide(page, visit, &place, fields).await,
        _ => Err(nowhere()),
    }
}

fn nowhere() -> Error {
    Error::new(ErrorKind::NotFound, "there is no such page")
}
