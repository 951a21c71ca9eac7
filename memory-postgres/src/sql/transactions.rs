//! Transactions that are open. Each owns its scope's lock for writing and a session.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::sql::TxId;
use memory_core::{Error, ErrorKind, Result, Scope, ScopeId};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::pool::{Leased, ScopeState};
use super::talk::{Cancel, Why};

/// How many of those that ended are remembered with the reason.
const REMEMBERED: usize = 1_024;

/// The lock of a scope for writing, held.
pub(crate) type Guard = OwnedMutexGuard<()>;

/// Why a transaction is no longer open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Committed,
    RolledBack,
    Idle,
    RunOver,
    Dropped,
    ByTheEngine,
    Abandoned,
    Unknown,
}

impl Ended {
    pub(crate) fn told(self) -> Error {
        let message = match self {
            Self::Committed => "the transaction was committed already; begin another one",
            Self::RolledBack => "the transaction was rolled back already; begin another one",
            Self::Idle => {
                "the transaction was rolled back since no call used it for too long; begin another one and do its work again"
            }
            Self::RunOver => "the transaction was rolled back as its run ended; begin another one",
            Self::Dropped => {
                "the transaction was rolled back as its scope's database was dropped; begin another one"
            }
            Self::ByTheEngine => {
                "the engine rolled the transaction back; begin another one and do its work again"
            }
            Self::Abandoned => {
                "the transaction was rolled back as nobody waited for its beginning; begin another one"
            }
            Self::Unknown => {
                "no such transaction is open in this scope; begin one, and carry the `tx` it answers"
            }
        };
        Error::new(ErrorKind::TransactionLost, message).with_detail("transaction", "lost")
    }
}

/// What a transaction holds between two calls.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) leased: Leased,
    pub(crate) guard: Guard,
    /// The session's own limits of time were lowered for a statement.
    pub(crate) is_limited: bool,
}

#[derive(Debug)]
struct Inner {
    /// `None` while a call uses it, and once it has ended.
    held: Option<Held>,
    depth: u32,
    used: Instant,
    ended: Option<Ended>,
    /// Ends the statement that runs in it.
    cancel: Option<Arc<Cancel>>,
}

/// One open transaction.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) id: TxId,
    pub(crate) scope: Scope,
    pub(crate) root_run: ScopeId,
    pub(crate) state: Arc<ScopeState>,
    /// One call at a time, first come first served.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    inner: Mutex<Inner>,
    _permit: OwnedSemaphorePermit,
}

impl Transaction {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn depth(&self) -> u32 {
        self.lock().depth
    }

    pub(crate) fn set_depth(&self, depth: u32) {
        self.lock().depth = depth;
    }

    /// Takes what it holds for a call, which the cancel ends.
    ///
    /// # Errors
    /// `transaction_lost` where it has ended.
    pub(crate) fn take(&self, cancel: &Arc<Cancel>) -> Result<Held> {
        let mut inner = self.lock();
        match (inner.held.take(), inner.ended) {
            (Some(held), None) => {
                inner.cancel = Some(Arc::clone(cancel));
                Ok(held)
            }
            (_, ended) => Err(ended.unwrap_or(Ended::Unknown).told()),
        }
    }
}

/// The open ones of a provider.
#[derive(Debug)]
pub(crate) struct Transactions {
    open: Mutex<HashMap<TxId, Arc<Transaction>>>,
    ended: Mutex<VecDeque<(TxId, Scope, Ended)>>,
    room: Arc<Semaphore>,
    limit: usize,
    idle: Duration,
    nonce: String,
    count: AtomicU64,
}

impl Transactions {
    /// `nonce` makes the names this provider's own.
    pub(crate) fn new(limit: usize, idle: Duration, nonce: String) -> Self {
        Self {
            open: Mutex::default(),
            ended: Mutex::default(),
            room: Arc::new(Semaphore::new(limit)),
            limit,
            idle,
            nonce,
            count: AtomicU64::new(0),
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<TxId, Arc<Transaction>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for one more.
    ///
    /// # Errors
    /// `transaction_limit`.
    pub(crate) fn room(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            Error::new(
                ErrorKind::TransactionLimit,
                format!(
                    "{} transactions are open already; commit or roll back one, or wait for one to end",
                    self.limit
                ),
            )
            .with_detail("limit", self.limit)
        })
    }

    /// Enters one whose connection has begun.
    pub(crate) fn enter(
        &self,
        held: Held,
        root_run: ScopeId,
        permit: OwnedSemaphorePermit,
    ) -> Arc<Transaction> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let state = Arc::clone(&held.leased.state);
        let inner = Inner { held: Some(held), depth: 1, used: Instant::now(), ended: None, cancel: None };
        let transaction = Arc::new(Transaction {
            id: TxId::new(format!("tx-{}-{number}", self.nonce)),
            scope: state.scope.clone(),
            root_run,
            state,
            turn: Arc::default(),
            inner: Mutex::new(inner),
            _permit: permit,
        });
        self.table().insert(transaction.id.clone(), Arc::clone(&transaction));
        transaction
    }

    /// The open transaction of this name in this scope.
    ///
    /// # Errors
    /// `transaction_lost`.
    pub(crate) fn find(&self, scope: &Scope, tx: &TxId) -> Result<Arc<Transaction>> {
        if let Some(found) = self.table().get(tx) {
            return if found.scope == *scope { Ok(Arc::clone(found)) } else { Err(Ended::Unknown.told()) };
        }
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let why = ended.iter().find(|(id, of, _)| id == tx && of == scope).map(|(_, _, why)| *why);
        Err(why.unwrap_or(Ended::Unknown).told())
    }

    /// Gives back what a call took. Where the transaction was ended meanwhile it is handed out, to be rolled back.
    pub(crate) fn put_back(&self, transaction: &Transaction, held: Held) -> Option<Held> {
        let mut inner = transaction.lock();
        inner.cancel = None;
        if inner.ended.is_some() {
            return Some(held);
        }
        inner.held = Some(held);
        inner.used = Instant::now();
        None
    }

    /// Ends one: no later call finds it. What it holds is handed out, to be rolled back; where a call uses it now, that
    /// call is told to end and does it.
    pub(crate) fn end(&self, transaction: &Transaction, why: Ended) -> Option<Held> {
        self.table().remove(&transaction.id);
        let mut inner = transaction.lock();
        if inner.ended.is_some() {
            return None;
        }
        inner.ended = Some(why);
        inner.depth = 0;
        if let Some(cancel) = inner.cancel.take()
            && !matches!(why, Ended::Committed | Ended::RolledBack)
        {
            cancel.call(Why::Unwanted);
        }
        let held = inner.held.take();
        drop(inner);
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() >= REMEMBERED {
            ended.pop_front();
        }
        ended.push_back((transaction.id.clone(), transaction.scope.clone(), why));
        held
    }

    /// Those that no call has used for too long; no call can begin to use them while the guards are held.
    pub(crate) fn idle(&self, now: Instant) -> Vec<(Arc<Transaction>, OwnedMutexGuard<()>)> {
        let table: Vec<_> = self.table().values().cloned().collect();
        let idle = |transaction: Arc<Transaction>| {
            let turn = Arc::clone(&transaction.turn).try_lock_owned().ok()?;
            let inner = transaction.lock();
            let is_idle = inner.held.is_some() && inner.used + self.idle <= now;
            drop(inner);
            is_idle.then_some((transaction, turn))
        };
        table.into_iter().filter_map(idle).collect()
    }

    /// How long to wait before looking for idle ones again.
    pub(crate) fn pause(&self) -> Duration {
        (self.idle / 8).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }

    pub(crate) fn matching(&self, wanted: impl Fn(&Transaction) -> bool) -> Vec<Arc<Transaction>> {
        self.table().values().filter(|transaction| wanted(transaction)).cloned().collect()
    }
}
