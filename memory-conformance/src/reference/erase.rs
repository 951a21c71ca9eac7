//! Forgetting: erasing data and keeping tombstones.

use std::sync::{MutexGuard, PoisonError};

use memory_core::{
    Clock as _, EraseTarget, Erased, ImportOptions, Key, NameDigest, Record, Scope, ScopeKind, Timestamp,
    Tombstone, TombstoneId, TombstonesOf,
};

use super::fault::Fault;
use super::state::ScopeState;
use super::store::{Reference, Scopes, Tombstones};

impl Reference {
    /// Lock order: after the scopes, never before.
    fn tombstone_map(&self) -> MutexGuard<'_, Tombstones> {
        self.tombstones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new scope; after an erasure it continues its versions.
    pub(super) fn fresh(&self, scope: &Scope) -> ScopeState {
        let mut state = ScopeState::new(self.faults);
        if self.faults.has(Fault::EraseForgetsVersions) {
            return state;
        }
        let id = TombstoneId::of(&EraseTarget::Scope(scope.clone()));
        let buried = self.tombstone_map();
        let given = if self.faults.has(Fault::EraseRaisesOthers) {
            buried.values().map(|tombstone| tombstone.version).max()
        } else {
            buried.get(&id).map(|tombstone| tombstone.version)
        };
        state.counter = given.unwrap_or(state.counter);
        state.floor = given.unwrap_or(state.floor);
        state
    }

    /// Whether an import skips a record.
    pub(super) fn leaves_out(&self, scope: &Scope, record: &Record, options: ImportOptions) -> bool {
        let Some(moment) = options.taken.taken_at(record.entry.updated_at) else { return false };
        self.is_forgotten(scope, &record.entry.key, moment)
    }

    fn is_forgotten(&self, scope: &Scope, key: &Key, moment: Timestamp) -> bool {
        let covering = [
            EraseTarget::Tenant(scope.tenant.clone()),
            EraseTarget::Scope(scope.clone()),
            EraseTarget::Key { scope: scope.clone(), key: key.clone() },
        ];
        let tombstones = self.tombstone_map();
        covering
            .iter()
            .filter_map(|target| tombstones.get(&TombstoneId::of(target)))
            .any(|tombstone| tombstone.is_after(moment))
    }

    pub(super) fn erase_target(&self, target: &EraseTarget) -> Erased {
        let mut scopes = self.lock();
        let now = self.clock.now();
        let (mut gone, mut entries, mut version) = (0, 0, 0);
        match target {
            EraseTarget::Key { scope, key } => {
                if let Some(state) = scopes.get_mut(scope) {
                    if state.entries.remove(key).is_some() {
                        entries = 1;
                        state.changed();
                    }
                    version = state.counter;
                }
            }
            _ => {
                let of_target = |scope: &&Scope| {
                    target.has_scope(scope)
                        && !(scope.kind == ScopeKind::Run
                            && target.scope().is_none()
                            && self.faults.has(Fault::EraseLeavesRuns))
                };
                let found: Vec<Scope> = scopes.keys().filter(of_target).cloned().collect();
                for scope in found {
                    let (held, counter) = self.remove_scope(&mut scopes, &scope);
                    gone += u64::from(counter > 0);
                    entries += held;
                    version = version.max(counter);
                    let id = TombstoneId::of(&EraseTarget::Scope(scope));
                    self.put_tombstone(Tombstone { id, at: now, version: counter });
                }
            }
        }
        let tombstone = self.put_tombstone(Tombstone { id: TombstoneId::of(target), at: now, version });
        let mut erased = Erased::new(tombstone);
        (erased.scopes, erased.entries) = (gone, entries);
        erased
    }

    /// Removes a scope; returns the number of entries and the highest version.
    fn remove_scope(&self, scopes: &mut Scopes, scope: &Scope) -> (u64, u64) {
        if self.faults.has(Fault::EraseKeepsExpired) {
            let now = self.clock.now();
            let Some(state) = scopes.get_mut(scope) else { return (0, 0) };
            let before = state.entries.len();
            state.entries.retain(|_, stored| stored.entry.is_expired(now));
            return ((before - state.entries.len()) as u64, state.counter);
        }
        scopes.remove(scope).map_or((0, 0), |state| (state.entries.len() as u64, state.counter))
    }

    fn put_tombstone(&self, tombstone: Tombstone) -> Tombstone {
        let mut tombstones = self.tombstone_map();
        let merged = match tombstones.get(&tombstone.id) {
            Some(before) if !self.faults.has(Fault::BuryReplaces) => before.merged(tombstone),
            _ => tombstone,
        };
        if !self.faults.has(Fault::EraseLeavesNoTombstone) {
            tombstones.insert(merged.id, merged);
        }
        merged
    }

    pub(super) fn put_tombstones(&self, tombstones: &[Tombstone]) {
        let mut scopes = self.lock();
        let now = self.clock.now();
        for tombstone in tombstones {
            let at = if self.faults.has(Fault::BuryUnclamped) { tombstone.at } else { tombstone.at.min(now) };
            let merged = self.put_tombstone(Tombstone { at, ..*tombstone });
            let Some(of) = tombstone.id.scope else { continue };
            for (_, state) in scopes.iter_mut().filter(|(scope, _)| NameDigest::of_scope(scope) == of) {
                state.counter = state.counter.max(merged.version);
                state.floor = state.floor.max(merged.version);
                if self.faults.has(Fault::BuryErases) && tombstone.id.key.is_none() {
                    state.entries.clear();
                }
            }
        }
    }

    pub(super) fn tombstones_of(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Vec<Tombstone> {
        let is_of = |id: &TombstoneId| match of {
            TombstonesOf::Tenant(tenant) => id.tenant == NameDigest::of_tenant(tenant),
            TombstonesOf::Scope(scope) => {
                id.concerns(&NameDigest::of_tenant(&scope.tenant), &NameDigest::of_scope(scope))
            }
            _ => true,
        };
        let tombstones = self.tombstone_map();
        let later = tombstones.values().filter(|tombstone| after.is_none_or(|after| tombstone.id > *after));
        later.filter(|tombstone| is_of(&tombstone.id)).take(limit).copied().collect()
    }
}
