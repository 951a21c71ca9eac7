//! The conversations kept in memory: a bounded number of bytes, least recently used dropped first.

mod state;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures_util::lock::Mutex as AsyncMutex;
use memory_core::embed::EmbeddingModel;
use memory_core::{Result, Scope, Timestamp};

pub(crate) use state::{Moment, State};

use crate::store::keys;
use crate::store::log::{Log, PAGE, SeenHead};

/// One scope. Readers share its state; only taking over new records excludes them.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    state: RwLock<State>,
    /// Held while records are read, so that two readers do not read the same.
    reading: AsyncMutex<()>,
}

impl Slot {
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        // A panic under the lock leaves a state that is at worst incomplete; hits are checked against the store anyway.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Slots {
    /// Each with when it was last used.
    by_scope: HashMap<Scope, (Arc<Slot>, u64)>,
    uses: u64,
}

/// The scopes in memory.
#[derive(Debug)]
pub(crate) struct Cache {
    slots: Mutex<Slots>,
    most_bytes: usize,
}

impl Cache {
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { slots: Mutex::default(), most_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, scope: &Scope) -> Arc<Slot> {
        let mut slots = self.lock();
        slots.uses += 1;
        let now = slots.uses;
        let (slot, used) = slots.by_scope.entry(scope.clone()).or_default();
        *used = now;
        Arc::clone(slot)
    }

    /// Drops what is cached about a scope.
    pub(crate) fn drop_scope(&self, scope: &Scope) {
        self.lock().by_scope.remove(scope);
    }

    /// Drops everything.
    pub(crate) fn clear(&self) {
        self.lock().by_scope.clear();
    }

    /// The scope's current conversation. One read tells whether it changed; then only what is new is read.
    pub(crate) async fn current(
        &self,
        log: &Log<'_>,
        model: Option<&EmbeddingModel>,
        now: Timestamp,
    ) -> Result<Arc<Slot>> {
        let slot = self.slot(log.scope);
        let mut seen = log.head().await?;
        if slot.state().version != seen.version {
            let _reading = slot.reading.lock().await;
            // Another reader may have read it meanwhile, and more.
            seen = log.head().await?;
            if slot.state().version != seen.version {
                catch_up(log, &slot, &seen, model).await?;
                self.make_room(log.scope);
            }
        }
        if slot.state().has_expired(now) {
            slot.change().expire(now);
        }
        if seen.version.is_none() {
            self.drop_scope(log.scope);
        }
        Ok(slot)
    }

    /// Drops the least recently used scopes until the rest fits; the one in use stays.
    fn make_room(&self, in_use: &Scope) {
        let mut slots = self.lock();
        let bytes = |slots: &Slots| -> usize {
            slots
                .by_scope
                .values()
                .map(|(slot, _)| slot.state.try_read().map_or(0, |state| state.bytes()))
                .sum()
        };
        let mut total = bytes(&slots);
        while total > self.most_bytes {
            let oldest = slots
                .by_scope
                .iter()
                .filter(|(scope, _)| *scope != in_use)
                .min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(scope, _)| scope.clone()) else { return };
            slots.by_scope.remove(&oldest);
            total = bytes(&slots);
        }
    }
}

/// Reads the records that the state does not have.
async fn catch_up(log: &Log<'_>, slot: &Slot, seen: &SeenHead, model: Option<&EmbeddingModel>) -> Result<()> {
    let Some(head) = &seen.head else {
        *slot.change() = State::default();
        return Ok(());
    };
    let (continues, mut next, known) = {
        let state = slot.state();
        let continues = state.version.is_some() && state.epoch == head.epoch && state.next <= head.next;
        (continues, if continues { state.next } else { 0 }, state.unembedded().clone())
    };
    // A scope read from the start is built separately, so that recalls can keep using the old state.
    let mut fresh = (!continues).then(State::default);
    while next < head.next {
        let mut page = log.page(next, PAGE).await?;
        let Some(last) = page.last() else { break };
        next = keys::number(&last.key)?.saturating_add(1);
        // Records beyond this head belong to a later one.
        page.retain(|entry| keys::number(&entry.key).is_ok_and(|number| number < head.next));
        match &mut fresh {
            Some(state) => page.iter().try_for_each(|entry| state.apply(entry, model))?,
            None => {
                let mut state = slot.change();
                page.iter().try_for_each(|entry| state.apply(entry, model))?;
            }
        }
    }
    let mut state = slot.change();
    if let Some(fresh) = fresh {
        *state = fresh;
    }
    state.unembedded().warn(&known);
    (state.version, state.epoch, state.next) = (seen.version, head.epoch.clone(), head.next);
    state.settle();
    tracing::debug!(turns = state.turns(), bytes = state.bytes(), continues, "a conversation was read");
    Ok(())
}
