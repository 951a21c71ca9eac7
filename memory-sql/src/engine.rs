//! What every store's engine does with its open transactions.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use memory_core::sql::{TxId, TxState};
use memory_core::{Error, ErrorKind, Result, Scope};

use crate::transactions::{Ended, Interrupt, Transaction, Transactions, WriteLock};

/// How the innermost level of a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// What it did is kept.
    Commit,
    /// What it did is undone.
    RollBack,
}

/// A transaction, and its turn, which no other call has until it is dropped.
pub type Turn<E> = (Arc<Transaction<<E as Engine>::Held, <E as Engine>::Interrupt>>, WriteLock);

/// A store's engine, as far as open transactions go.
pub trait Engine: Send + Sync + Sized + 'static {
    /// What a transaction holds between two calls.
    type Held: Send + 'static;
    /// What ends a statement that runs.
    type Interrupt: Interrupt + Clone;

    /// The open transactions.
    fn transactions(&self) -> &Transactions<Self::Held, Self::Interrupt>;

    /// Rolls back what a transaction held, and releases the scope's write lock. Does not wait for it.
    fn roll_back(this: &Arc<Self>, held: Self::Held);

    /// Waits for a future until a deadline; `None`: the deadline came first.
    fn until<F>(&self, deadline: Instant, future: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future + Send,
        F::Output: Send;

    /// The transaction, once no other call uses it.
    ///
    /// # Errors
    /// `transaction_lost`; `timeout`.
    fn turn(
        &self,
        scope: &Scope,
        tx: &TxId,
        deadline: Instant,
    ) -> impl Future<Output = Result<Turn<Self>>> + Send {
        async move {
            let transaction = self.transactions().find(scope, tx)?;
            let turn =
                self.until(deadline, Arc::clone(&transaction.turn).lock_owned()).await.ok_or_else(|| {
                    Error::timeout(
                        "another call uses this transaction for longer than the deadline; nothing was done, try again",
                )
                .with_detail("transaction", "open")
                })?;
            // It may have ended while this call waited.
            self.transactions().find(scope, tx)?;
            Ok((transaction, turn))
        }
    }

    /// Ends the transactions that are wanted, and waits until none of their statements runs any more.
    ///
    /// # Errors
    /// `timeout`.
    fn end_matching(
        self: &Arc<Self>,
        why: Ended,
        deadline: Instant,
        wanted: impl Fn(&Transaction<Self::Held, Self::Interrupt>) -> bool + Send,
    ) -> impl Future<Output = Result<()>> + Send {
        async move {
            for transaction in self.transactions().matching(wanted) {
                if let Some(held) = self.transactions().end(&transaction, why) {
                    Self::roll_back(self, held);
                }
                let turn = Arc::clone(&transaction.turn);
                if self.until(deadline, turn.lock_owned()).await.is_none() {
                    return Err(Error::timeout(
                        "a statement of a transaction that was to end did not; it is rolled back as it ends",
                    ));
                }
            }
            Ok(())
        }
    }

    /// Rolls back the transactions that no call has used for too long.
    fn end_idle(self: &Arc<Self>) {
        for (transaction, turn) in self.transactions().idle(Instant::now()) {
            if let Some(held) = self.transactions().end(&transaction, Ended::Idle) {
                Self::roll_back(self, held);
            }
            drop(turn);
        }
    }
}

/// A transaction that has begun while its caller waits. If the caller goes away first, it is rolled back.
pub struct Begun<E: Engine> {
    engine: Arc<E>,
    transaction: Option<Arc<Transaction<E::Held, E::Interrupt>>>,
}

impl<E: Engine> Begun<E> {
    /// Guards a transaction until its caller has it.
    pub fn new(engine: &Arc<E>, transaction: Arc<Transaction<E::Held, E::Interrupt>>) -> Self {
        Self { engine: Arc::clone(engine), transaction: Some(transaction) }
    }

    /// The caller has it.
    pub fn keep(mut self) -> TxState {
        match self.transaction.take() {
            Some(transaction) => TxState::new(transaction.id.clone(), 1),
            None => TxState::new(TxId::new(""), 0),
        }
    }
}

impl<E: Engine> Drop for Begun<E> {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take()
            && let Some(held) = self.engine.transactions().end(&transaction, Ended::Abandoned)
        {
            E::roll_back(&self.engine, held);
        }
    }
}

/// Checks that a transaction of this depth may open one more savepoint.
///
/// # Errors
/// `transaction_limit`.
pub fn check_savepoints(depth: u32, limit: u32) -> Result<()> {
    if depth <= limit {
        return Ok(());
    }
    let message = format!("the transaction has {limit} savepoints already; commit or roll back one");
    Err(Error::new(ErrorKind::TransactionLimit, message).with_detail("limit", limit))
}
