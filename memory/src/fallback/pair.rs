//! Which store is asked, and in what order.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::lock::Mutex;
use memory_core::{
    Backend, Capabilities, Clock, EraseTarget, Erased, Error, ErrorKind, Health, HealthStatus, Hook,
    Interposed, MemoryLayer, Next, Provider, Reply, Request, Result, Scope, ScopeId, ScopeKind, SqlFacet,
    TenantId, Tombstone, TombstoneId, TombstonesOf,
};

use super::journal::Journal;
use super::observe;
use super::primary::{Failed, Primary, falls};
use super::request::{Treatment, again, continues_fallback, is_key_value, marked, treatment};
use crate::memory::Memory;

/// Two stores as one; see `docs/spec/fallback.md`.
#[derive(Debug)]
pub(super) struct Pair {
    name: String,
    capabilities: Capabilities,
    stores: Interposed<Memory, Stores>,
}

/// The two stores and the journal.
#[derive(Debug)]
pub(super) struct Stores {
    /// The fallback's name in the configuration.
    pub(super) label: String,
    pub(super) primary: Primary,
    pub(super) fallback: Memory,
    pub(super) journal: Option<Journal>,
    pub(super) clock: Arc<dyn Clock>,
    /// Held while this process writes to the journal.
    pub(super) turn: Mutex<()>,
}

impl Pair {
    pub(super) fn new(name: String, capabilities: Capabilities, stores: Stores) -> Self {
        Self { name, capabilities, stores: Interposed::new(stores.fallback.clone(), stores) }
    }

    fn erases(&self, operation: &'static str) -> Result<&Stores> {
        if !self.capabilities.erase {
            return Err(Error::unsupported(operation, &self.name));
        }
        Ok(self.stores.hook())
    }
}

#[async_trait]
impl Provider for Pair {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.capabilities.kv.then_some(&self.stores as &dyn Backend)
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.capabilities.memory_layer.then_some(&self.stores as &dyn MemoryLayer)
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.capabilities.sql.then_some(&self.stores as &dyn SqlFacet)
    }

    async fn health(&self) -> Result<Health> {
        self.stores.hook().health().await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.stores.hook().end_run(tenant, root_run).await
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        if !self.capabilities.tenants {
            return Err(Error::unsupported("tenants", &self.name));
        }
        self.stores.tenants(after, limit).await
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        self.erases("erase")?.erase(target).await
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        self.erases("tombstones")?.tombstones(of, after, limit).await
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        self.erases("bury")?.bury(tombstones).await
    }

    async fn close(&self) -> Result<()> {
        self.stores.hook().close_both().await
    }
}

#[async_trait]
impl Hook for Stores {
    async fn around(&self, mut request: Request, _fallback: Next<'_>) -> Result<Reply> {
        if continues_fallback(&mut request) {
            return self.fall_back(request).await;
        }
        let waits = self.waits(Whose::of(&request)).await?;
        match treatment(&request) {
            Treatment::Read => self.read(request, waits).await,
            Treatment::Write => self.write(request, waits).await,
            Treatment::Primary => self.ask_primary(request, waits).await,
        }
    }
}

/// Which queued writes a request must see.
enum Whose {
    Nobodys,
    Tenants(TenantId),
    Scopes(Scope),
}

impl Whose {
    fn of(request: &Request) -> Self {
        match (request, request.scope()) {
            (Request::Scopes { tenant, .. }, _) => Self::Tenants(tenant.clone()),
            (_, Some(scope)) if is_key_value(request.op()) => Self::Scopes(scope.clone()),
            _ => Self::Nobodys,
        }
    }
}

impl Stores {
    /// Whether a request must see queued writes that could not be replayed first.
    async fn waits(&self, whose: Whose) -> Result<bool> {
        let Some(journal) = &self.journal else { return Ok(false) };
        let holds = || match &whose {
            Whose::Nobodys => Ok(false),
            Whose::Tenants(tenant) => journal.holds_any(tenant),
            Whose::Scopes(scope) => journal.holds(scope),
        };
        if !holds()? {
            return Ok(false);
        }
        if !self.primary.rests() {
            let scope = if let Whose::Scopes(scope) = &whose { Some(scope) } else { None };
            self.replay(journal, scope).await?;
        }
        holds()
    }

    async fn read(&self, request: Request, waits: bool) -> Result<Reply> {
        if waits && matches!(request, Request::Scopes { .. }) {
            return Err(Error::unavailable(
                "writes of this tenant are queued for the primary store, so no single store has all its scopes; try again when it is \
                 back",
            ));
        }
        if waits || self.primary.rests() {
            return self.fall_back(request).await;
        }
        let Some(second) = again(&request) else { return Ok(self.primary.run(request).await?) };
        match self.primary.run(request).await {
            Err(Failed { error, is_away: true }) => {
                self.fall_back(second).await.map_err(|worse| because(worse, &error))
            }
            answered => Ok(answered?),
        }
    }

    async fn write(&self, request: Request, waits: bool) -> Result<Reply> {
        let (Some(journal), Some(second)) = (&self.journal, again(&request)) else {
            return self.ask_primary(request, waits).await;
        };
        if waits || self.primary.rests() {
            return self.journaled(journal, request).await;
        }
        match self.primary.run(request).await {
            Err(Failed { error, is_away: true }) => {
                self.journaled(journal, second).await.map_err(|worse| because(worse, &error))
            }
            answered => Ok(answered?),
        }
    }

    /// Runs a request that only the primary can serve.
    async fn ask_primary(&self, request: Request, waits: bool) -> Result<Reply> {
        let op = request.op();
        if waits {
            return Err(Error::unavailable(
                format!(
                    "writes of this scope are queued for the primary store, and `{op}` depends on its contents; try again when it is \
                     back"
                ),
            )
            .with_detail("fallback", "refused"));
        }
        let answered = self.primary.run(request).await;
        answered.map_err(|failed| if failed.is_away { not_taken(failed.error) } else { failed.error })
    }

    /// Asks the fallback, and records that it answered.
    async fn fall_back(&self, request: Request) -> Result<Reply> {
        let reply = Next::to(&self.fallback).run(request).await?;
        observe::note(&self.label);
        Ok(marked(reply))
    }

    /// Writes to the fallback, after recording the write in the journal.
    async fn journaled(&self, journal: &Journal, request: Request) -> Result<Reply> {
        let (Some(scope), Some(record)) =
            (request.scope().cloned(), super::record::Record::of(&request, self.clock.now()))
        else {
            return Err(Error::internal("a write that cannot be journaled was to be journaled"));
        };
        let _turn = self.turn.lock().await;
        let _processes = journal.turn()?;
        self.finish_intended(journal).await?;
        let id = journal.intend(&scope, &record)?;
        match self.fall_back(request).await {
            Ok(reply) => {
                journal.confirm(id).map_err(|error| {
                    Error::outcome_unknown(
                        "the fallback took the write but the journal could not record it; read before writing again",
                    )
                    .with_source(error)
                })?;
                Ok(reply)
            }
            Err(error) => {
                if error.kind() != ErrorKind::OutcomeUnknown {
                    journal.remove(id)?;
                }
                Err(error)
            }
        }
    }

    /// Completes a write whose process was killed before acknowledging it; the fallback may already have it.
    pub(super) async fn finish_intended(&self, journal: &Journal) -> Result<()> {
        let Some(row) = journal.intended()? else { return Ok(()) };
        let expects = vec![memory_core::Expect::Any; row.record.keys().count()];
        for call in row.record.calls(&row.scope, &expects, self.clock.now()) {
            match Next::to(&self.fallback).run(call).await {
                Ok(_) => {}
                Err(error) if falls(&error) || error.kind() == ErrorKind::OutcomeUnknown => {
                    return Err(error);
                }
                // The original would have been refused too, and was never acknowledged.
                Err(_) => return journal.remove(row.id),
            }
        }
        journal.confirm(row.id)
    }

    async fn health(&self) -> Result<Health> {
        let counts = match &self.journal {
            Some(journal) => {
                if let Err(error) = self.replay(journal, None).await
                    && !falls(&error)
                {
                    return Ok(Health::new(HealthStatus::Degraded, error.message().to_owned()));
                }
                Some(journal.counts()?)
            }
            None => None,
        };
        let of = |health: Result<Health>| match health {
            Ok(health) => health,
            Err(error) => Health::new(HealthStatus::Down, error.message().to_owned()),
        };
        let primary = match self.primary.get().await {
            Ok(memory) => of(memory.health().await),
            Err(error) => of(Err(error)),
        };
        let fallback = of(self.fallback.health().await);
        let waits = counts.is_some_and(|counts| counts.waiting > 0 || counts.set_aside > 0);
        let status = match (primary.status, fallback.status) {
            (HealthStatus::Down, HealthStatus::Down) => HealthStatus::Down,
            (HealthStatus::Ok, HealthStatus::Ok) if !waits => HealthStatus::Ok,
            _ => HealthStatus::Degraded,
        };
        let mut message =
            format!("primary: {}; fallback `{}`: {}", primary.message, self.label, fallback.message);
        if let Some(counts) = counts {
            message.push_str(&format!(
                "; journal: {} writes queued in {} scopes, {} set aside",
                counts.waiting, counts.scopes, counts.set_aside
            ));
        }
        Ok(Health::new(status, message).with_processes(primary.processes))
    }

    /// The journal needs nothing: its contents are already on disk.
    async fn close_both(&self) -> Result<()> {
        let primary = match self.primary.now_opened() {
            Some(memory) => memory.close().await,
            None => Ok(()),
        };
        primary.and(self.fallback.close().await)
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        let request = || Request::EndRun { tenant: tenant.clone(), root_run: root_run.clone() };
        let Some(journal) = &self.journal else {
            return Ok(self.primary.run(request()).await.map(drop)?);
        };
        // The run's data is about to be purged, so its queued writes are not replayed.
        let scope = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
        if journal.holds(&scope)? {
            let _turn = self.turn.lock().await;
            let _processes = journal.turn()?;
            journal.forget(&scope)?;
        }
        let ended = self.primary.run(request()).await;
        Next::to(&self.fallback).run(request()).await?;
        Ok(ended.map(drop)?)
    }
}

/// The fallback's error, with the primary's error in its text.
fn because(worse: Error, primary: &Error) -> Error {
    let message = format!("{}; the primary: {}", worse.message(), primary.message());
    worse.retold(message)
}

fn not_taken(error: Error) -> Error {
    let message = format!("{}; nothing was written, and the fallback does not take this", error.message());
    error.retold(message).with_detail("fallback", "refused")
}
