//! A mutant's memory between calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use memory_core::layer::{AddStatus, EventId, Fact, FactId};
use memory_core::sql::{Rows, TableInfo, TxId, TxState};
use memory_core::{
    Clock as _, Embedder as _, Entry, Key, Quota, Reply, Request, RunContext, Scope, TenantId, Timestamp,
};

use crate::harness::embedder::TestEmbedder;
use crate::harness::fixture::{Fixture, TestClock};

/// A mutant's memory for one handle.
#[derive(Debug, Default)]
pub(super) struct Memory {
    remembered: Mutex<Remembered>,
    clock: Arc<TestClock>,
    small_caches: bool,
    another_model: bool,
}

#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) entries: BTreeMap<(Scope, Key), Entry>,
    pub(super) tenants: BTreeSet<TenantId>,
    pub(super) quotas: BTreeMap<Scope, Quota>,
    pub(super) positions: BTreeMap<String, usize>,
    pub(super) scopes: BTreeSet<Scope>,
    pub(super) used: BTreeMap<Scope, Timestamp>,
    pub(super) flag: bool,
    /// How often the handle was closed.
    pub(super) closed: u32,
    pub(super) notes: BTreeMap<String, u64>,
    pub(super) rows: BTreeMap<String, Rows>,
    pub(super) tables: BTreeMap<Scope, Vec<TableInfo>>,
    pub(super) dumped: Option<Scope>,
    pub(super) open: Vec<Open>,
    pub(super) facts: BTreeMap<Scope, Vec<Fact>>,
    pub(super) events: Vec<(String, Scope)>,
    pub(super) ids: BTreeSet<FactId>,
    pub(super) texts: BTreeSet<(Scope, String)>,
}

/// A transaction that was opened through a mutant.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) tx: TxId,
    pub(super) scope: Scope,
    pub(super) run: RunContext,
    pub(super) depth: u32,
    pub(super) since: Timestamp,
    pub(super) thread: ThreadId,
}

impl Memory {
    /// Remembers nothing yet.
    pub(super) fn new(fixture: &Fixture) -> Self {
        Self {
            remembered: Mutex::default(),
            clock: Arc::clone(&fixture.clock),
            small_caches: fixture.small_caches,
            another_model: fixture.embedder.model() != TestEmbedder::new().model(),
        }
    }

    /// Whether the handle was opened with another model than the usual one.
    pub(super) fn has_another_model(&self) -> bool {
        self.another_model
    }

    /// Whether the handle was opened with the smallest possible caches.
    pub(super) fn has_small_caches(&self) -> bool {
        self.small_caches
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed > 0
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Records what any mutant may need from a request: the scope of an `add`. Returns whose answer it will be.
    pub(super) fn record_request(&self, request: &Request) -> Option<(RunContext, Scope)> {
        match request {
            Request::Add { run, scope, .. } => {
                self.lock().scopes.insert(scope.clone());
                Some((run.clone(), scope.clone()))
            }
            Request::Begin { run, scope, .. } => Some((run.clone(), scope.clone())),
            _ => None,
        }
    }

    /// Records what an answer reveals: events, and transactions that began or ended.
    pub(super) fn record_reply(&self, reply: &Reply, whose: Option<(RunContext, Scope)>) {
        match (reply, whose) {
            (Reply::Add(outcome), Some((_, scope))) => {
                if let AddStatus::Pending(Some(event)) = &outcome.status {
                    self.lock().events.push((event.as_str().to_owned(), scope));
                }
            }
            (Reply::Begin(TxState { tx, depth, .. }), Some((run, scope))) if self.open_as(tx).is_none() => {
                let (tx, depth, since, thread) = (tx.clone(), *depth, self.now(), thread::current().id());
                self.lock().open.push(Open { tx, scope, run, depth, since, thread });
            }
            (Reply::Begin(state) | Reply::Commit(state) | Reply::Rollback(state), _) => {
                let mut memory = self.lock();
                memory.open.retain(|open| open.tx != state.tx || state.depth > 0);
                memory
                    .open
                    .iter_mut()
                    .filter(|open| open.tx == state.tx)
                    .for_each(|open| open.depth = state.depth);
            }
            _ => {}
        }
    }

    /// Every scope named in an `add`, through any handle.
    pub(super) fn scopes_added_to(&self) -> Vec<Scope> {
        self.lock().scopes.iter().cloned().collect()
    }

    /// The scope of an event.
    pub(super) fn scope_of(&self, event: &EventId) -> Option<Scope> {
        self.lock().events.iter().find(|(id, _)| id == event.as_str()).map(|(_, scope)| scope.clone())
    }

    /// The open transaction of a scope.
    pub(super) fn open_in(&self, scope: &Scope) -> Option<Open> {
        self.lock().open.iter().find(|open| open.scope == *scope).cloned()
    }

    /// The open transaction with that id.
    pub(super) fn open_as(&self, tx: &TxId) -> Option<Open> {
        self.lock().open.iter().find(|open| open.tx == *tx).cloned()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
