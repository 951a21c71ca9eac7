//! `recall` and `facts`: requests and paging.

use memory_core::layer::{Fact, FactsPage, FactsQuery, RecallQuery};
use memory_core::{Error, ErrorKind, Result, Secret};
use memory_http::Method;
use memory_http::service::{Cursors, Owner, Request};
use serde_json::{Value, json};

use crate::client::Client;
use crate::config::{Flavour, Mem0Options};
use crate::rows::{Rows, facts as facts_of};

/// Most memories that a self-hosted server lists.
pub(crate) const MOST: usize = 1_000;
/// The Platform's largest page.
const PLATFORM_PAGE: usize = 200;
const CURSORS: Cursors = Cursors("mem0.facts");

/// Finds facts. The server applies the threshold to the cosine behind its scores, so it is not applied again here.
pub(crate) async fn recall(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    query: &RecallQuery,
    options: &Mem0Options,
) -> Result<Vec<Fact>> {
    let mut body = json!({ "query": query.text, "filters": { "user_id": owner.id() }, "top_k": query.top_k });
    if let (Some(threshold), Some(members)) = (query.threshold, body.as_object_mut()) {
        members.insert("threshold".to_owned(), json!(threshold));
    }
    let path: &[&str] = match client.flavour {
        Flavour::SelfHosted => &["search"],
        Flavour::Platform => &["v3", "memories", "search", ""],
    };
    let reply = client.request(Request::new(Method::Post, path, options.timeout()).body(body), key).await?;
    let rows: Rows = reply.trusted_json()?;
    let mut facts = facts_of(rows.results, owner, true)?;
    facts.sort_by(|a, b| b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)));
    facts.truncate(query.top_k);
    Ok(facts)
}

/// One page of facts.
pub(crate) async fn facts(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    query: &FactsQuery,
    options: &Mem0Options,
) -> Result<FactsPage> {
    match client.flavour {
        Flavour::SelfHosted => self_hosted_page(client, key, owner, query, options).await,
        Flavour::Platform => platform_page(client, key, owner, query, options).await,
    }
}

/// All memories that a self-hosted server lists for an owner, ordered by time and id.
pub(crate) async fn self_hosted_list(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    options: &Mem0Options,
) -> Result<Vec<Fact>> {
    let most = MOST.to_string();
    let parameters = [("user_id", owner.id()), ("top_k", most.as_str())];
    let request = Request::new(Method::Get, &["memories"], options.timeout()).parameters(&parameters);
    let rows: Rows = client.request(request, key).await?.trusted_json()?;
    let mut facts = facts_of(rows.results, owner, false)?;
    facts.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    Ok(facts)
}

fn sort_key(fact: &Fact) -> (i64, &str) {
    (fact.created_at.map_or(0, |at| at.as_millis()), fact.id.as_str())
}

/// The server has no pages, so they are cut here, after the fact that the cursor names.
async fn self_hosted_page(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    query: &FactsQuery,
    options: &Mem0Options,
) -> Result<FactsPage> {
    let after = match &query.cursor {
        Some(cursor) => {
            let text = CURSORS.read(owner.scope(), cursor)?;
            let (at, id) = text.split_once('/').ok_or_else(Cursors::foreign)?;
            Some((at.parse::<i64>().map_err(|_| Cursors::foreign())?, id.to_owned()))
        }
        None => None,
    };
    let listed = self_hosted_list(client, key, owner, options).await?;
    let full = listed.len() >= MOST;
    let is_after = |fact: &Fact| after.as_ref().is_none_or(|(at, id)| sort_key(fact) > (*at, id.as_str()));
    let rest: Vec<Fact> = listed.into_iter().filter(is_after).collect();
    let more = rest.len() > query.limit;
    if full && !more {
        return Err(Error::new(
            ErrorKind::ResultTooLarge,
            format!(
                "a self-hosted mem0 lists at most {MOST} memories of a scope, and this one may have more; \
                 forget some, or search with recall"
            ),
        ));
    }
    let page: Vec<Fact> = rest.into_iter().take(query.limit).collect();
    let next = match page.last() {
        Some(last) if more => {
            let (at, id) = sort_key(last);
            Some(CURSORS.write(owner.scope(), &format!("{at}/{id}"))?)
        }
        _ => None,
    };
    Ok(FactsPage::new(page, next))
}

/// The cursor is the number of facts seen so far. The URL of the next page that the Platform returns is never followed.
async fn platform_page(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    query: &FactsQuery,
    options: &Mem0Options,
) -> Result<FactsPage> {
    let seen = match &query.cursor {
        Some(cursor) => {
            CURSORS.read(owner.scope(), cursor)?.parse::<usize>().map_err(|_| Cursors::foreign())?
        }
        None => 0,
    };
    let mut size = query.limit.min(PLATFORM_PAGE);
    // A page starts at a multiple of its size.
    while size > 1 && seen.checked_rem(size) != Some(0) {
        size -= 1;
    }
    let page = seen.checked_div(size).unwrap_or(0).saturating_add(1);
    let (facts, more) = platform_list(client, key, owner, page, size, options).await?;
    let next = if more && !facts.is_empty() {
        Some(CURSORS.write(owner.scope(), &seen.saturating_add(facts.len()).to_string())?)
    } else {
        None
    };
    Ok(FactsPage::new(facts, next))
}

/// One page from the Platform, and whether there are more.
pub(crate) async fn platform_list(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    page: usize,
    size: usize,
    options: &Mem0Options,
) -> Result<(Vec<Fact>, bool)> {
    let (page, size_text) = (page.to_string(), size.to_string());
    let parameters = [("page", page.as_str()), ("page_size", size_text.as_str())];
    let request = Request::new(Method::Post, &["v3", "memories", ""], options.timeout())
        .parameters(&parameters)
        .body(json!({ "filters": { "user_id": owner.id() } }));
    let rows: Rows = client.request(request, key).await?.trusted_json()?;
    let more = rows.next.as_ref().is_some_and(|next| !matches!(next, Value::Null | Value::Bool(false)));
    if rows.results.len() > size {
        return Err(Error::new(ErrorKind::Corrupt, "mem0 answered with a larger page than requested"));
    }
    Ok((facts_of(rows.results, owner, false)?, more))
}
