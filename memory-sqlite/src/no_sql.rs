//! A build without the feature `sql`, which serves only key/value and search.
//!
//! Databases that another build made for agents are never silently ignored: as long as any exist, opening, forgetting
//! and eviction refuse, because this build could not remove them.

use std::path::PathBuf;
use std::sync::Arc;

use memory_core::{
    Cursor, Error, ErrorKind, EvictOutcome, Result, Scope, ScopeId, ScopeKind, ScopeUse, ScopeUsesPage,
    ScopeUsesQuery, TenantId, Timestamp,
};

use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::config::SqlConfig;
use crate::error::file;
use crate::lifecycle::eviction::{self, Judging};

/// Stands in for the engine for agents' SQL.
#[derive(Debug)]
pub(crate) struct Engine {
    store: Arc<Store>,
    pub(crate) is_served: bool,
    /// Where another build's databases are; `None` for a store in memory.
    root: Option<PathBuf>,
}

impl Engine {
    pub(crate) fn new(store: &Arc<Store>, database: Option<&std::path::Path>) -> Result<Arc<Self>> {
        let config = &store.config.sql;
        if *config != SqlConfig::default() {
            return Err(without("the options of `sqlite.sql` have no effect in this build; leave them out"));
        }
        let engine =
            Self { is_served: false, store: Arc::clone(store), root: database.map(SqlConfig::folder_beside) };
        engine.check()?;
        Ok(Arc::new(engine))
    }

    /// Fails with `capability_unsupported` if any scope has a database.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(root) = &self.root else { return Ok(()) };
        let items = match std::fs::read_dir(root) {
            Ok(items) => items,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(file(error)),
        };
        for item in items {
            if item.and_then(|item| item.file_type()).map_err(file)?.is_dir() {
                return Err(without(
                    "agents have SQL databases beside this store, which this build cannot remove",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn close(&self) {}

    pub(crate) fn discard_temporary(&self) {}

    pub(crate) async fn complete_all(&self) -> Result<u64> {
        self.check()?;
        let scopes = self.store.read(eviction::intents).await?;
        for scope in &scopes {
            // Its files are gone, so nothing is left to remove.
            let target = Target::of(scope);
            let writer = &self.store.writer;
            writer.submit(Cost::entry(0), move |batch| eviction::clear(batch, &target, None)).await?;
        }
        Ok(scopes.len() as u64)
    }

    pub(crate) async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        self.check()?;
        let (target, uses) = (Target::of(scope), &self.store.uses);
        let (held, slack, tracked_since) = (uses.held(&target.digest), uses.slack(), uses.at(0));
        let asked = Judging { unused_since, held, slack, tracked_since, sql: None };
        let writer = &self.store.writer;
        let judged = writer.submit(Cost::slow(0), move |batch| eviction::evict(batch, &target, asked)).await;
        judged.map(|(outcome, _)| outcome)
    }

    pub(crate) async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.check()?;
        let target = Target::of(&Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone()));
        let writer = &self.store.writer;
        writer.submit(Cost::slow(0), move |batch| eviction::end_run(batch, &target, false)).await.map(drop)
    }

    pub(crate) async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        let after = match &query.cursor {
            Some(cursor) => {
                let (kind, id) = cursor.scope(tenant)?;
                Some((kind, id.clone()))
            }
            None => None,
        };
        let (of, kind, now) = (tenant.clone(), query.kind, self.store.clock.now());
        let limit = query.limit.saturating_add(1);
        let rows = self
            .store
            .read_on_worker(move |connection| {
                eviction::used_rows(connection, &of, after.as_ref(), kind, limit, now)
            })
            .await?;
        let more = rows.len() > query.limit;
        let uses = &self.store.uses;
        let page = rows.into_iter().take(query.limit).map(|row| {
            let scope = Scope::new(tenant.clone(), row.kind, row.id);
            let used_at = uses.at(row.used_at).max(uses.held(&scope.digest()));
            ScopeUse::new(scope, row.bytes, 0, Timestamp::from_millis_clamped(used_at))
                .with_slack(uses.slack())
        });
        let scopes: Vec<ScopeUse> = page.collect();
        let last = scopes.last().filter(|_| more);
        let next = last.map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
        Ok(ScopeUsesPage::new(scopes, next))
    }

    pub(crate) async fn tenants(&self, _: Option<&TenantId>) -> Result<Vec<TenantId>> {
        self.check().map(|()| Vec::new())
    }

    pub(crate) async fn drop_tenant(&self, _: &TenantId) -> Result<u64> {
        Ok(0)
    }

    pub(crate) async fn drop_scope(&self, _: &Scope) -> Result<bool> {
        Ok(false)
    }

    pub(crate) async fn discard_left(&self, _: &TenantId) -> Result<()> {
        Ok(())
    }
}

fn without(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what}, or build with the feature `sql`"))
}
