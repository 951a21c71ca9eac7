//! `forget`: each memory is fetched and its owner checked first, because an id alone reaches every memory of a space.

use memory_core::layer::{FactId, ForgetOutcome};
use memory_core::{Error, Result};
use memory_http::service::{
    Forgets, Forgetting, Request, Service, is_uuid, may_have_forgotten, some_may_remain,
};
use memory_http::{CallKind, Method};
use serde::Deserialize;
use serde_json::json;

use crate::client::{MEMORIES, Session};
use crate::error;
use crate::listing::MOST;
use crate::owner::SERVICE;
use crate::rows::Row;

/// What mem9 keeps after a forget.
pub(crate) const REMAINS: &str = "mem9 marks forgotten facts as deleted but keeps their rows, and on TiDB also the raw \
    messages. It extracts at most 50 facts from one add, so the messages may contain more than the facts did. Its \
    operator can delete both";

/// The path of one memory.
fn path_of(id: &str) -> [&str; 4] {
    let [version, spaces, memories] = MEMORIES;
    [version, spaces, memories, id]
}

#[derive(Deserialize)]
struct Deleted {
    deleted: u64,
}

impl Session<'_> {
    async fn delete_all(&self, state: &str, forgetting: &mut Forgetting) -> Result<()> {
        let path = path_of("batch-delete");
        loop {
            let rows = self.list(state, 0, MOST).await?.memories;
            if rows.is_empty() {
                return Ok(());
            }
            let mut ids = Vec::new();
            for row in rows {
                self.owner.check(row.agent_id.as_deref())?;
                ids.push(SERVICE.fact_id(&row.id)?.as_str().to_owned());
            }
            // Deleting a deleted memory has no effect.
            let request = Request::new(Method::Post, &path, self.options.forget_timeout())
                .body(json!({ "ids": ids }))
                .kind(CallKind::Idempotent);
            let reply = self.request(request).await.map_err(|error| may_have_forgotten(SERVICE, error))?;
            let Deleted { deleted } =
                reply.trusted_json().map_err(|error| some_may_remain(SERVICE, None).with_source(error))?;
            if deleted == 0 || u64::try_from(ids.len()).is_ok_and(|asked| deleted > asked) {
                return Err(some_may_remain(SERVICE, None));
            }
            forgetting.add(deleted);
        }
    }
}

impl Forgets for Session<'_> {
    const SERVICE: Service = SERVICE;

    async fn forget_one(&self, id: &FactId) -> Result<bool> {
        // Only a UUID may become part of a path.
        if !is_uuid(id.as_str()) {
            return Ok(false);
        }
        let path = path_of(id.as_str());
        let reply = self.exchange(Request::new(Method::Get, &path, self.options.timeout())).await?;
        if reply.status() == 404 {
            return Ok(false);
        }
        if let Some(error) = error::error_of(&reply) {
            return Err(error);
        }
        let row: Row = reply.trusted_json()?;
        if !row.id.eq_ignore_ascii_case(id.as_str()) {
            return Err(Error::corrupt("mem9 answered with another memory than the requested one"));
        }
        if row.agent_id.as_deref() != Some(self.owner.id())
            || row.state.as_deref().is_some_and(|state| state != "active")
        {
            return Ok(false);
        }
        let request = Request::new(Method::Delete, &path, self.options.timeout()).kind(CallKind::Idempotent);
        let deleted = match self.exchange(request).await {
            // Already gone: deleted by another call.
            Ok(reply) if reply.status() == 404 => Ok(true),
            Ok(reply) => error::error_of(&reply).map_or(Ok(true), Err),
            Err(error) => Err(error),
        };
        deleted.map_err(|error| may_have_forgotten(SERVICE, error))
    }

    /// mem9 has no call for this, so the owner's memories are listed and deleted page by page, including those that newer
    /// facts have replaced.
    async fn forget_all(&self) -> Result<ForgetOutcome> {
        let (mut facts, mut replaced) = (Forgetting::new(SERVICE), Forgetting::new(SERVICE));
        let deleting = async {
            self.delete_all("active", &mut facts).await?;
            self.delete_all("archived", &mut replaced).await
        };
        match deleting.await {
            Ok(()) => Ok(facts.outcome()),
            Err(error) => Err(facts.failed(replaced.failed(error))),
        }
    }
}
