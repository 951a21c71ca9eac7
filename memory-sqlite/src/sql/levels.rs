//! Beginning and ending transactions, and the savepoints within them.

use std::sync::Arc;

use memory_core::sql::{TxId, TxState};
use memory_core::{Error, ErrorKind, Result, RunContext, Scope};
use tokio::sync::OwnedSemaphorePermit;

use super::engine::Engine;
use super::pool::{ScopeState, is_busy};
use super::transactions::{Ended, Guard, Held, Transaction};
use crate::sandbox::Cancel;

/// A transaction that somebody waits for. Where they went away it is rolled back at once.
struct Begun {
    engine: Arc<Engine>,
    transaction: Option<Arc<Transaction>>,
}

impl Begun {
    fn keep(mut self) -> TxState {
        match self.transaction.take() {
            Some(transaction) => TxState::new(transaction.id.clone(), 1),
            None => TxState::new(TxId::new(""), 0),
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take()
            && let Some(held) = self.engine.transactions.end(&transaction, Ended::Abandoned)
        {
            self.engine.roll_back(held);
        }
    }
}

enum Tried {
    Done(Result<Begun>),
    Busy(Guard, OwnedSemaphorePermit),
}

/// How a level ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    RollBack,
}

impl Engine {
    pub(crate) async fn begin(self: &Arc<Self>, run: &RunContext, scope: &Scope) -> Result<TxState> {
        self.wake()?;
        self.used(scope, true).await?;
        let deadline = self.deadline(None);
        let permit = self.transactions.room()?;
        let state = self.pool.scope(scope);
        let guard = self.lock(&state, deadline).await?;
        let mut held = Some((guard, permit));
        let mut times = 0;
        loop {
            let Some((guard, permit)) = held.take() else { return Err(Error::internal("a lock was lost")) };
            let (engine, state, root_run) = (Arc::clone(self), Arc::clone(&state), run.root_run.clone());
            let work = move || match engine.begin_write(&state, deadline) {
                Ok(conn) => {
                    let transaction = engine.transactions.enter(Held { conn, guard }, root_run, permit);
                    // Whoever looks after idle ones has slept while there were none.
                    engine.alarms.nudge();
                    Tried::Done(Ok(Begun { engine: Arc::clone(&engine), transaction: Some(transaction) }))
                }
                Err(error) if is_busy(&error) => Tried::Busy(guard, permit),
                Err(error) => Tried::Done(Err(error)),
            };
            match self.workers.run(deadline, work).await? {
                Tried::Done(begun) => return begun.map(Begun::keep),
                Tried::Busy(guard, permit) => held = Some((guard, permit)),
            }
            self.pause(&mut times, deadline).await?;
        }
    }

    /// Opens a savepoint.
    pub(crate) async fn nest(self: &Arc<Self>, scope: &Scope, parent: &TxId) -> Result<TxState> {
        let limit = self.config.max_savepoints;
        self.within(scope, parent, Ended::RolledBack, move |transaction, held| {
            let depth = transaction.depth();
            if depth > limit {
                return Err(Error::new(
                    ErrorKind::TransactionLimit,
                    format!("the transaction has {limit} savepoints already; commit or roll back one"),
                )
                .with_detail("limit", limit));
            }
            held.conn.sandbox.savepoint(depth)?;
            transaction.set_depth(depth + 1);
            Ok(TxState::new(transaction.id.clone(), depth + 1))
        })
        .await
    }

    /// Ends the innermost level.
    pub(crate) async fn end_level(self: &Arc<Self>, scope: &Scope, tx: &TxId, end: End) -> Result<TxState> {
        let ended = if end == End::Commit { Ended::Committed } else { Ended::RolledBack };
        // Before its end: until then it keeps its scope.
        self.used(scope, false).await?;
        self.within(scope, tx, ended, move |transaction, held| {
            let left = transaction.depth().saturating_sub(1);
            let sandbox = &mut held.conn.sandbox;
            match (end, left) {
                (End::Commit, 0) => {
                    sandbox.commit()?;
                }
                (End::Commit, _) => sandbox.release(left)?,
                (End::RollBack, 0) => sandbox.rollback()?,
                (End::RollBack, _) => {
                    sandbox.rollback_to(left)?;
                    sandbox.release(left)?;
                }
            }
            transaction.set_depth(left);
            Ok(TxState::new(transaction.id.clone(), left))
        })
        .await
    }

    /// Does something to a transaction in its turn, to the end even where nobody waits for it any more.
    async fn within<F>(self: &Arc<Self>, scope: &Scope, tx: &TxId, ended: Ended, work: F) -> Result<TxState>
    where
        F: FnOnce(&Arc<Transaction>, &mut Held) -> Result<TxState> + Send + 'static,
    {
        self.wake()?;
        let deadline = self.deadline(None);
        let (transaction, turn) = self.turn(scope, tx, deadline).await?;
        let engine = Arc::clone(self);
        self.workers
            .run(deadline, move || {
                let done = engine.change(&transaction, ended, work);
                drop(turn);
                done
            })
            .await?
    }

    fn change<F>(self: &Arc<Self>, transaction: &Arc<Transaction>, ended: Ended, work: F) -> Result<TxState>
    where
        F: FnOnce(&Arc<Transaction>, &mut Held) -> Result<TxState>,
    {
        // It is over quickly, and ends whole or not at all.
        let mut held = transaction.take(&Cancel::default())?;
        let done = work(transaction, &mut held);
        let lives = held.conn.sandbox.in_transaction();
        match done {
            Ok(state) if state.depth == 0 => {
                self.transactions.end(transaction, ended);
                let Held { conn, guard } = held;
                self.wrote(conn, guard);
                Ok(state)
            }
            Ok(state) => {
                self.after(transaction, held);
                Ok(state)
            }
            Err(error) => {
                let error = error.with_detail("transaction", if lives { "open" } else { "lost" });
                self.after(transaction, held);
                Err(error)
            }
        }
    }

    /// Ends the transactions that are wanted, and waits until none of their statements runs any more.
    pub(crate) async fn end_those(
        self: &Arc<Self>,
        why: Ended,
        wanted: impl Fn(&Transaction) -> bool,
    ) -> Result<()> {
        let deadline = self.deadline(None);
        for transaction in self.transactions.matching(wanted) {
            if let Some(held) = self.transactions.end(&transaction, why) {
                self.roll_back(held);
            }
            let turn = Arc::clone(&transaction.turn);
            if self.until(deadline, turn.lock_owned()).await.is_none() {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    "a statement of a transaction that was to end did not; it is rolled back as it ends",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn of_scope(state: &ScopeState) -> impl Fn(&Transaction) -> bool {
        let digest = state.digest;
        move |transaction| transaction.state.digest == digest
    }
}
