//! [`MemoryLayer`]: messages and queries.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::Checked;
use super::arguments::{check_limit, check_message_id, check_messages, check_tenant, check_threshold};
use crate::entry::Ttl;
use crate::error::{Error, Result};
use crate::interposed::Op;
use crate::layer::{
    AddOptions, AddOutcome, EventId, EventStatus, Fact, FactId, FactsPage, FactsQuery, Forget, ForgetOutcome,
    MAX_FACTS_CURSOR_BYTES, MAX_SUPERSEDED, MemoryLayer, Message, RecallQuery,
};
use crate::limits::{MAX_PAGE, MAX_QUERY_BYTES};
use crate::provider::Provider;
use crate::scope::{RunContext, Scope};

impl<P: Provider> Checked<P> {
    fn checked_layer(&self, op: Op, run: &RunContext, scope: &Scope) -> Result<&dyn MemoryLayer> {
        let layer = self
            .inner
            .layer()
            .filter(|_| self.capabilities.memory_layer)
            .ok_or_else(|| self.unsupported(op))?;
        check_tenant(run, scope)?;
        Ok(layer)
    }
}

fn check_distinct<'a>(mut ids: impl Iterator<Item = &'a FactId>) -> Result<()> {
    let mut distinct = BTreeSet::new();
    if ids.all(|id| distinct.insert(id)) { Ok(()) } else { Err(Error::invalid("an id is named twice")) }
}

#[async_trait]
impl<P: Provider> MemoryLayer for Checked<P> {
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        let layer = self.checked_layer(Op::Add, run, scope)?;
        if !options.infer && !self.capabilities.layer_verbatim {
            return Err(self.unsupported_option(Op::Add, "infer"));
        }
        let labelled =
            !options.metadata.is_empty() || messages.iter().any(|message| !message.metadata.is_empty());
        if labelled && !self.capabilities.layer_metadata {
            return Err(self.unsupported_option(Op::Add, "metadata"));
        }
        if !options.supersedes.is_empty() && !self.capabilities.layer_supersede {
            return Err(self.unsupported_option(Op::Add, "supersedes"));
        }
        if !options.confirms.is_empty() && !self.capabilities.layer_confirm {
            return Err(self.unsupported_option(Op::Add, "confirms"));
        }
        if options.ttl != Ttl::Keep && !self.capabilities.layer_expiry {
            return Err(self.unsupported_option(Op::Add, "ttl"));
        }
        check_messages(messages)?;
        options.metadata.check()?;
        options.ttl.check()?;
        check_distinct(options.supersedes.iter().chain(&options.confirms))?;
        for (name, ids) in [("supersedes", &options.supersedes), ("confirms", &options.confirms)] {
            if ids.len() > MAX_SUPERSEDED {
                return Err(Error::too_large(name, ids.len(), MAX_SUPERSEDED, "facts"));
            }
        }
        layer.add(run, scope, messages, options).await
    }

    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        let layer = self.checked_layer(Op::Recall, run, scope)?;
        if query.text.len() > MAX_QUERY_BYTES {
            return Err(Error::too_large("query", query.text.len(), MAX_QUERY_BYTES, "bytes"));
        }
        if query.text.trim().is_empty() {
            return Err(Error::invalid("the query is blank; say what to recall, or use `facts`"));
        }
        if query.text.contains('\0') {
            return Err(Error::invalid("the query has a NUL character; remove it"));
        }
        check_limit("top_k", query.top_k, self.capabilities.max_top_k)?;
        check_threshold(query.threshold)?;
        if query.threshold.is_some() && !self.capabilities.layer_threshold {
            return Err(self.unsupported_option(Op::Recall, "threshold"));
        }
        if query.as_of.is_some() && !self.capabilities.layer_supersede {
            return Err(self.unsupported_option(Op::Recall, "as_of"));
        }
        if query.unconfirmed_since.is_some() && !self.capabilities.layer_confirm {
            return Err(self.unsupported_option(Op::Recall, "unconfirmed_since"));
        }
        layer.recall(run, scope, query).await
    }

    async fn event(&self, run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus> {
        let layer = self.checked_layer(Op::Event, run, scope)?;
        self.require(self.capabilities.layer_events, Op::Event)?;
        layer.event(run, scope, id).await
    }

    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        let layer = self.checked_layer(Op::Forget, run, scope)?;
        self.require(self.capabilities.layer_forget, Op::Forget)?;
        if let Forget::Ids(ids) = &what {
            check_limit("ids", ids.len(), MAX_PAGE)?;
            check_distinct(ids.iter())?;
        }
        layer.forget(run, scope, what).await
    }

    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        let layer = self.checked_layer(Op::Facts, run, scope)?;
        check_limit("limit", query.limit, MAX_PAGE)?;
        if let Some(cursor) = &query.cursor
            && (cursor.is_empty() || cursor.len() > MAX_FACTS_CURSOR_BYTES)
        {
            return Err(Error::invalid(
                "the cursor is not one that this listing returned; start again without a cursor",
            ));
        }
        if let Some(session) = &query.session {
            if !self.capabilities.layer_sessions {
                return Err(self.unsupported_option(Op::Facts, "session"));
            }
            check_message_id("session", session)?;
        }
        layer.facts(run, scope, query).await
    }
}
