//! `recall` and `facts`: requests and paging.

use memory_core::layer::{Fact, FactsPage, FactsQuery, RecallQuery};
use memory_core::{Error, Op, Result};
use memory_http::Method;
use memory_http::service::{Cursors, Request};

use crate::client::{MEMORIES, Session};
use crate::config::Ranking;
use crate::owner::SERVICE;
use crate::rows::{INSIGHT, Rows, facts as facts_of};

/// Most rows that mem9 returns. If asked for more, it returns 10.
pub(crate) const MOST: usize = 200;
/// Longest query, in bytes. It is part of the URL, which proxies truncate.
const MAX_QUERY_BYTES: usize = 2_000;
const CURSORS: Cursors = Cursors("mem9.facts");

impl Session<'_> {
    /// Finds facts. mem9 has no threshold, so it is applied here, to the confidence.
    pub(crate) async fn recall(&self, query: &RecallQuery) -> Result<Vec<Fact>> {
        let ranking = self.options.ranking;
        if query.text.len() > MAX_QUERY_BYTES {
            return Err(Error::too_large("query to mem9", query.text.len(), MAX_QUERY_BYTES, "bytes"));
        }
        if query.threshold.is_some() && ranking == Ranking::Plain {
            return Err(Error::unsupported(Op::Recall.as_str(), "mem9").with_detail("option", "threshold"));
        }
        // Naming both types selects mem9's plain search. Pinned memories belong to no agent, so none are returned.
        let kinds = match ranking {
            Ranking::Confidence => INSIGHT,
            Ranking::Plain => "insight,pinned",
        };
        let limit = query.top_k.clamp(1, MOST).to_string();
        let parameters = [
            ("q", query.text.as_str()),
            ("agent_id", self.owner.id()),
            ("memory_type", kinds),
            ("limit", limit.as_str()),
        ];
        let request = Request::new(Method::Get, &MEMORIES, self.options.timeout()).parameters(&parameters);
        let rows: Rows = self.request(request).await?.trusted_json()?;
        let mut facts = facts_of(rows.memories, &self.owner, Some(ranking))?;
        if let Some(threshold) = query.threshold {
            facts.retain(|fact| fact.score.is_some_and(|score| score >= threshold));
        }
        facts.sort_by(|a, b| b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)));
        facts.truncate(query.top_k);
        Ok(facts)
    }

    /// One page of facts. The cursor is the number of rows seen so far.
    pub(crate) async fn facts(&self, query: &FactsQuery) -> Result<FactsPage> {
        let scope = self.owner.scope();
        let seen = CURSORS.number(scope, query.cursor.as_deref())?;
        let size = query.limit.clamp(1, MOST);
        let rows = self.list("active", seen, size).await?;
        let (count, total) = (rows.memories.len(), rows.total);
        if count > size {
            return Err(Error::corrupt("mem9 answered with a larger page than requested"));
        }
        let seen = seen.saturating_add(count);
        let more = match total.and_then(|total| usize::try_from(total).ok()) {
            Some(total) => seen < total,
            None => count == size,
        };
        let facts = facts_of(rows.memories, &self.owner, None)?;
        let next = more.then(|| CURSORS.write(scope, &seen.to_string())).transpose()?;
        Ok(FactsPage::new(facts, next))
    }

    /// The owner's rows in this state, unchecked.
    pub(crate) async fn list(&self, state: &str, seen: usize, size: usize) -> Result<Rows> {
        let (offset, limit) = (seen.to_string(), size.to_string());
        let parameters = [
            ("agent_id", self.owner.id()),
            ("memory_type", INSIGHT),
            ("state", state),
            ("limit", limit.as_str()),
            ("offset", offset.as_str()),
        ];
        let request = Request::new(Method::Get, &MEMORIES, self.options.timeout()).parameters(&parameters);
        let rows: Rows = self.request(request).await?.trusted_json()?;
        let total = rows.total.unwrap_or(0);
        if rows.memories.is_empty() && u64::try_from(seen).is_ok_and(|seen| seen < total) {
            return Err(SERVICE.corrupt(&format!("none of its memories after {seen} of {total}")));
        }
        Ok(rows)
    }
}
