//! Use times of scopes, eviction, and the end of runs. The last use is exact: there is no slack.

use std::ops::Bound;
use std::sync::PoisonError;
use std::time::Duration;

use memory_core::{
    Cursor, EvictOutcome, Kept, Reclaimed, Result, Scope, ScopeKind, ScopeUse, ScopeUsesPage, ScopeUsesQuery,
    TenantId, Timestamp,
};

use super::fault::{Fault, Viewer};
use super::state::ScopeState;
use super::store::Reference;

/// How long writes to an ended run are refused.
const FENCE: Duration = Duration::from_secs(86_400);

impl Reference {
    /// Whether it is the scope of a recently ended run.
    pub(super) fn has_ended(&self, scope: &Scope, now: Timestamp) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        self.capabilities.run_fence
            && ended.get(scope).and_then(|at| at.checked_add(FENCE)).is_some_and(|over| now < over)
    }

    /// Ends a run.
    pub(super) fn end(&self, scope: &Scope) {
        let mut scopes = self.lock();
        scopes.remove(scope);
        let now = self.clock.now();
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(scope.clone(), now);
    }

    pub(super) fn uses(&self, tenant: &TenantId, query: &ScopeUsesQuery) -> Result<ScopeUsesPage> {
        let after = query.cursor.as_ref().map(|cursor| cursor.scope(tenant)).transpose()?;
        let start = match after {
            Some((kind, id)) => Bound::Excluded(Scope::new(tenant.clone(), kind, id)),
            None => Bound::Unbounded,
        };
        let (now, scopes) = (self.clock.now(), self.lock());
        let mut matching = scopes
            .range((start, Bound::Unbounded))
            .filter(|(scope, _)| scope.tenant == *tenant)
            .filter(|(scope, _)| query.kind.is_none_or(|kind| scope.kind == kind))
            .map(|(scope, state)| (scope, state.usage(now, Viewer::Scopes), state.used_at))
            .filter(|(_, (entries, _), _)| *entries > 0)
            .map(|(scope, (_, bytes), used_at)| ScopeUse::new(scope.clone(), bytes, 0, used_at))
            .peekable();
        let page: Vec<ScopeUse> = matching.by_ref().take(query.limit).collect();
        let more = matching.peek().is_some();
        let next = page
            .last()
            .filter(|_| more)
            .map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
        Ok(ScopeUsesPage::new(page, next))
    }

    pub(super) fn judge(&self, scope: &Scope, unused_since: Timestamp) -> EvictOutcome {
        let mut scopes = self.lock();
        let now = self.clock.now();
        let Some(state) = scopes.get_mut(scope) else { return EvictOutcome::Kept(Kept::Absent) };
        let (entries, bytes) = state.usage(now, Viewer::Drop);
        if entries == 0 {
            return EvictOutcome::Kept(Kept::Absent);
        }
        if state.used_at > unused_since.min(now) {
            return EvictOutcome::Kept(Kept::Used { last_used_at: state.used_at });
        }
        state.changed();
        state.entries.clear();
        if state.faults.has(Fault::VersionsEndWithEviction) {
            *state = ScopeState::new(state.faults);
        }
        if scope.kind == ScopeKind::Run {
            scopes.remove(scope);
        }
        EvictOutcome::Evicted { bytes }
    }

    pub(super) fn reclaim_all(&self) -> Reclaimed {
        let mut reclaimed = Reclaimed::default();
        let mut scopes = self.lock();
        let now = self.clock.now();
        for state in scopes.values_mut() {
            let before = state.entries.len();
            state.entries.retain(|_, stored| !stored.entry.is_expired(now));
            reclaimed.expired += (before - state.entries.len()) as u64;
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let before = ended.len();
        ended.retain(|_, at| at.checked_add(FENCE).is_some_and(|over| now < over));
        reclaimed.fences = (before - ended.len()) as u64;
        reclaimed
    }
}
