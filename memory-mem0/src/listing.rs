//! `recall` and `facts`: requests and paging.

use memory_core::layer::{Fact, FactsPage, FactsQuery, RecallQuery};
use memory_core::{Error, Result};
use memory_http::Method;
use memory_http::service::{Cursors, Request};
use serde_json::{Value, json};

use crate::client::Session;
use crate::config::Flavour;
use crate::owner::SERVICE;
use crate::rows::{Rows, facts as facts_of};

/// Most memories that a self-hosted server lists.
pub(crate) const MOST: usize = 1_000;
/// The Platform's largest page.
const PLATFORM_PAGE: usize = 200;
const CURSORS: Cursors = Cursors("mem0.facts");

impl Session<'_> {
    /// Finds facts. The server applies the threshold to the cosine behind its scores, so it is not applied again here.
    pub(crate) async fn recall(&self, query: &RecallQuery) -> Result<Vec<Fact>> {
        let mut body =
            json!({ "query": query.text, "filters": { "user_id": self.owner.id() }, "top_k": query.top_k });
        if let (Some(threshold), Some(members)) = (query.threshold, body.as_object_mut()) {
            members.insert("threshold".to_owned(), json!(threshold));
        }
        let path = self.by_flavour(&["search"][..], &["v3", "memories", "search", ""]);
        let request = Request::new(Method::Post, path, self.options.timeout()).body(body);
        let rows: Rows = self.request(request).await?.trusted_json()?;
        let mut facts = facts_of(rows.results, &self.owner, true)?;
        facts.sort_by(|a, b| b.score.unwrap_or(0.0).total_cmp(&a.score.unwrap_or(0.0)));
        facts.truncate(query.top_k);
        Ok(facts)
    }

    /// One page of facts.
    pub(crate) async fn facts(&self, query: &FactsQuery) -> Result<FactsPage> {
        match self.client.flavour {
            Flavour::SelfHosted => self.self_hosted_page(query).await,
            Flavour::Platform => self.platform_page(query).await,
        }
    }

    /// All memories that a self-hosted server lists for the owner, ordered by time and id.
    pub(crate) async fn self_hosted_list(&self) -> Result<Vec<Fact>> {
        let most = MOST.to_string();
        let parameters = [("user_id", self.owner.id()), ("top_k", most.as_str())];
        let request =
            Request::new(Method::Get, &["memories"], self.options.timeout()).parameters(&parameters);
        let rows: Rows = self.request(request).await?.trusted_json()?;
        let mut facts = facts_of(rows.results, &self.owner, false)?;
        facts.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        Ok(facts)
    }

    /// The server has no pages, so they are cut here, after the fact that the cursor names.
    async fn self_hosted_page(&self, query: &FactsQuery) -> Result<FactsPage> {
        let scope = self.owner.scope();
        let after = match &query.cursor {
            Some(cursor) => {
                let text = CURSORS.read(scope, cursor)?;
                let (at, id) = text.split_once('/').ok_or_else(Cursors::foreign)?;
                Some((at.parse::<i64>().map_err(|_| Cursors::foreign())?, id.to_owned()))
            }
            None => None,
        };
        let listed = self.self_hosted_list().await?;
        let full = listed.len() >= MOST;
        let is_after =
            |fact: &Fact| after.as_ref().is_none_or(|(at, id)| sort_key(fact) > (*at, id.as_str()));
        let rest: Vec<Fact> = listed.into_iter().filter(is_after).collect();
        let more = rest.len() > query.limit;
        if full && !more {
            return Err(Error::result_too_large(format!(
                "a self-hosted mem0 lists at most {MOST} memories of a scope, and this one may have more; \
                     forget some, or search with recall"
            )));
        }
        let page: Vec<Fact> = rest.into_iter().take(query.limit).collect();
        let last = page.last().filter(|_| more).map(sort_key);
        let next = last.map(|(at, id)| CURSORS.write(scope, &format!("{at}/{id}"))).transpose()?;
        Ok(FactsPage::new(page, next))
    }

    /// The cursor is the number of facts seen so far. The URL of the next page that the Platform returns is never
    /// followed.
    async fn platform_page(&self, query: &FactsQuery) -> Result<FactsPage> {
        let seen = CURSORS.number(self.owner.scope(), query.cursor.as_deref())?;
        let mut size = query.limit.min(PLATFORM_PAGE);
        // A page starts at a multiple of its size.
        while size > 1 && seen.checked_rem(size) != Some(0) {
            size -= 1;
        }
        let page = seen.checked_div(size).unwrap_or(0).saturating_add(1);
        let (facts, more) = self.platform_list(page, size).await?;
        let seen = seen.saturating_add(facts.len());
        let next = more.then(|| CURSORS.write(self.owner.scope(), &seen.to_string())).transpose()?;
        Ok(FactsPage::new(facts, next))
    }

    /// One page from the Platform, and whether there are more.
    pub(crate) async fn platform_list(&self, page: usize, size: usize) -> Result<(Vec<Fact>, bool)> {
        let (page, size_text) = (page.to_string(), size.to_string());
        let parameters = [("page", page.as_str()), ("page_size", size_text.as_str())];
        let request = Request::new(Method::Post, &["v3", "memories", ""], self.options.timeout())
            .parameters(&parameters)
            .body(json!({ "filters": { "user_id": self.owner.id() } }));
        let rows: Rows = self.request(request).await?.trusted_json()?;
        let more = rows.next.as_ref().is_some_and(|next| !matches!(next, Value::Null | Value::Bool(false)));
        if rows.results.len() > size {
            return Err(Error::corrupt("mem0 answered with a larger page than requested"));
        }
        if more && rows.results.is_empty() {
            return Err(SERVICE.corrupt("an empty page of which it says that more follow"));
        }
        Ok((facts_of(rows.results, &self.owner, false)?, more))
    }
}

fn sort_key(fact: &Fact) -> (i64, &str) {
    (fact.created_at.map_or(0, |at| at.as_millis()), fact.id.as_str())
}
