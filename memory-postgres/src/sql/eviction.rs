//! Removing a scope's database together with its entries, which are in another database that no transaction reaches.
//!
//! Evicting a scope or ending a run first marks its database as waiting, with a number; from then on, nobody enters it.
//! The entries' database then drops the entries and, in the same transaction, decides that the database with that
//! number goes. Anyone who finds a waiting database asks for the decision; if there is none yet, the database stays.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use memory_core::{
    Error, EvictOutcome, Kept, Reclaimed, Result, Scope, ScopeId, ScopeKind, ScopeUse, ScopeUsesPage,
    ScopeUsesQuery, TenantId, Timestamp,
};
use memory_sql::Ended;
use tokio_postgres::types::Type;

use crate::lifecycle::{eviction, uses};
use crate::sql::admin::administrator::Leave;
use crate::sql::engine::{Engine, Transaction, detached};
use crate::sql::pool::ScopeState;
use crate::store::Store;
use crate::store::hex::Hex;
use crate::store::scope_ref::{ScopeRef, kind_number, kind_of};

/// Marks of a page of scopes that may be empty.
const PAGE: i64 = 1_000;
/// How often to first settle somebody else's pending eviction.
const TRIES: u32 = 4;

impl Engine {
    fn entries(&self) -> Result<&Arc<Store>> {
        self.entries.as_ref().ok_or_else(|| Error::internal("the entries of this database are not open"))
    }

    /// Records a use of a scope's database, after removing what is left of an earlier one.
    pub(crate) async fn used(self: &Arc<Self>, scope: &Scope, writes: bool) -> Result<()> {
        let (store, target) = (self.entries()?, ScopeRef::of(scope));
        while uses::used_by_sql(store, &target, writes).await? {
            self.complete(&self.pool.scope(scope)).await?;
        }
        Ok(())
    }

    /// Removes what is left of evicted databases.
    async fn complete(self: &Arc<Self>, state: &Arc<ScopeState>) -> Result<()> {
        let store = self.entries()?;
        let gone = eviction::gone_of(store, &state.hex).await?;
        let waiting = self.waiting(&state.hex).await?;
        if let Some(token) = waiting {
            self.settle(state, token).await?;
        }
        for token in gone.into_iter().filter(|token| Some(*token) != waiting) {
            eviction::forget_leaving(store, &state.hex, token).await?;
        }
        Ok(())
    }

    async fn has_database(&self, hex: &Hex) -> Result<bool> {
        let sql = "SELECT FROM mem_sql.scopes WHERE hex = $1 AND written AND leaving IS NULL";
        Ok(!self.admin.look(sql, &[(&hex.as_str(), Type::TEXT)]).await?.is_empty())
    }

    /// The number under which a scope's database waits.
    async fn waiting(&self, hex: &Hex) -> Result<Option<i64>> {
        let sql = "SELECT leaving FROM mem_sql.scopes WHERE hex = $1";
        let rows = self.admin.look(sql, &[(&hex.as_str(), Type::TEXT)]).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    /// Called before a scope's database is inspected from outside: an evicted one must not be seen.
    pub(crate) async fn settled(self: &Arc<Self>, state: &Arc<ScopeState>) -> Result<()> {
        if self.waiting(&state.hex).await?.is_some() {
            self.complete_those(std::slice::from_ref(&state.scope)).await?;
        }
        Ok(())
    }

    /// Settles a scope's database if it was waiting; it is then open again or gone. Returns whether it was.
    pub(crate) async fn settled_if_waiting(self: &Arc<Self>, state: &Arc<ScopeState>) -> Result<bool> {
        let Some(token) = self.waiting(&state.hex).await? else { return Ok(false) };
        self.settle(state, token).await.map(|_| true)
    }

    /// Asks for the decision about a waiting database and carries it out; returns whether it was evicted.
    async fn settle(self: &Arc<Self>, state: &Arc<ScopeState>, token: i64) -> Result<bool> {
        if eviction::goes(self.entries()?, &state.hex, token).await? {
            self.remove_left(state, token).await?;
            return Ok(true);
        }
        self.stay(state, token).await?;
        Ok(false)
    }

    async fn stay(&self, state: &ScopeState, token: i64) -> Result<()> {
        let values = [(&state.hex.as_str() as _, Type::TEXT), (&token as _, Type::INT8)];
        self.admin.change("SELECT mem_sql.stay($1, $2)", &values).await.map(drop)
    }

    async fn remove_left(self: &Arc<Self>, state: &Arc<ScopeState>, token: i64) -> Result<()> {
        self.admin.remove(&state.hex, Some(token)).await?;
        self.forget_all_of(state);
        eviction::forget_leaving(self.entries()?, &state.hex, token).await
    }

    /// Removes an evicted database as far as possible; the next user finds what is left.
    async fn try_to_remove(self: &Arc<Self>, state: &Arc<ScopeState>, token: i64) {
        if let Err(error) = self.remove_left(state, token).await {
            tracing::debug!(%error, "an evicted database could not be removed yet");
        }
    }

    /// Marks a scope's database as waiting. Settles somebody else's pending eviction first.
    async fn leave(self: &Arc<Self>, state: &Arc<ScopeState>, waits: bool) -> Result<Leave> {
        for _ in 0..TRIES {
            match self.admin.leave(&state.hex, waits).await? {
                Leave::Asked(token) => drop(self.settle(state, token).await?),
                left => return Ok(left),
            }
        }
        Ok(Leave::Busy)
    }

    /// GC-5 to GC-11.
    pub(crate) async fn evict(
        self: &Arc<Self>,
        scope: &Scope,
        unused_since: Timestamp,
    ) -> Result<EvictOutcome> {
        self.wake()?;
        let (engine, scope) = (Arc::clone(self), scope.clone());
        detached(async move {
            let (state, store) = (engine.pool.scope(&scope), engine.entries()?);
            // Marking a database as waiting disturbs its users.
            if engine.has_database(&state.hex).await?
                && let Some(last_used_at) = uses::used_since(store, &scope, unused_since).await?
            {
                return Ok(EvictOutcome::Kept(Kept::Used { last_used_at }));
            }
            let left = match engine.leave(&state, false).await? {
                Leave::Busy | Leave::Asked(_) => return Ok(EvictOutcome::Kept(Kept::InUse)),
                Leave::Nothing => None,
                Leave::Waits(left) => Some(left),
            };
            let token = left.map(|left| left.token);
            let judged = eviction::evict(store, &scope, unused_since, Some((&state.hex, token))).await;
            let Some(left) = left else { return judged };
            match judged {
                Ok(EvictOutcome::Evicted { bytes }) => {
                    engine.try_to_remove(&state, left.token).await;
                    Ok(EvictOutcome::Evicted { bytes: bytes.saturating_add(left.bytes) })
                }
                Ok(kept) => engine.stay(&state, left.token).await.map(|()| kept),
                Err(error) => {
                    // Perhaps it was decided.
                    if let Err(error) = engine.settle(&state, left.token).await {
                        tracing::debug!(%error, "a database stays pending until somebody uses it");
                    }
                    Err(error)
                }
            }
        })
        .await
    }

    /// Ends a run: its entries, its scope's database, and the transactions that it opened in any scope.
    pub(crate) async fn end_run(self: &Arc<Self>, scope: &Scope) -> Result<()> {
        self.wake()?;
        let of_run = |transaction: &Transaction| {
            transaction.scope.tenant == scope.tenant && transaction.root_run == scope.id
        };
        self.end_those(Ended::RunOver, of_run).await?;
        let (engine, scope) = (Arc::clone(self), scope.clone());
        detached(async move {
            let (state, store) = (engine.pool.scope(&scope), engine.entries()?);
            let token = match engine.leave(&state, true).await? {
                Leave::Waits(left) => Some(left.token),
                Leave::Asked(token) => Some(token),
                Leave::Nothing | Leave::Busy => None,
            };
            eviction::end_run(store, &scope, true, token).await?;
            // Whatever was created meanwhile.
            engine.drop_scope(&scope).await?;
            match token {
                Some(token) => eviction::forget_leaving(store, &state.hex, token).await,
                None => Ok(()),
            }
        })
        .await
    }

    /// Whether a run's scope may be written: not if its run ended before this database was found.
    /// Fails with `run_ended`.
    pub(crate) async fn admit(&self, state: &ScopeState, generation: i64) -> Result<()> {
        let scope = &state.scope;
        let (ScopeKind::Run, false) = (scope.kind, state.is_admitted(generation)) else { return Ok(()) };
        let Some(store) = &self.entries else { return Ok(()) };
        if store.config.run_fence_ms > 0 && eviction::is_ended(store, &scope.tenant, &scope.id).await? {
            return Err(Error::run_ended());
        }
        // If the run ends from now on, that removes this database.
        state.note_admitted(generation);
        Ok(())
    }

    /// GC-1 to GC-3, over both facets.
    pub(crate) async fn uses(
        self: &Arc<Self>,
        tenant: &TenantId,
        query: &ScopeUsesQuery,
    ) -> Result<ScopeUsesPage> {
        self.wake()?;
        let store = self.entries()?;
        let (after, limit) = (uses::after(tenant, query)?, uses::one_more(query.limit));
        let entries = uses::of_entries(store, tenant, query.kind, &after, limit).await?;
        let databases = self.databases(tenant, query.kind, &after, limit).await?;
        let databases = uses::of_databases(store, tenant, databases).await?;
        Ok(uses::page(tenant, merged(entries, databases), query.limit))
    }

    /// A tenant's databases and the bytes of their files, after a kind and an id.
    async fn databases(
        self: &Arc<Self>,
        tenant: &TenantId,
        kind: Option<ScopeKind>,
        after: &(i16, String),
        limit: i64,
    ) -> Result<Vec<(Scope, u64)>> {
        let of_kind = kind.map(kind_number);
        loop {
            let rows = self
                .admin
                .look(
                    "SELECT kind, id, mem_sql.bytes_of(hex), leaving FROM mem_sql.scopes \
                     WHERE tenant = $1 AND (kind, id) > ($2, $3) AND written AND ($4::int2 IS NULL OR kind = $4) \
                     ORDER BY kind, id LIMIT $5",
                    &[
                        (&tenant.as_str(), Type::TEXT),
                        (&after.0, Type::INT2),
                        (&after.1, Type::TEXT),
                        (&of_kind, Type::INT2),
                        (&limit, Type::INT8),
                    ],
                )
                .await?;
            let (mut found, mut waiting) = (Vec::with_capacity(rows.len()), Vec::new());
            for row in &rows {
                let id = ScopeId::new(row.get::<_, String>(1))?;
                let scope = Scope::new(tenant.clone(), kind_of(row.get(0))?, id);
                if row.get::<_, Option<i64>>(3).is_some() {
                    waiting.push(scope.clone());
                }
                found.push((scope, u64::try_from(row.get::<_, i64>(2)).unwrap_or_default()));
            }
            if !self.complete_those(&waiting).await? {
                return Ok(found);
            }
        }
    }

    /// Removes the evicted databases among these, so that nobody sees them. Returns whether there were any.
    pub(crate) async fn complete_those(self: &Arc<Self>, waiting: &[Scope]) -> Result<bool> {
        let Some(store) = self.entries.as_ref().filter(|_| !waiting.is_empty()) else { return Ok(false) };
        let hexes: Vec<String> = waiting.iter().map(|scope| Hex::of(scope).as_str().to_owned()).collect();
        let going = eviction::going(store, &hexes).await?;
        for scope in waiting.iter().zip(&hexes).filter(|(_, hex)| going.contains(hex)).map(|(scope, _)| scope)
        {
            self.complete(&self.pool.scope(scope)).await?;
        }
        Ok(!going.is_empty())
    }

    /// GC-12: finishes interrupted work, and forgets uses of removed scopes.
    pub(crate) async fn reclaim(self: &Arc<Self>) -> Result<Reclaimed> {
        self.wake()?;
        let store = self.entries()?;
        let mut reclaimed = eviction::reclaim(store).await?;
        reclaimed.unfinished = self.finish_all().await?;
        let mut after = Vec::new();
        loop {
            let page = eviction::unused(store, &after, PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(reclaimed) };
            after = last.clone();
            let hexes: Vec<&str> = page.iter().map(|(_, hex)| hex.as_str()).collect();
            let sql = "SELECT hex FROM mem_sql.scopes WHERE hex = ANY ($1)";
            let rows = self.admin.look(sql, &[(&hexes, Type::TEXT_ARRAY)]).await?;
            let there: HashSet<&str> = rows.iter().map(|row| row.get(0)).collect();
            let gone = page.iter().filter(|(_, hex)| !there.contains(hex.as_str()));
            let gone: Vec<Vec<u8>> = gone.map(|(mark, _)| mark.clone()).collect();
            eviction::forget_uses(store, &gone).await?;
        }
    }

    /// Finishes interrupted evictions and ends of runs; returns how many.
    async fn finish_all(self: &Arc<Self>) -> Result<u64> {
        let (mut after, mut count) = (String::new(), 0);
        loop {
            // Somebody still working on it does not need a minute.
            let rows = self
                .admin
                .look(
                    "SELECT hex, tenant, kind, id, leaving, left_at < now() - interval '1 minute' FROM mem_sql.scopes \
                     WHERE leaving IS NOT NULL AND hex > $1 ORDER BY hex LIMIT 200",
                    &[(&after, Type::TEXT)],
                )
                .await?;
            let Some(last) = rows.last() else { return Ok(count) };
            after = last.get(0);
            let hexes: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            let going = eviction::going(self.entries()?, &hexes).await?;
            for row in &rows {
                if !(going.contains(&row.get(0)) || row.get::<_, bool>(5)) {
                    continue;
                }
                let tenant = TenantId::new(row.get::<_, String>(1))?;
                let id = ScopeId::new(row.get::<_, String>(3))?;
                let state = self.pool.scope(&Scope::new(tenant, kind_of(row.get(2))?, id));
                count += u64::from(self.settle(&state, row.get(4)).await?);
            }
        }
    }
}

/// Merges two sorted lists: a scope in both has the bytes of both and the later use.
fn merged(entries: Vec<ScopeUse>, databases: Vec<ScopeUse>) -> Vec<ScopeUse> {
    let mut all: BTreeMap<(i16, String), ScopeUse> = BTreeMap::new();
    for one in entries.into_iter().chain(databases) {
        let place = (kind_number(one.scope.kind), one.scope.id.as_str().to_owned());
        match all.entry(place) {
            Entry::Vacant(free) => drop(free.insert(one)),
            Entry::Occupied(mut there) => {
                let there = there.get_mut();
                there.sql_bytes = one.sql_bytes;
                there.last_used_at = there.last_used_at.max(one.last_used_at);
                there.latest_use = there.latest_use.max(one.latest_use);
            }
        }
    }
    all.into_values().collect()
}
