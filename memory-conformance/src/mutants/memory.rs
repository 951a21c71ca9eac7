//! What a mutant remembers between calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use memory_core::layer::{Fact, FactId};
use memory_core::sql::{Rows, TableInfo, TxId};
use memory_core::{Entry, Key, Quota, RunContext, Scope, TenantId};

/// What a mutant remembers, for each handle.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Remembered>);

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
    pub(super) since: Instant,
    pub(super) thread: ThreadId,
}

impl Memory {
    pub(super) fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
