//! Open transactions. Each owns its scope's write lock and a connection; no thread waits with it.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use memory_core::sql::TxId;
use memory_core::{Error, ErrorKind, Result, Scope, ScopeId};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

/// How many ended transactions are remembered with the reason of their end.
const REMEMBERED: usize = 1_024;

/// A scope's write lock, or a transaction's turn, held.
pub type WriteLock = OwnedMutexGuard<()>;

/// Why a transaction is no longer open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was committed.
    Committed,
    /// It was rolled back.
    RolledBack,
    /// No call used it for too long.
    Idle,
    /// Its run ended.
    RunOver,
    /// The scope's database was dropped.
    Dropped,
    /// The engine rolled it back.
    ByTheEngine,
    /// The caller went away while it began.
    Abandoned,
    /// No transaction of this id is known in the scope.
    Unknown,
}

impl Ended {
    /// The error for a call that still names the transaction.
    #[must_use]
    pub fn error(self) -> Error {
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
        Error::transaction_lost(message).with_detail("transaction", "lost")
    }
}

/// Ends the statement that runs.
pub trait Interrupt: Send + Sync + 'static {
    /// Tells the statement to end.
    fn interrupt(&self);
}

impl<I: Interrupt> Interrupt for Arc<I> {
    fn interrupt(&self) {
        I::interrupt(self);
    }
}

struct Inner<H, I> {
    /// `None` while a call uses it, and once the transaction has ended.
    held: Option<H>,
    depth: u32,
    used: Instant,
    ended: Option<Ended>,
    /// Ends the statement that runs in it.
    interrupt: Option<I>,
}

/// One open transaction. `H` is what it holds between two calls.
pub struct Transaction<H, I> {
    /// Its id.
    pub id: TxId,
    /// The scope whose write lock it holds.
    pub scope: Scope,
    /// The run that began it.
    pub root_run: ScopeId,
    /// One call at a time, first come first served.
    pub turn: Arc<tokio::sync::Mutex<()>>,
    inner: Mutex<Inner<H, I>>,
    _permit: OwnedSemaphorePermit,
}

impl<H, I> fmt::Debug for Transaction<H, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<H, I: Interrupt + Clone> Transaction<H, I> {
    fn lock(&self) -> MutexGuard<'_, Inner<H, I>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The transaction itself counts as 1, each savepoint one more; 0 once it has ended.
    pub fn depth(&self) -> u32 {
        self.lock().depth
    }

    /// Notes that a savepoint was opened or ended.
    pub fn set_depth(&self, depth: u32) {
        self.lock().depth = depth;
    }

    /// Looks at what the transaction holds; `None`: a call uses it, or it has ended.
    pub fn look<T>(&self, look: impl FnOnce(&H) -> T) -> Option<T> {
        self.lock().held.as_ref().map(look)
    }

    /// Takes what the transaction holds for a call, which the interrupt ends.
    ///
    /// # Errors
    /// `transaction_lost` where it has ended.
    pub fn take(&self, interrupt: &I) -> Result<H> {
        let mut inner = self.lock();
        match (inner.held.take(), inner.ended) {
            (Some(held), None) => {
                inner.interrupt = Some(interrupt.clone());
                Ok(held)
            }
            (_, ended) => Err(ended.unwrap_or(Ended::Unknown).error()),
        }
    }
}

/// The open transactions of a provider.
pub struct Transactions<H, I> {
    open: Mutex<HashMap<TxId, Arc<Transaction<H, I>>>>,
    ended: Mutex<VecDeque<(TxId, Scope, Ended)>>,
    permits: Arc<Semaphore>,
    limit: usize,
    idle: Duration,
    nonce: String,
    count: AtomicU64,
}

impl<H, I> fmt::Debug for Transactions<H, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactions").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<H, I: Interrupt + Clone> Transactions<H, I> {
    /// At most `limit` at once; one that no call has used for `idle` may be ended. `nonce` makes the ids this provider's
    /// own.
    #[must_use]
    pub fn new(limit: usize, idle: Duration, nonce: String) -> Self {
        Self {
            open: Mutex::default(),
            ended: Mutex::default(),
            permits: Arc::new(Semaphore::new(limit)),
            limit,
            idle,
            nonce,
            count: AtomicU64::new(0),
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<TxId, Arc<Transaction<H, I>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for one more.
    ///
    /// # Errors
    /// `transaction_limit`.
    pub fn permit(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
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

    /// Registers a transaction whose connection has begun.
    pub fn enter(
        &self,
        held: H,
        scope: Scope,
        root_run: ScopeId,
        permit: OwnedSemaphorePermit,
    ) -> Arc<Transaction<H, I>> {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let inner = Inner { held: Some(held), depth: 1, used: Instant::now(), ended: None, interrupt: None };
        let transaction = Arc::new(Transaction {
            id: TxId::new(format!("tx-{}-{number}", self.nonce)),
            scope,
            root_run,
            turn: Arc::default(),
            inner: Mutex::new(inner),
            _permit: permit,
        });
        self.table().insert(transaction.id.clone(), Arc::clone(&transaction));
        transaction
    }

    /// The open transaction of this id in this scope.
    ///
    /// # Errors
    /// `transaction_lost`.
    pub fn find(&self, scope: &Scope, tx: &TxId) -> Result<Arc<Transaction<H, I>>> {
        if let Some(found) = self.table().get(tx) {
            return if found.scope == *scope { Ok(Arc::clone(found)) } else { Err(Ended::Unknown.error()) };
        }
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let why = ended.iter().find(|(id, of, _)| id == tx && of == scope).map(|(_, _, why)| *why);
        Err(why.unwrap_or(Ended::Unknown).error())
    }

    /// Gives back what a call took. Where the transaction was ended meanwhile it is handed out, to be rolled back.
    pub fn put_back(&self, transaction: &Transaction<H, I>, held: H) -> Option<H> {
        let mut inner = transaction.lock();
        inner.interrupt = None;
        if inner.ended.is_some() {
            return Some(held);
        }
        inner.held = Some(held);
        inner.used = Instant::now();
        None
    }

    /// Ends a transaction: no later call finds it. What it holds is handed out, to be rolled back. If a call uses it now,
    /// that call is interrupted and rolls back itself.
    pub fn end(&self, transaction: &Transaction<H, I>, why: Ended) -> Option<H> {
        self.table().remove(&transaction.id);
        let mut inner = transaction.lock();
        if inner.ended.is_some() {
            return None;
        }
        inner.ended = Some(why);
        inner.depth = 0;
        if let Some(interrupt) = inner.interrupt.take()
            && !matches!(why, Ended::Committed | Ended::RolledBack)
        {
            interrupt.interrupt();
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

    /// The transactions that no call has used for too long; no call can begin to use them while the locks are held.
    pub fn idle(&self, now: Instant) -> Vec<(Arc<Transaction<H, I>>, WriteLock)> {
        let idle = |transaction: Arc<Transaction<H, I>>| {
            let turn = Arc::clone(&transaction.turn).try_lock_owned().ok()?;
            let inner = transaction.lock();
            let is_idle = inner.held.is_some() && inner.used + self.idle <= now;
            drop(inner);
            is_idle.then_some((transaction, turn))
        };
        self.matching(|_| true).into_iter().filter_map(idle).collect()
    }

    /// How long to wait between two looks for idle ones.
    pub fn idle_check_interval(&self) -> Duration {
        (self.idle / 8).clamp(Duration::from_millis(1), Duration::from_secs(1))
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        self.table().len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.table().is_empty()
    }

    /// The open transactions that are wanted.
    pub fn matching(&self, wanted: impl Fn(&Transaction<H, I>) -> bool) -> Vec<Arc<Transaction<H, I>>> {
        self.table().values().filter(|transaction| wanted(transaction)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Flag(Arc<std::sync::atomic::AtomicBool>);

    impl Interrupt for Flag {
        fn interrupt(&self) {
            self.0.store(true, Ordering::Release);
        }
    }

    fn open() -> (Transactions<u32, Flag>, Arc<Transaction<u32, Flag>>) {
        let transactions = Transactions::new(1, Duration::ZERO, "n".to_owned());
        let scope = Scope::agent("public", "a").unwrap();
        let permit = transactions.permit().unwrap();
        let transaction = transactions.enter(7, scope, ScopeId::new("run").unwrap(), permit);
        (transactions, transaction)
    }

    #[test]
    fn an_ended_transaction_says_why_and_frees_its_permit() {
        let (transactions, transaction) = open();
        assert!(transactions.permit().is_err());
        assert_eq!(transactions.end(&transaction, Ended::Idle), Some(7));
        let error = transactions.find(&transaction.scope, &transaction.id).unwrap_err();
        assert_eq!(error.message(), Ended::Idle.error().message());
        drop(transaction);
        assert!(transactions.is_empty() && transactions.permit().is_ok());
    }

    #[test]
    fn a_call_that_uses_an_ended_transaction_is_interrupted_and_gets_its_session_back() {
        let (transactions, transaction) = open();
        let flag = Flag::default();
        let held = transaction.take(&flag).unwrap();
        assert!(transactions.idle(Instant::now()).is_empty(), "a call uses it");
        assert_eq!(transactions.end(&transaction, Ended::Dropped), None);
        assert!(flag.0.load(Ordering::Acquire));
        assert_eq!(transactions.put_back(&transaction, held), Some(7));
        assert!(transaction.take(&flag).is_err());
    }

    #[test]
    fn a_transaction_is_found_in_its_own_scope_alone() {
        let (transactions, transaction) = open();
        let other = Scope::agent("public", "b").unwrap();
        assert!(transactions.find(&other, &transaction.id).is_err());
        assert!(transactions.find(&transaction.scope, &transaction.id).is_ok());
        assert_eq!(transactions.idle(Instant::now()).len(), 1);
    }
}
