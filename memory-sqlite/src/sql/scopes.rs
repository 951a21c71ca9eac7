//! Listing, describing, measuring and dropping scopes' databases.

use std::sync::Arc;
use std::time::Instant;

use memory_core::cursor::Cursor;
use memory_core::sql::{SqlScopePage, SqlScopesQuery, SqlUsage, TableInfo};
use memory_core::{Error, ErrorKind, Result, Scope, TenantId};
use memory_sql::{Ended, WriteLock};

use super::connections::{Conn, DROPPED, ScopeState, WRITTEN, is_busy, is_out_of_room};
use super::engine::Engine;

/// The bytes of a scope's database.
fn used(conn: &mut Conn) -> Result<u64> {
    conn.pass();
    conn.sandbox.usage()
}

impl Engine {
    /// Reads a scope's database on a worker; `None` if it has none.
    pub(crate) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        scope: &Scope,
        read: fn(&mut Conn) -> Result<T>,
    ) -> Result<Option<T>> {
        self.wake()?;
        self.settled(scope).await?;
        let deadline = self.deadline(None);
        let state = self.pool.scope(scope);
        let mut times = 0;
        loop {
            let (engine, state) = (Arc::clone(self), Arc::clone(&state));
            let work = move || engine.look_once(&state, deadline, read);
            match self.workers.run(deadline, work).await? {
                Err(error) if is_busy(&error) => self.pause(&mut times, deadline).await?,
                done => return done,
            }
        }
    }

    fn look_once<T>(
        &self,
        state: &Arc<ScopeState>,
        deadline: Instant,
        read: fn(&mut Conn) -> Result<T>,
    ) -> Result<Option<T>> {
        let Some(mut conn) = self.pool.reader(state, self.layers(&state.scope), deadline)? else {
            return Ok(None);
        };
        conn.sandbox.begin_snapshot()?;
        let done = match conn.sandbox.user_version() {
            Ok(WRITTEN) => read(&mut conn).map(Some),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        conn.sandbox.rollback()?;
        let done = done.and_then(|found| conn.check_read().map(|()| found));
        self.pool.rest(conn);
        done
    }

    pub(crate) async fn tables(self: &Arc<Self>, scope: &Scope) -> Result<Vec<TableInfo>> {
        Ok(self.look(scope, |conn| conn.sandbox.tables()).await?.unwrap_or_default())
    }

    pub(crate) async fn usage(self: &Arc<Self>, scope: &Scope) -> Result<SqlUsage> {
        let bytes = match self.look(scope, used).await {
            Err(_) if self.store.is_read_only() => self.pool.scope(scope).place.file_bytes(),
            looked => looked?.unwrap_or_default(),
        };
        Ok(SqlUsage::new(bytes, self.config.quota_bytes))
    }

    pub(crate) async fn scopes(
        self: &Arc<Self>,
        tenant: &TenantId,
        query: SqlScopesQuery,
    ) -> Result<SqlScopePage> {
        self.wake()?;
        let after = match &query.cursor {
            Some(cursor) => Some(cursor.scope(tenant)?),
            None => None,
        };
        let (engine, of) = (Arc::clone(self), tenant.clone());
        let found = self
            .workers
            .run(self.deadline(None), move || {
                let mut found = engine.pool.files.list(&of)?;
                let is_later = |scope: &Scope| {
                    after
                        .as_ref()
                        .is_none_or(|(kind, id)| (scope.kind, scope.id.as_str()) > (*kind, id.as_str()))
                };
                found.retain(is_later);
                found.sort_by(|a, b| (a.kind, a.id.as_str()).cmp(&(b.kind, b.id.as_str())));
                Ok::<_, Error>(found)
            })
            .await??;
        let mut scopes: Vec<(Scope, SqlUsage)> = Vec::new();
        for scope in found {
            // A database that was never written to, or has been dropped since, does not count.
            let bytes = match self.look(&scope, used).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                // A damaged one is listed, so that it can be dropped or restored. So is one in a folder that nobody may
                // write to, where the engine cannot open it.
                Err(error) if error.kind() == ErrorKind::Corrupt || self.store.is_read_only() => {
                    self.pool.scope(&scope).place.file_bytes()
                }
                Err(error) => return Err(error),
            };
            if scopes.len() >= query.limit {
                let next = scopes.last().map(|(last, _)| Cursor::after_scope(tenant, last.kind, &last.id));
                return Ok(SqlScopePage::new(scopes, next));
            }
            scopes.push((scope, SqlUsage::new(bytes, self.config.quota_bytes)));
        }
        Ok(SqlScopePage::new(scopes, None))
    }

    /// The tenants after this one that have a scope with a database.
    pub(crate) async fn tenants(self: &Arc<Self>, after: Option<&TenantId>) -> Result<Vec<TenantId>> {
        self.wake()?;
        let (engine, after) = (Arc::clone(self), after.cloned());
        let mut tenants =
            self.workers.run(self.deadline(None), move || engine.pool.files.tenants()).await??;
        tenants.retain(|tenant| after.as_ref().is_none_or(|after| tenant > after));
        Ok(tenants)
    }

    /// Drops a scope's database; returns whether there was one.
    pub(crate) async fn drop_scope(self: &Arc<Self>, scope: &Scope) -> Result<bool> {
        self.drop_where(scope, None).await
    }

    /// Drops the database to which this intent refers.
    pub(crate) async fn drop_with_intent(self: &Arc<Self>, scope: &Scope, intent: i64) -> Result<bool> {
        self.drop_where(scope, Some(intent)).await
    }

    async fn drop_where(self: &Arc<Self>, scope: &Scope, intent: Option<i64>) -> Result<bool> {
        let state = self.pool.scope(scope);
        if !state.place.is_there()? {
            return Ok(false);
        }
        self.wake()?;
        let deadline = self.deadline(None);
        self.end_those(Ended::Dropped, |open| open.scope == state.scope).await?;
        let mut guard = Some(self.lock(&state, deadline).await?);
        let mut times = 0;
        loop {
            let Some(held) = guard.take() else { return Err(Error::internal("a lock was lost")) };
            let (engine, state) = (Arc::clone(self), Arc::clone(&state));
            let work = move || {
                let done = engine.drop_once(&state, deadline, intent);
                (done, held)
            };
            match self.workers.run(deadline, work).await? {
                (Err(error), held) if is_busy(&error) => guard = Some(held),
                (done, held) => {
                    drop::<WriteLock>(held);
                    return done;
                }
            }
            self.pause(&mut times, deadline).await?;
        }
    }

    /// Drops every database of a tenant, and the remains of incomplete ones; returns how many there were.
    pub(crate) async fn drop_tenant(self: &Arc<Self>, tenant: &TenantId) -> Result<u64> {
        self.wake()?;
        let (engine, of) = (Arc::clone(self), tenant.clone());
        let found = self.workers.run(self.deadline(None), move || engine.pool.files.all_of(&of)).await??;
        let mut dropped = 0;
        for scope in found {
            dropped += u64::from(self.drop_scope(&scope).await?);
        }
        Ok(dropped)
    }

    /// Removes what killed processes left of a tenant's dropped databases.
    pub(crate) async fn discard_left(self: &Arc<Self>, tenant: &TenantId) -> Result<()> {
        self.wake()?;
        let (engine, of) = (Arc::clone(self), tenant.clone());
        self.workers.run(self.deadline(None), move || engine.pool.files.list(&of).map(drop)).await?
    }

    fn drop_once(&self, state: &Arc<ScopeState>, deadline: Instant, intent: Option<i64>) -> Result<bool> {
        if !state.place.is_there()? {
            return Ok(false);
        }
        let has_intent = || intent.map_or(Ok(true), |intent| self.has_intent(state, intent));
        if !has_intent()? {
            return Ok(false);
        }
        let mut conn = match self.pool.existing(state, self.layers(&state.scope), deadline) {
            Ok(Some(conn)) => conn,
            Ok(None) => {
                self.pool.remove_unmade(state, deadline)?;
                return Ok(false);
            }
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                self.pool.remove_damaged(state, deadline)?;
                return Ok(true);
            }
            Err(error) if is_out_of_room(&error) => {
                match self.pool.remove_unopened(state, self.layers(&state.scope), deadline)? {
                    Some(conn) => conn,
                    None => return Ok(true),
                }
            }
            Err(error) => return Err(error),
        };
        if let Err(error) = conn.sandbox.begin_immediate() {
            if is_busy(&error) {
                self.pool.rest(conn);
            }
            return Err(error);
        }
        // Nobody creates another database while the intent is recorded, and this one cannot disappear while locked.
        if !has_intent()? {
            conn.sandbox.rollback()?;
            self.pool.rest(conn);
            return Ok(false);
        }
        let version = conn.sandbox.user_version()?;
        if version != DROPPED {
            // This commit drops the database; anyone may remove the files.
            let marked = conn.sandbox.set_user_version(DROPPED).and_then(|()| conn.sandbox.commit());
            if let Err(error) = marked {
                conn.sandbox.rollback()?;
                if !is_out_of_room(&error) {
                    return Err(error);
                }
                // Setting the version takes a page of the log. Dropping frees space, so it must not need any.
                conn.sandbox.begin_immediate()?;
                self.pool.remove_unmarked(conn, deadline)?;
                return Ok(version == WRITTEN);
            }
        } else {
            conn.sandbox.rollback()?;
        }
        self.pool.remove(conn, deadline)?;
        Ok(version == WRITTEN)
    }
}
