//! Beginning and ending transactions, and the savepoints within them.

use std::sync::Arc;

use memory_core::sql::{TxId, TxState};
use memory_core::{Error, Result, RunContext, Scope};
use memory_sql::{Begun, End, Ended, Engine as _, WriteLock, check_savepoints};
use tokio::sync::OwnedSemaphorePermit;

use super::connections::is_busy;
use super::engine::{Engine, Held, Transaction};
use super::statements::here;
use crate::sandbox::Cancel;

enum Tried {
    Done(Result<Begun<Engine>>),
    Busy(WriteLock, OwnedSemaphorePermit),
}

impl Engine {
    pub(crate) async fn begin(self: &Arc<Self>, run: &RunContext, scope: &Scope) -> Result<TxState> {
        self.wake()?;
        self.used(scope, true).await?;
        let deadline = self.deadline(None);
        let permit = self.transactions.permit()?;
        let state = self.pool.scope(scope);
        let guard = self.lock(&state, deadline).await?;
        let mut held = Some((guard, permit));
        let mut times = 0;
        loop {
            let Some((guard, permit)) = held.take() else { return Err(Error::internal("a lock was lost")) };
            let (engine, state, root_run) = (Arc::clone(self), Arc::clone(&state), run.root_run.clone());
            let work = move || match engine.begin_write(&state, deadline) {
                Ok(conn) => {
                    let scope = state.scope.clone();
                    let held = Held { conn, guard };
                    let transaction = engine.transactions.enter(held, scope, root_run, permit);
                    // The keeper sleeps while no transaction is open.
                    engine.timers.nudge();
                    Tried::Done(Ok(Begun::new(&engine, transaction)))
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
            check_savepoints(depth, limit)?;
            held.conn.sandbox.savepoint(depth)?;
            transaction.set_depth(depth + 1);
            Ok(TxState::new(transaction.id.clone(), depth + 1))
        })
        .await
    }

    /// Ends the innermost savepoint, or the transaction itself.
    pub(crate) async fn end_innermost(
        self: &Arc<Self>,
        scope: &Scope,
        tx: &TxId,
        end: End,
    ) -> Result<TxState> {
        let ended = if end == End::Commit { Ended::Committed } else { Ended::RolledBack };
        // Before the transaction ends, because until then its scope cannot be evicted.
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

    /// Changes a transaction once no other call uses it. Runs to the end even if the caller goes away.
    async fn within<F>(self: &Arc<Self>, scope: &Scope, tx: &TxId, ended: Ended, work: F) -> Result<TxState>
    where
        F: FnOnce(&Arc<Transaction>, &mut Held) -> Result<TxState> + Send + 'static,
    {
        self.wake()?;
        let deadline = self.deadline(None);
        let (transaction, turn) = self.turn(scope, tx, deadline).await?;
        // A savepoint is quick; the commit of the whole may wait for the disk.
        if self.is_inline_of_host(scope) && (ended == Ended::RolledBack || transaction.depth() > 1) {
            let done = here(|| self.change(&transaction, ended, work));
            drop(turn);
            return done;
        }
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
        // Nothing interrupts this: it is short and atomic.
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

    /// Ends the matching transactions, and waits until none of their statements is running.
    pub(crate) async fn end_those(
        self: &Arc<Self>,
        why: Ended,
        wanted: impl Fn(&Transaction) -> bool + Send,
    ) -> Result<()> {
        self.end_matching(why, self.deadline(None), wanted).await
    }
}
