//! Beginning and ending transactions, and the savepoints within them.

use std::sync::Arc;

use memory_core::sql::{TxId, TxState};
use memory_core::{Result, RunContext, Scope};
use memory_sql::{Begun, End, Ended, Engine as _, check_savepoints};
use tokio::time::Instant;

use crate::sql::engine::{Engine, Held, Transaction, detached};
use crate::sql::errors;
use crate::sql::protocol::FORGET;
use crate::sql::protocol::deadline::COMMIT_PATIENCE;
use crate::sql::protocol::exchange::{Broken, Cancel, run_own};
use crate::sql::protocol::results::Sink;

impl Engine {
    pub(crate) async fn begin(self: &Arc<Self>, run: &RunContext, scope: &Scope) -> Result<TxState> {
        self.wake()?;
        let deadline = self.deadline(None);
        let permit = self.transactions.permit()?;
        let (engine, scope, root_run) = (Arc::clone(self), scope.clone(), run.root_run.clone());
        let begun = detached(async move {
            let state = engine.pool.scope(&scope);
            let guard = engine.lock(&state, deadline).await?;
            let mut tries = 0;
            loop {
                let mut leased = engine.session(&state, deadline).await?;
                let generation = leased.session.generation;
                if let Err(error) = engine.admit(&state, generation).await {
                    engine.pool.rest(leased);
                    return Err(error);
                }
                let limits = engine.limits(deadline);
                let is_limited = limits.is_some();
                let limits = limits.map(|limits| format!("{limits}; ")).unwrap_or_default();
                let words = format!("BEGIN; {limits}SELECT mem_sql.enter({generation})");
                let refused = match run_own(&mut leased.session, &words, deadline, &mut Sink::default()).await
                {
                    Ok(heard) => match heard.fault {
                        None => {
                            let held = Held { leased, guard, is_limited };
                            let transaction = engine.transactions.enter(held, scope, root_run, permit);
                            return Ok(Begun::new(&engine, transaction));
                        }
                        Some(refused) if matches!(refused.state.as_str(), "55P03" | "57014") => {
                            engine.pool.retire(leased);
                            return Err(errors::locked());
                        }
                        Some(refused) => errors::statement(&refused),
                    },
                    Err(Broken::Late | Broken::Stopped) => {
                        leased.session.ask_to_end();
                        engine.pool.retire(leased);
                        return Err(errors::locked());
                    }
                    Err(Broken::Lost(lost)) => errors::lost(lost),
                };
                // The database was dropped, or the session ended while idle.
                state.forget(generation);
                engine.pool.retire(leased);
                tries += 1;
                if tries > 3 {
                    return Err(refused);
                }
                engine.used(&state.scope, true).await?;
            }
        })
        .await?;
        Ok(begun.keep())
    }

    /// Opens a savepoint.
    pub(crate) async fn nest(self: &Arc<Self>, scope: &Scope, parent: &TxId) -> Result<TxState> {
        self.within(scope, parent, |engine, transaction| {
            let depth = transaction.depth();
            let limit = engine.config.max_savepoints;
            check_savepoints(depth, limit)?;
            Ok((format!("SAVEPOINT mem_l{depth}"), depth + 1, Ended::RolledBack))
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
        self.within(scope, tx, move |_, transaction| {
            let left = transaction.depth().saturating_sub(1);
            Ok(match (end, left) {
                (End::Commit, 0) => {
                    ("SET LOCAL statement_timeout = 0; COMMIT".to_owned(), 0, Ended::Committed)
                }
                (End::Commit, _) => (format!("RELEASE SAVEPOINT mem_l{left}"), left, Ended::Committed),
                (End::RollBack, 0) => ("ROLLBACK".to_owned(), 0, Ended::RolledBack),
                (End::RollBack, _) => (
                    format!("ROLLBACK TO SAVEPOINT mem_l{left}; RELEASE SAVEPOINT mem_l{left}"),
                    left,
                    Ended::RolledBack,
                ),
            })
        })
        .await
    }

    /// Runs `plan` in a transaction once no other call uses it, to the end even if the caller goes away. It returns the
    /// SQL, the remaining depth, and how the transaction ended if that is 0.
    async fn within<F>(self: &Arc<Self>, scope: &Scope, tx: &TxId, plan: F) -> Result<TxState>
    where
        F: FnOnce(&Self, &Transaction) -> Result<(String, u32, Ended)> + Send + 'static,
    {
        self.wake()?;
        let deadline = self.deadline(None);
        let (engine, scope, tx) = (Arc::clone(self), scope.clone(), tx.clone());
        detached(async move {
            let (transaction, turn) = engine.turn(&scope, &tx, deadline.into_std()).await?;
            let (words, left, ended) =
                plan(&engine, &transaction).map_err(|error| error.with_detail("transaction", "open"))?;
            // Nothing interrupts this: it is short and atomic.
            let mut held = transaction.take(&Arc::new(Cancel::default()))?;
            let commits = left == 0 && ended == Ended::Committed;
            let deadline = Instant::now() + COMMIT_PATIENCE;
            let said = run_own(&mut held.leased.session, &words, deadline, &mut Sink::default()).await;
            let done = match said {
                Ok(heard) => match heard.fault {
                    // If the wait for a standby was cancelled, the server still reports a commit.
                    None if commits && heard.warned => Err(errors::outcome_unknown()),
                    None => Ok(()),
                    // A deferred constraint: nothing was committed, and the transaction is over.
                    Some(refused) if commits => Err(errors::statement(&refused)),
                    Some(_) => Err(Ended::ByTheEngine.error()),
                },
                Err(_) if commits => Err(errors::outcome_unknown()),
                Err(Broken::Late | Broken::Stopped) => Err(errors::timeout()),
                Err(Broken::Lost(_)) => Err(Ended::ByTheEngine.error()),
            };
            let state = TxState::new(transaction.id.clone(), left);
            let answer = match done {
                Ok(()) if left > 0 => {
                    transaction.set_depth(left);
                    engine.put_back(&transaction, held);
                    Ok(state)
                }
                Ok(()) => {
                    engine.transactions.end(&transaction, ended);
                    engine.forget_and_rest(held).await;
                    Ok(state)
                }
                Err(error) => {
                    engine.transactions.end(&transaction, Ended::ByTheEngine);
                    let Held { leased, guard, .. } = held;
                    engine.pool.retire(leased);
                    drop(guard);
                    Err(error.with_detail("transaction", "lost"))
                }
            };
            drop(turn);
            answer
        })
        .await
    }

    /// Returns a session to the pool after its transaction.
    async fn forget_and_rest(&self, held: Held) {
        let Held { mut leased, guard, .. } = held;
        leased.session.query(FORGET);
        match leased.session.flush().await {
            Ok(()) => {
                leased.session.unread += 1;
                self.pool.rest(leased);
            }
            Err(_) => self.pool.retire(leased),
        }
        drop(guard);
    }

    /// Ends the matching transactions, and waits until none of their statements is running.
    pub(crate) async fn end_those(
        self: &Arc<Self>,
        why: Ended,
        wanted: impl Fn(&Transaction) -> bool + Send,
    ) -> Result<()> {
        self.end_matching(why, self.deadline(None).into_std(), wanted).await
    }
}
