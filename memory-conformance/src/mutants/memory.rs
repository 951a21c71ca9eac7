//! A mutant's memory between calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use memory_core::layer::{Fact, FactId};
use memory_core::sql::{Rows, TableInfo, TxId};
use memory_core::{Clock as _, Entry, Key, Quota, RunContext, Scope, TenantId, Timestamp};

use crate::harness::fixture::{Fixture, TestClock};

/// A mutant's memory for one handle.
#[derive(Debug, Default)]
pub(super) struct Memory {
    remembered: Mutex<Remembered>,
    clock: Arc<TestClock>,
    small_caches: bool,
}

#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) entries: BTreeMap<(Scope, Key), Entry>,
    pub(super) tenants: BTreeSet<TenantId>,
    pub(super) quotas: BTreeMap<Scope, Quota>,
    pub(super) positions: BTreeMap<String, usize>,
    pub(super) scopes: BTreeSet<Scope>,
    pub(super) flag: bool,
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
        }
    }

    /// Whether the handle was opened with caches as small as can be.
    pub(super) fn has_small_caches(&self) -> bool {
        self.small_caches
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
