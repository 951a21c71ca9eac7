//! One sweep over a store.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory_core::limits::MAX_PAGE;
use memory_core::{
    Clock, Cursor, EvictOutcome, Provider, Result, Scope, ScopeKind, ScopeUse, ScopeUsesQuery, TenantId,
    Timestamp,
};

use super::candidates::{Candidates, Place};
use super::last_snapshot::{self, LastSnapshot};
use super::policy::GcOptions;
use super::report::{GcReason, GcReport, GcVictim};
use crate::audit::{AuditEviction, Auditor};
use crate::snapshot::Control;

/// The progress of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcProgress {
    /// Scopes checked.
    pub scopes: u64,
    /// Scopes that were evicted.
    pub evicted: u64,
    /// Bytes they held.
    pub evicted_bytes: u64,
}

type Show = dyn Fn(&GcProgress) + Send + Sync;

/// Observes a sweep, stops it, and audits it.
#[derive(Clone, Default)]
pub struct GcControl {
    stop: Control,
    busy: Arc<AtomicBool>,
    show: Option<Arc<Show>>,
    auditor: Option<Arc<Auditor>>,
}

impl fmt::Debug for GcControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcControl").field("is_stopped", &self.stop.is_stopped()).finish_non_exhaustive()
    }
}

impl GcControl {
    /// Calls `show` from time to time, at least after each eviction. It should return immediately.
    #[must_use]
    pub fn with_progress(mut self, show: impl Fn(&GcProgress) + Send + Sync + 'static) -> Self {
        self.show = Some(Arc::new(show));
        self
    }

    /// Records every eviction in this audit.
    #[must_use]
    pub fn with_auditor(mut self, auditor: Option<Arc<Auditor>>) -> Self {
        self.auditor = auditor;
        self
    }

    /// Whether a sweep is running.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// Ends the sweep soon, between two scopes; evictions so far stay.
    pub fn stop(&self) {
        self.stop.stop();
    }
}

/// A running sweep.
struct Sweep<'a> {
    provider: &'a dyn Provider,
    options: &'a GcOptions,
    control: &'a GcControl,
    now: Timestamp,
    report: GcReport,
    /// Whether the ledger knows the folder of last snapshots.
    is_noted: bool,
}

/// Evicts the scopes of a store that the policy does not keep, and frees their space.
///
/// The clock is read once; the store uses its own at each eviction. Memory is bounded however many scopes there are.
///
/// # Behavior
/// - GCP-1: Scopes not used for the idle time are evicted, in the order of tenant, kind and id.
/// - GCP-2: If all scopes together hold more than `max_bytes`, the largest of those idle for `min_idle` are evicted until the
///   rest fits.
/// - GCP-3: The store decides at the moment of the eviction: a scope that was used meanwhile stays and is counted.
/// - GCP-4: A dry run reports what would be evicted and why, and changes nothing.
/// - GCP-5: Memory is bounded whatever the number of scopes.
/// - GCP-6: With a folder for last snapshots, each scope is written there, whole, before it is evicted.
/// - GCP-7: Each eviction is one audit record.
/// - GCP-8: Runs whose process died are ordinary scopes here: they are evicted by idle time.
///
/// # Errors
/// `capability_unsupported` for a store without eviction, or without a list of tenants if no tenant is named;
/// `unavailable`, `corrupt` if scopes cannot be listed. Failures of single scopes are in the report.
pub async fn sweep(
    provider: &dyn Provider,
    options: &GcOptions,
    clock: &dyn Clock,
    control: &GcControl,
) -> Result<GcReport> {
    let report = GcReport { dry_run: options.dry_run, ..GcReport::default() };
    let _busy = Busy::begin(&control.busy);
    let mut sweep = Sweep { provider, options, control, now: clock.now(), report, is_noted: false };
    if !options.dry_run {
        // Finishes what an interrupted eviction left, so that this sweep does not see it.
        let reclaimed = provider.reclaim().await?;
        sweep.report.reclaimed = Some(reclaimed);
        last_snapshot::clean(options);
    }
    sweep.by_idle_time().await?;
    sweep.by_size().await?;
    if sweep.report.evicted > 0 && !options.dry_run {
        let after = provider.reclaim().await?;
        if let Some(reclaimed) = &mut sweep.report.reclaimed {
            reclaimed.expired += after.expired;
            reclaimed.vectors += after.vectors;
            reclaimed.unfinished += after.unfinished;
            reclaimed.fences += after.fences;
            reclaimed.bytes = reclaimed.bytes.saturating_add(after.bytes);
        }
    }
    let GcReport { scopes, evicted, evicted_bytes, kept, failed, dry_run, .. } = sweep.report;
    tracing::info!(scopes, evicted, evicted_bytes, kept, failed, dry_run, "garbage collection");
    Ok(sweep.report)
}

/// Marks a sweep as running until dropped.
struct Busy<'a>(&'a AtomicBool);

impl<'a> Busy<'a> {
    fn begin(busy: &'a AtomicBool) -> Self {
        busy.store(true, Ordering::SeqCst);
        Self(busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl Sweep<'_> {
    /// The time that long before now.
    fn ago(&self, idle: Duration) -> Timestamp {
        let millis = i64::try_from(idle.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis_clamped(self.now.as_millis().saturating_sub(millis))
    }

    fn is_stopped(&mut self) -> bool {
        self.report.stopped |= self.control.stop.is_stopped();
        self.report.stopped
    }

    fn show(&self) {
        if let Some(show) = &self.control.show {
            let GcReport { scopes, evicted, evicted_bytes, .. } = self.report;
            show(&GcProgress { scopes, evicted, evicted_bytes });
        }
    }

    /// GCP-1; also counts the scopes.
    async fn by_idle_time(&mut self) -> Result<()> {
        let since = self.options.policy.idle.map(|idle| self.ago(idle));
        let mut walk = Walk::new(self.provider, self.options.tenant.as_ref());
        while let Some(found) = walk.next().await? {
            if self.is_stopped() {
                return Ok(());
            }
            self.report.scopes += 1;
            self.report.bytes = self.report.bytes.saturating_add(found.bytes());
            match since {
                Some(since) if found.latest_use <= since => self.evict(found, since, GcReason::Idle).await,
                Some(since) if found.last_used_at <= since => self.report.within_slack += 1,
                _ => {}
            }
            self.show();
        }
        Ok(())
    }

    /// GCP-2.
    async fn by_size(&mut self) -> Result<()> {
        let Some(max_bytes) = self.options.policy.max_bytes else { return Ok(()) };
        let since = self.ago(self.options.policy.min_idle);
        // In a dry run, the victims of the idle rule are still there.
        let by_idle = self.options.policy.idle.filter(|_| self.options.dry_run).map(|idle| self.ago(idle));
        let mut after: Option<Place> = None;
        loop {
            let left = self.report.bytes.saturating_sub(self.report.evicted_bytes);
            self.report.over = left.saturating_sub(max_bytes);
            if self.report.over == 0 || self.is_stopped() {
                return Ok(());
            }
            let mut candidates = Candidates::after(after.take());
            let mut walk = Walk::new(self.provider, self.options.tenant.as_ref());
            while let Some(found) = walk.next().await? {
                let is_idle = found.latest_use <= since;
                if is_idle && by_idle.is_none_or(|taken| found.latest_use > taken) {
                    candidates.add(found);
                }
                if self.is_stopped() {
                    return Ok(());
                }
            }
            let more = candidates.overflowed;
            for place in candidates.into_first() {
                let (bytes, last_used_at, scope) = place.clone();
                let found = ScopeUse::new(scope, bytes.0, 0, last_used_at);
                self.evict(found, since, GcReason::MaxBytes).await;
                let left = self.report.bytes.saturating_sub(self.report.evicted_bytes);
                self.report.over = left.saturating_sub(max_bytes);
                self.show();
                if self.report.over == 0 || self.is_stopped() {
                    return Ok(());
                }
                after = Some(place);
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// GCP-3, GCP-4, GCP-6, GCP-7.
    async fn evict(&mut self, found: ScopeUse, since: Timestamp, reason: GcReason) {
        let (bytes, last_used_at, scope) = (found.bytes(), found.last_used_at, found.scope);
        let mut victim = GcVictim { scope, bytes, last_used_at, reason, snapshot: None };
        if self.options.dry_run {
            self.report.add_evicted(victim);
            return;
        }
        let last = match self.last_snapshot(&victim.scope).await {
            Ok(last) => last,
            Err(error) => {
                // Being told to stop is not a failure.
                if !self.is_stopped() {
                    self.report.add_failed(&victim.scope, &error, None);
                }
                return;
            }
        };
        victim.snapshot = last.as_ref().map(|last| last.path.clone());
        // Any use after the snapshot is later than `since`, so what is evicted is what was saved.
        let outcome = self.provider.evict(&victim.scope, since).await;
        // If the store still has the scope, the file is not needed; if the scope may be gone, the file is kept.
        let needless = match (&outcome, &last) {
            (Ok(EvictOutcome::Kept(_)), Some(last)) => Some(last),
            (Err(error), Some(last))
                if last_snapshot::is_still_there(self.provider, &victim.scope, last, error).await =>
            {
                Some(last)
            }
            _ => None,
        };
        if needless.is_some() {
            victim.snapshot = None;
        }
        if let Some(auditor) = &self.control.auditor {
            auditor.evicted(AuditEviction::of(&victim, &outcome));
        }
        match outcome {
            Ok(EvictOutcome::Evicted { .. }) => self.report.add_evicted(victim),
            Ok(EvictOutcome::Kept(why)) => self.report.add_kept(&victim.scope, why.as_str()),
            Ok(_) => {}
            Err(error) => self.report.add_failed(&victim.scope, &error, victim.snapshot),
        }
        if let Some(last) = needless {
            last_snapshot::discard(last, self.options);
            // That may have been the only line that recorded the folder.
            self.is_noted = false;
        }
    }

    /// GCP-6.
    async fn last_snapshot(&mut self, scope: &Scope) -> Result<Option<LastSnapshot>> {
        let (is_first, stop) = (!self.is_noted, &self.control.stop);
        self.is_noted |= self.options.snapshot_to.is_some() && scope.kind.is_durable();
        last_snapshot::snapshot(self.provider, scope, is_first, self.options, self.now, stop).await
    }
}

/// Walks through every scope of a store and its use, by tenant, kind and id, page by page.
struct Walk<'a> {
    provider: &'a dyn Provider,
    tenants: VecDeque<TenantId>,
    last_tenant: Option<TenantId>,
    no_more_tenants: bool,
    tenant: Option<TenantId>,
    cursor: Option<Cursor>,
    page: VecDeque<ScopeUse>,
    page_is_last: bool,
}

impl<'a> Walk<'a> {
    fn new(provider: &'a dyn Provider, tenant: Option<&TenantId>) -> Self {
        Self {
            provider,
            tenants: tenant.cloned().into_iter().collect(),
            last_tenant: None,
            no_more_tenants: tenant.is_some(),
            tenant: None,
            cursor: None,
            page: VecDeque::new(),
            page_is_last: true,
        }
    }

    async fn next(&mut self) -> Result<Option<ScopeUse>> {
        loop {
            if let Some(found) = self.page.pop_front() {
                return Ok(Some(found));
            }
            if self.page_is_last {
                let Some(tenant) = self.next_tenant().await? else { return Ok(None) };
                (self.tenant, self.cursor) = (Some(tenant), None);
            }
            let Some(tenant) = &self.tenant else { return Ok(None) };
            let query = ScopeUsesQuery::default().with_limit(MAX_PAGE).with_cursor(self.cursor.take());
            let page = self.provider.scope_uses(tenant, query).await?;
            self.page_is_last = page.next.is_none();
            self.cursor = page.next;
            // The host's scopes never count as unused: they go with their tenant.
            self.page = page.scopes.into_iter().filter(|found| found.scope.kind != ScopeKind::Host).collect();
        }
    }

    async fn next_tenant(&mut self) -> Result<Option<TenantId>> {
        if self.tenants.is_empty() && !self.no_more_tenants {
            let page = self.provider.tenants(self.last_tenant.as_ref(), MAX_PAGE).await?;
            self.no_more_tenants = page.len() < MAX_PAGE;
            self.last_tenant = page.last().cloned().or_else(|| self.last_tenant.take());
            self.tenants = page.into();
        }
        Ok(self.tenants.pop_front())
    }
}
