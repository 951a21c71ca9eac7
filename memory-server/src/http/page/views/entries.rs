//! The entries of a scope: listed, filtered and searched.

use maud::{Markup, html};
use memory_core::{
    Cursor, Entry, Error, Field, Filter, Hit, ListQuery, Provider as _, Reply, Request, Result, Scalar,
    Scope, SearchMode, SearchQuery,
};

use super::super::ask::{Page, Visit, unexpected};
use super::super::fields::Fields;
use super::super::html::{hidden, maybe_time, more, number, remark, said, table, time};
use super::super::place::Place;

/// Entries of a page.
const LISTED: usize = 50;
/// Hits of a search.
const HITS: usize = 25;

pub(super) async fn show(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let capabilities = page.memory.capabilities();
    if !capabilities.kv {
        return Ok(remark("This store serves no entries, so there is nothing to list."));
    }
    let Some(scope) = &place.scope else {
        return Ok(
            html! { (place.chooser("/page/entries", true)) (remark("Choose a scope; the overview lists them.")) },
        );
    };
    let found = match fields.get("q") {
        Some(text) => search(page, visit, scope, text, place, fields).await?,
        None => listed(page, visit, scope, place, fields).await?,
    };
    Ok(html! {
        (place.chooser("/page/entries", true))
        form class="filters" method="get" action="/page/entries" role="search" aria-label="Search and filter entries" {
            (hidden(&place.fields()))
            @if capabilities.lexical_search || capabilities.vector_search {
                label class="wide" { "Search" input type="search" name="q" value=(fields.text("q")); }
                label { "By"
                    select name="mode" {
                        @for (name, label) in modes(capabilities.vector_search) {
                            option value=(name) selected[fields.text("mode") == *name] { (label) }
                        }
                    }
                }
            }
            label { "Key begins with" input name="prefix" value=(fields.text("prefix")); }
            label { "Metadata" input name="meta" placeholder="name=value" value=(fields.text("meta")); }
            label { "Source" input name="source" value=(fields.text("source")); }
            button { "Find" }
            @if ["q", "prefix", "meta", "source"].iter().any(|name| fields.get(name).is_some()) {
                a href=(place.link("/page/entries", &[])) { "Show all" }
            }
        }
        (found)
        p { a href=(place.link("/page/scope", &[])) { "About this scope: vectors, quotas, drift" } }
    })
}

fn modes(by_vectors: bool) -> &'static [(&'static str, &'static str)] {
    let all = &[
        ("", "what fits best"),
        ("lexical", "words"),
        ("vector", "meaning"),
        ("hybrid", "words and meaning"),
    ];
    all.get(..if by_vectors { 4 } else { 2 }).unwrap_or(all)
}

/// The filter for metadata and source.
fn filter(fields: &Fields) -> Result<Option<Filter>> {
    let mut all = Vec::new();
    if let Some(member) = fields.get("meta") {
        let (name, value) = member
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| Error::invalid("metadata is filtered by NAME=VALUE, as kind=note or count=3"))?;
        let value = serde_json::from_str::<Scalar>(value).unwrap_or_else(|_| value.into());
        all.push(Filter::Eq(Field::Metadata(name.trim().to_owned()), value));
    }
    if let Some(source) = fields.get("source") {
        all.push(Filter::Eq(Field::Source, source.into()));
    }
    Ok(match all.len() {
        0 => None,
        1 => all.pop(),
        _ => Some(Filter::And(all)),
    })
}

async fn listed(page: &Page, visit: &Visit, scope: &Scope, place: &Place, fields: &Fields) -> Result<Markup> {
    let mut query = ListQuery::prefix(fields.text("prefix"))
        .with_limit(LISTED)
        .with_cursor(fields.get("cursor").map(|cursor| Cursor::from_text(cursor.to_owned())));
    query.filter = filter(fields)?;
    let Reply::List(found) = page.ask(visit, Request::List { scope: scope.clone(), query }).await? else {
        return Err(unexpected());
    };
    let next = found.next.as_ref().map(|next| {
        let kept = ["prefix", "meta", "source"].map(|name| (name, fields.text(name)));
        place.link("/page/entries", &[&kept[..], &[("cursor", next.as_str())]].concat())
    });
    let rows: Vec<Markup> = found.entries.iter().map(|entry| row(place, entry, None)).collect();
    Ok(html! {
        @if rows.is_empty() {
            (remark("No entry here. Filters may leave out what there is; turns of conversations are under “Conversations”."))
        } @else {
            (table("Entries in the order of their keys", &["Key", "Value", "Version", "Written", "Expires"], &rows))
            (more(next))
        }
    })
}

async fn search(
    page: &Page,
    visit: &Visit,
    scope: &Scope,
    text: &str,
    place: &Place,
    fields: &Fields,
) -> Result<Markup> {
    let mode = match fields.text("mode") {
        "lexical" => SearchMode::Lexical,
        "vector" => SearchMode::Vector,
        "hybrid" => SearchMode::Hybrid,
        _ => SearchMode::Auto,
    };
    let mut query = SearchQuery::new(text)
        .with_mode(mode)
        .with_prefix(fields.text("prefix"))
        .with_top_k(HITS.min(page.memory.capabilities().max_top_k));
    query.filter = filter(fields)?;
    let Reply::Search(found) = page.ask(visit, Request::Search { scope: scope.clone(), query }).await? else {
        return Err(unexpected());
    };
    let by = match found.mode {
        SearchMode::Lexical => "words",
        SearchMode::Vector => "meaning",
        _ => "words and meaning",
    };
    let rows: Vec<Markup> = found.hits.iter().map(|hit| row(place, &hit.entry, Some(hit))).collect();
    Ok(html! {
        @if rows.is_empty() {
            (remark(&format!("Nothing was found by {by}.")))
        } @else {
            (table(&format!("Found by {by}, the best first"), &["Key", "Value", "Score", "Version", "Written", "Expires"], &rows))
            p class="remark" {
                "The score is the similarity with what you searched for, from 0 to 1. A search counts as an access of what it finds."
            }
        }
    })
}

fn row(place: &Place, entry: &Entry, hit: Option<&Hit>) -> Markup {
    let key = entry.key.as_str();
    html! {
        td { a href=(place.link("/page/entry", &[("key", key)])) { (said(key)) } }
        td class="value" { (said(entry.value.as_str())) }
        @if let Some(hit) = hit { td class="number" { (number(hit.score)) } }
        td class="number" { (entry.version) }
        td { (time(entry.updated_at)) }
        td { (maybe_time(entry.expires_at)) }
    }
}
