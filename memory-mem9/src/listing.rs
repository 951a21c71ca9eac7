//! `recall` and `facts`: requests and paging.

use memory_core::layer::{Fact, FactsPage, FactsQuery, RecallQuery};
use memory_core::{Error, ErrorKind, Op, Result, Secret};
use memory_http::Method;
use memory_http::service::{Cursors, Owner, Request};

use crate::client::{Client, MEMORIES};
use crate::config::{Mem9Options, Ranking};
use crate::rows::{INSIGHT, Rows, facts as facts_of};

/// Most rows that mem9 returns. If asked for more, it returns 10.
pub(crate) const MOST: usize = 200;
/// Longest query, in bytes. It is part of the URL, which proxies truncate.
const MAX_QUERY_BYTES: usize = 2_000;
const CURSORS: Cursors = Cursors("mem9.facts");

/// Finds facts. mem9 has no threshold, so it is applied here, to the confidence.
pub(crate) async fn recall(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    query: &RecallQuery,
    options: &Mem9Options,
) -> Result<Vec<Fact>> {
    if query.text.len() > MAX_QUERY_BYTES {
        return Err(Error::too_large("query to mem9", query.text.len(), MAX_QUERY_BYTES, "bytes"));
    }
    if query.threshold.is_some() && options.ranking == Ranking::Plain {
        return Err(Error::unsupported(Op::Recall.as_str(), "mem9").with_detail("option", "threshold"));
    }
    // Naming both types selects mem9's plain search. Pinned memories belong to no agent, so none are returned.
    let kinds = match options.ranking {
        Ranking::Confidence => INSIGHT,
        Ranking::Plain => "insight,pinned",
    };
    let limit = query.top_k.clamp(1, MOST).to_string();
    let parameters = [
        ("q", query.text.as_str()),
        ("agent_id", owner.id()),
        ("memory_type", kinds),
        ("limit", limit.as_str()),
    ];
    let request = Request::new(Method::Get, &MEMORIES, options.timeout()).parameters(&parameters);
    let rows: Rows = client.request(request, key).await?.trusted_json()?;
    let mut facts = facts_of(rows.memories, owner, Some(options.ranking))?;
    if let Some(threshold) = query.threshold {
        facts.retain(|fact| fact.score.is_some_and(|score| score >= threshold));
    }
    facts.sort_by(|a, b| b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)));
    facts.truncate(query.top_k);
    Ok(facts)
}

/// One page of facts. The cursor is the number of rows seen so far.
pub(crate) async fn facts(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    query: &FactsQuery,
    options: &Mem9Options,
) -> Result<FactsPage> {
    let seen = match &query.cursor {
        Some(cursor) => CURSORS.read(owner.scope(), cursor)?.parse().map_err(|_| Cursors::foreign())?,
        None => 0,
    };
    let size = query.limit.clamp(1, MOST);
    let rows = list(client, key, owner, "active", seen, size, options).await?;
    let (count, total) = (rows.memories.len(), rows.total);
    if count > size {
        return Err(Error::new(ErrorKind::Corrupt, "mem9 answered with a larger page than requested"));
    }
    let behind = seen.saturating_add(count);
    let more = match total.and_then(|total| usize::try_from(total).ok()) {
        Some(total) => behind < total,
        None => count == size,
    };
    let facts = facts_of(rows.memories, owner, None)?;
    let next =
        if more && count > 0 { Some(CURSORS.write(owner.scope(), &behind.to_string())?) } else { None };
    Ok(FactsPage::new(facts, next))
}

/// The owner's rows in this state, unchecked.
pub(crate) async fn list(
    client: &Client,
    key: &Secret,
    owner: &Owner,
    state: &str,
    seen: usize,
    size: usize,
    options: &Mem9Options,
) -> Result<Rows> {
    let (offset, limit) = (seen.to_string(), size.to_string());
    let parameters = [
        ("agent_id", owner.id()),
        ("memory_type", INSIGHT),
        ("state", state),
        ("limit", limit.as_str()),
        ("offset", offset.as_str()),
    ];
    let request = Request::new(Method::Get, &MEMORIES, options.timeout()).parameters(&parameters);
    client.request(request, key).await?.trusted_json()
}
