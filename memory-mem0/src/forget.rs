//! `forget`: each memory is fetched and its owner checked first, and its absence is confirmed afterwards.

use std::time::Duration;

use memory_core::layer::{FactId, ForgetOutcome};
use memory_core::{Error, Result};
use memory_http::service::{
    Forgets, Forgetting, Request, Service, is_uuid, may_have_forgotten, some_may_remain,
};
use memory_http::{CallKind, Method, Reply};

use crate::client::Session;
use crate::config::Flavour;
use crate::listing::MOST;
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

impl Session<'_> {
    fn path_of<'p>(&self, id: &'p str) -> Vec<&'p str> {
        self.by_flavour(vec!["memories", id], vec!["v1", "memories", id, ""])
    }

    /// Whether the memory exists and belongs to the owner. Another owner's counts as absent.
    async fn is_owned(&self, id: &str) -> Result<bool> {
        let path = self.path_of(id);
        let reply = self.exchange(Request::new(Method::Get, &path, self.options.timeout())).await?;
        // The Platform answers 400 for an id that it never issued.
        if reply.status() == 404 || (reply.status() == 400 && self.by_flavour(false, true)) {
            return Ok(false);
        }
        if let Some(error) = self.client.error_of(&reply) {
            return Err(error);
        }
        // A self-hosted server answers `null` for an unknown id.
        let row: Option<Row> = reply.trusted_json()?;
        let Some(row) = row else { return Ok(false) };
        if !row.id.eq_ignore_ascii_case(id) {
            return Err(Error::corrupt("mem0 answered with another memory than the requested one"));
        }
        Ok(row.user_id.as_deref() == Some(self.owner.id()))
    }

    /// Sends a deletion; if it may have happened anyway, the error is `outcome_unknown`. Two statuses have special
    /// meanings and are not errors here.
    async fn delete(&self, request: Request<'_>) -> Result<Reply> {
        let deleted = self.exchange(request.kind(CallKind::Idempotent)).await.and_then(|reply| {
            let error = self.client.error_of(&reply).filter(|_| !matches!(reply.status(), 403 | 404));
            error.map_or(Ok(reply), Err)
        });
        deleted.map_err(|error| may_have_forgotten(SERVICE, error))
    }

    fn page_size(&self) -> usize {
        self.by_flavour(MOST, 200)
    }

    /// Ids of the owner's memories, at most one page.
    async fn remaining(&self) -> Result<Vec<FactId>> {
        let facts = match self.client.flavour {
            Flavour::SelfHosted => self.self_hosted_list().await?,
            Flavour::Platform => self.platform_list(1, self.page_size()).await?.0,
        };
        Ok(facts.into_iter().map(|fact| fact.id).collect())
    }

    async fn one_by_one(&self) -> Result<ForgetOutcome> {
        let mut forgetting = Forgetting::new(SERVICE);
        loop {
            let ids = self.remaining().await.map_err(|error| forgetting.failed(error))?;
            let before = forgetting.forgotten();
            if ids.is_empty() {
                return Ok(ForgetOutcome::new(Some(before)));
            }
            for id in &ids {
                forgetting.note(id, self.forget_one(id).await)?;
            }
            if forgetting.forgotten() == before {
                return Err(some_may_remain(SERVICE, Some(before)));
            }
        }
    }
}

impl Forgets for Session<'_> {
    const SERVICE: Service = SERVICE;

    async fn forget_one(&self, id: &FactId) -> Result<bool> {
        // Only a UUID may become part of a path.
        if !is_uuid(id.as_str()) || !self.is_owned(id.as_str()).await? {
            return Ok(false);
        }
        let path = self.path_of(id.as_str());
        let reply = self.delete(Request::new(Method::Delete, &path, self.options.timeout())).await?;
        match (reply.status(), self.client.error_of(&reply)) {
            // Already gone: deleted by an earlier attempt of this call, or by another call.
            (404, _) => return Ok(true),
            (_, Some(error)) => return Err(error),
            _ => {}
        }
        if self.client.flavour == Flavour::Platform {
            let mut wait = FIRST_WAIT;
            while self.is_owned(id.as_str()).await.map_err(unconfirmed)? {
                pause(&mut wait).await;
            }
        }
        Ok(true)
    }

    /// The only filter sent is the owner's id.
    async fn forget_all(&self) -> Result<ForgetOutcome> {
        let before = self.remaining().await?.len();
        if before == 0 {
            return Ok(ForgetOutcome::new(Some(0)));
        }
        let parameters = [("user_id", self.owner.id())];
        let path = self.by_flavour(&["memories"][..], &["v1", "memories", ""]);
        // The server answers once everything is deleted.
        let request =
            Request::new(Method::Delete, path, self.options.forget_timeout()).parameters(&parameters);
        let reply = self.delete(request).await?;
        if reply.status() == 403 {
            // On a self-hosted server only an administrator's key may delete by filter.
            return self.one_by_one().await;
        }
        if let Some(error) = self.client.error_of(&reply) {
            return Err(error);
        }
        let mut wait = FIRST_WAIT;
        while !self.remaining().await.map_err(unconfirmed)?.is_empty() {
            pause(&mut wait).await;
        }
        let counted = before < self.page_size();
        Ok(ForgetOutcome::new(counted.then(|| u64::try_from(before).ok()).flatten()))
    }
}

/// The error if checking what is left fails after an accepted deletion.
fn unconfirmed(error: Error) -> Error {
    some_may_remain(SERVICE, None).with_source(error)
}

async fn pause(wait: &mut Duration) {
    tokio::time::sleep(*wait).await;
    *wait = wait.saturating_mul(2).min(LONGEST_WAIT);
}
