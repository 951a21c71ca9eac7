//! Evicts a scope's database together with its entries. The decision is made under the scope's write lock; an
//! interrupted removal is finished by the next call that finds its intent.

use std::sync::Arc;
use std::time::Instant;

use memory_core::{
    Cursor, Error, EvictOutcome, Kept, Result, Scope, ScopeId, ScopeKind, ScopeUse, ScopeUsesPage,
    ScopeUsesQuery, TenantId, Timestamp,
};
use memory_sql::Ended;

use super::connections::{Conn, DROPPED, ScopeState, WRITTEN, is_busy, is_out_of_room};
use super::engine::Engine;
use crate::commit::scope::EndedRun;
use crate::commit::scope::Target;
use crate::commit::writer::Cost;
use crate::lifecycle::eviction::{self, Judging};
use crate::lifecycle::uses;

impl Engine {
    /// Records a use of a scope's database, after finishing an interrupted removal of an earlier one.
    /// Fails with `run_ended` for a write to the scope of a run that has ended.
    pub(crate) async fn used(self: &Arc<Self>, scope: &Scope, writes: bool) -> Result<()> {
        let digest = scope.digest();
        let store = &self.store;
        let run = scope.kind == ScopeKind::Run;
        // A recently used scope is not evicted. A run, however, may end at any moment.
        if !run && store.record_use(&digest) {
            return Ok(());
        }
        let (row, ended) = store
            .read(move |connection| {
                let ended = if run { EndedRun::read(connection, &digest)? } else { None };
                Ok((uses::stored(connection, &digest)?, ended))
            })
            .await?;
        let has_intent = row.map_or(0, |row| row.intent) != 0 || ended.is_some_and(|ended| ended.intent != 0);
        if has_intent {
            self.complete(scope).await?;
        }
        if writes && ended.is_some_and(|ended| store.fences(ended.at)) {
            return Err(Error::run_ended());
        }
        match row {
            Some(row) => {
                store.uses.learn(&digest, store.uses.at(row.used_at));
                if store.record_use(&digest) {
                    return Ok(());
                }
            }
            // Creating a database records its use.
            None if !self.pool.scope(scope).place.is_made()? => return Ok(()),
            None => {}
        }
        let target = Target::of(scope);
        let noted =
            store.writer.submit(Cost::entry(0), move |batch| eviction::record_use(batch, &target)).await;
        let now = store.clock.now().as_millis();
        match noted {
            Ok(true) => store.uses.learn(&digest, now),
            // An eviction was faster than this use.
            Ok(false) => self.complete(scope).await?,
            Err(error) if row.is_some() || !writes => {
                tracing::debug!(%error, "the use of a scope cannot be written and stays in memory");
                store.uses.hold(&digest, now);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Finishes an interrupted eviction or end of a run, so that nobody sees half of it.
    pub(crate) async fn settled(self: &Arc<Self>, scope: &Scope) -> Result<()> {
        let (digest, run) = (scope.digest(), scope.kind == ScopeKind::Run);
        let has_intent = self
            .store
            .read(move |connection| {
                let ended = if run { EndedRun::read(connection, &digest)? } else { None };
                let row = uses::stored(connection, &digest)?;
                Ok(row.is_some_and(|row| row.intent != 0) || ended.is_some_and(|ended| ended.intent != 0))
            })
            .await?;
        if has_intent { self.complete(scope).await } else { Ok(()) }
    }

    async fn complete(self: &Arc<Self>, scope: &Scope) -> Result<()> {
        self.wake()?;
        let target = Target::of(scope);
        let digest = target.digest;
        let number = self
            .store
            .read(move |connection| {
                let row = uses::stored(connection, &digest)?.map_or(0, |row| row.intent);
                let ended = EndedRun::read(connection, &digest)?.map_or(0, |ended| ended.intent);
                Ok(if row == 0 { ended } else { row })
            })
            .await?;
        if number == 0 {
            return Ok(());
        }
        self.drop_with_intent(scope, number).await?;
        self.store
            .writer
            .submit(Cost::entry(0), move |batch| eviction::clear(batch, &target, Some(number)))
            .await
    }

    /// Finishes every interrupted removal; returns how many there were.
    pub(crate) async fn complete_all(self: &Arc<Self>) -> Result<u64> {
        let mut finished = 0;
        loop {
            let scopes = self.store.read(eviction::intents).await?;
            if scopes.is_empty() {
                return Ok(finished);
            }
            for scope in &scopes {
                self.complete(scope).await?;
                finished += 1;
            }
        }
    }

    /// Whether this intent is still recorded.
    pub(crate) fn has_intent(&self, state: &ScopeState, number: i64) -> Result<bool> {
        let digest = state.digest;
        self.store.writer.submit_blocking(Cost::entry(0), move |batch| {
            let row = uses::stored(batch.connection(), &digest)?.map_or(0, |row| row.intent);
            let ended = EndedRun::read(batch.connection(), &digest)?.map_or(0, |ended| ended.intent);
            Ok(row == number || ended == number)
        })
    }

    /// Evicts a scope from both facets (GC-5 to GC-11).
    pub(crate) async fn evict(
        self: &Arc<Self>,
        scope: &Scope,
        unused_since: Timestamp,
    ) -> Result<EvictOutcome> {
        self.wake()?;
        self.settled(scope).await?;
        let deadline = self.deadline(None);
        let state = self.pool.scope(scope);
        let in_use = Ok(EvictOutcome::Kept(Kept::InUse));
        if !self.transactions.matching(|open| open.scope == state.scope).is_empty() {
            return in_use;
        }
        let Ok(writing) = Arc::clone(&state.writing).try_lock_owned() else { return in_use };
        let readers = u32::try_from(self.config.readers_per_scope).unwrap_or(u32::MAX);
        let Ok(reading) = Arc::clone(&state.reading).try_acquire_many_owned(readers) else { return in_use };
        let engine = Arc::clone(self);
        let work = move || {
            let evicted = engine.evict_once(&state, unused_since, deadline);
            drop((writing, reading));
            evicted
        };
        match self.workers.run(deadline, work).await? {
            Err(error) if is_busy(&error) => in_use,
            done => done,
        }
    }

    fn evict_once(
        &self,
        state: &Arc<ScopeState>,
        unused_since: Timestamp,
        deadline: Instant,
    ) -> Result<EvictOutcome> {
        let Some(mut conn) = self.pool.existing(state, self.layers(&state.scope), deadline)? else {
            return self.judge(state, unused_since, None).map(|(outcome, _)| outcome);
        };
        if let Err(error) = conn.sandbox.begin_immediate() {
            if is_busy(&error) {
                self.pool.rest(conn);
            }
            return Err(error);
        }
        if !conn.is_current() {
            conn.sandbox.rollback()?;
            return Ok(EvictOutcome::Kept(Kept::InUse));
        }
        if conn.sandbox.user_version()? != WRITTEN {
            conn.sandbox.rollback()?;
            self.pool.rest(conn);
            return self.judge(state, unused_since, None).map(|(outcome, _)| outcome);
        }
        let bytes = state.place.bytes();
        let (outcome, intent) = match self.judge(state, unused_since, Some(bytes)) {
            Ok(judged) => judged,
            Err(error) => {
                conn.sandbox.rollback()?;
                self.pool.rest(conn);
                return Err(error);
            }
        };
        let Some(intent) = intent else {
            conn.sandbox.rollback()?;
            self.pool.rest(conn);
            return Ok(outcome);
        };
        // The scope is gone by now. If this fails, the next call that finds the intent removes the files.
        if let Err(error) = self.remove_judged(conn, intent, deadline) {
            tracing::warn!(%error, "the database of an evicted scope will be removed later");
        }
        Ok(outcome)
    }

    fn remove_judged(&self, mut conn: Conn, intent: i64, deadline: Instant) -> Result<()> {
        let target = Target::of(&conn.state.scope);
        let marked = conn.sandbox.set_user_version(DROPPED).and_then(|()| conn.sandbox.commit());
        match marked {
            Ok(()) => self.pool.remove(conn, deadline)?,
            Err(error) => {
                conn.sandbox.rollback()?;
                if !is_out_of_room(&error) {
                    return Err(error);
                }
                conn.sandbox.begin_immediate()?;
                self.pool.remove_unmarked(conn, deadline)?;
            }
        }
        self.store
            .writer
            .submit_blocking(Cost::entry(0), move |batch| eviction::clear(batch, &target, Some(intent)))
    }

    fn judge(
        &self,
        state: &ScopeState,
        unused_since: Timestamp,
        sql: Option<u64>,
    ) -> Result<eviction::Judged> {
        let uses = &self.store.uses;
        let (held, slack, tracked_since) = (uses.held(&state.digest), uses.slack(), uses.at(0));
        let asked = Judging { unused_since, held, slack, tracked_since, sql };
        let target = Target::of(&state.scope);
        self.store.writer.submit_blocking(Cost::slow(0), move |batch| eviction::evict(batch, &target, asked))
    }

    /// Ends a run: its transactions in any scope, its entries and its database. Later writes to its scope are refused.
    pub(crate) async fn end_run(self: &Arc<Self>, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        let of_run = |transaction: &super::engine::Transaction| {
            transaction.scope.tenant == *tenant && transaction.root_run == *root_run
        };
        self.end_those(Ended::RunOver, of_run).await?;
        let scope = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
        let target = Target::of(&scope);
        let database = self.pool.scope(&scope).place.is_there()?;
        let intent = self
            .store
            .writer
            .submit(Cost::slow(0), move |batch| eviction::end_run(batch, &target, database))
            .await?;
        match intent {
            Some(_) => self.complete(&scope).await,
            // A database created in the meantime is found now: the lock keeps creating one and looking for one apart.
            None => self.drop_scope_created_meanwhile(&scope).await,
        }
    }

    async fn drop_scope_created_meanwhile(self: &Arc<Self>, scope: &Scope) -> Result<()> {
        if !self.pool.files.is_any()? {
            return Ok(());
        }
        self.wake()?;
        let deadline = self.deadline(None);
        let (engine, state) = (Arc::clone(self), self.pool.scope(scope));
        let look = move || {
            let _changing = engine.pool.files.changing(deadline)?;
            state.place.is_there()
        };
        if self.workers.run(deadline, look).await?? {
            self.drop_scope(scope).await?;
        }
        Ok(())
    }

    /// Lists the uses of scopes in both facets (GC-1 to GC-3).
    pub(crate) async fn scope_uses(
        self: &Arc<Self>,
        tenant: &TenantId,
        query: ScopeUsesQuery,
    ) -> Result<ScopeUsesPage> {
        let after = match &query.cursor {
            Some(cursor) => {
                let (kind, id) = cursor.scope(tenant)?;
                Some((kind, id.clone()))
            }
            None => None,
        };
        self.wake()?;
        let now = self.store.clock.now();
        let limit = query.limit.saturating_add(1);
        let (engine, of, from, kind) = (Arc::clone(self), tenant.clone(), after.clone(), query.kind);
        let listed =
            self.workers.run(self.deadline(None), move || engine.listed(&of, from.as_ref(), kind)).await??;
        let (engine, of, kind) = (Arc::clone(self), tenant.clone(), query.kind);
        let (rows, databases) = self
            .store
            .read_on_worker(move |connection| {
                let snapshot = connection.unchecked_transaction()?;
                let rows = eviction::used_rows(&snapshot, &of, after.as_ref(), kind, limit, now)?;
                let mut databases = Vec::new();
                for scope in listed {
                    let digest = scope.digest();
                    let row = uses::stored(&snapshot, &digest)?.unwrap_or_default();
                    let ended =
                        if scope.kind == ScopeKind::Run { EndedRun::read(&snapshot, &digest)? } else { None };
                    let leaves = row.intent != 0 || ended.is_some_and(|ended| ended.intent != 0);
                    let place = engine.pool.files.place(&scope, &digest);
                    if !leaves && place.seems_written()? {
                        databases.push(((scope.kind, scope.id), (0, place.bytes(), row.used_at)));
                    }
                    if databases.len() >= limit {
                        break;
                    }
                }
                Ok((rows, databases))
            })
            .await?;
        let mut found: std::collections::BTreeMap<(ScopeKind, ScopeId), (u64, u64, i64)> =
            rows.into_iter().map(|row| ((row.kind, row.id), (row.bytes, 0, row.used_at))).collect();
        for (of, database) in databases {
            found.entry(of).or_insert(database).1 = database.1;
        }
        let mut scopes = Vec::new();
        for ((kind, id), (entries, sql, used_at)) in found {
            if scopes.len() >= query.limit {
                let last: Option<&ScopeUse> = scopes.last();
                let next = last.map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
                return Ok(ScopeUsesPage::new(scopes, next));
            }
            let scope = Scope::new(tenant.clone(), kind, id);
            let held = self.store.uses.held(&scope.digest());
            let used_at = Timestamp::from_millis_clamped(self.store.uses.at(used_at).max(held));
            scopes.push(ScopeUse::new(scope, entries, sql, used_at).with_slack(self.store.uses.slack()));
        }
        Ok(ScopeUsesPage::new(scopes, None))
    }

    /// A tenant's scopes that may have a database, in order.
    fn listed(
        &self,
        tenant: &TenantId,
        after: Option<&(ScopeKind, ScopeId)>,
        kind: Option<ScopeKind>,
    ) -> Result<Vec<Scope>> {
        let mut found = self.pool.files.list(tenant)?;
        found.retain(|scope| {
            kind.is_none_or(|kind| kind == scope.kind)
                && after.is_none_or(|(kind, id)| (scope.kind, &scope.id) > (*kind, id))
        });
        found.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        Ok(found)
    }
}
