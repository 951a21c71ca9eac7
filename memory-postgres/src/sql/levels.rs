//! Beginning and ending transactions, and the savepoints within them.

use std::sync::Arc;

use memory_core::sql::{TxId, TxState};
use memory_core::{Error, ErrorKind, Result, RunContext, Scope};
use tokio::time::{Instant, timeout_at};

use super::engine::Engine;
use super::fault;
use super::pool::ScopeState;
use super::statements::{COMMIT_PATIENCE, FORGET, detached, uncalled};
use super::talk::{Broken, Cancel, Heard, Talk};
use super::transactions::{Ended, Held, Transaction};
use super::values::Sink;
use super::wire::Session;

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

/// How a level ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    RollBack,
}

/// Runs words of the runtime's own.
async fn say(session: &mut Session, words: &str, deadline: Instant) -> std::result::Result<Heard, Broken> {
    let mut talk = Talk::new(session, uncalled(), deadline);
    talk.session.query(words);
    talk.send().await?;
    talk.hear(&mut Sink::default()).await
}

impl Engine {
    pub(crate) async fn begin(self: &Arc<Self>, run: &RunContext, scope: &Scope) -> Result<TxState> {
        self.wake()?;
        let deadline = self.deadline(None);
        let permit = self.transactions.room()?;
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
                let refused = match say(&mut leased.session, &words, deadline).await {
                    Ok(heard) => match heard.fault {
                        None => {
                            let transaction = engine.transactions.enter(
                                Held { leased, guard, is_limited },
                                root_run,
                                permit,
                            );
                            return Ok(Begun { engine, transaction: Some(transaction) });
                        }
                        Some(refused) if matches!(refused.state.as_str(), "55P03" | "57014") => {
                            engine.pool.retire(leased);
                            return Err(fault::waited());
                        }
                        Some(refused) => fault::statement(&refused),
                    },
                    Err(Broken::Late) => {
                        leased.session.ask_to_end();
                        engine.pool.retire(leased);
                        return Err(fault::waited());
                    }
                    Err(Broken::Lost(lost)) => fault::lost(lost),
                };
                // Dropped since, or a session that ended while it was at rest.
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
            if depth > limit {
                return Err(Error::new(
                    ErrorKind::TransactionLimit,
                    format!("the transaction has {limit} savepoints already; commit or roll back one"),
                )
                .with_detail("limit", limit));
            }
            Ok((format!("SAVEPOINT mem_l{depth}"), depth + 1, Ended::RolledBack))
        })
        .await
    }

    /// Ends the innermost level.
    pub(crate) async fn end_level(self: &Arc<Self>, scope: &Scope, tx: &TxId, end: End) -> Result<TxState> {
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

    /// Does something to a transaction in its turn, to the end even where nobody waits for it any more: the words, the depth
    /// that is left, and what it is if that is 0.
    async fn within<F>(self: &Arc<Self>, scope: &Scope, tx: &TxId, plan: F) -> Result<TxState>
    where
        F: FnOnce(&Self, &Transaction) -> Result<(String, u32, Ended)> + Send + 'static,
    {
        self.wake()?;
        let deadline = self.deadline(None);
        let (engine, scope, tx) = (Arc::clone(self), scope.clone(), tx.clone());
        detached(async move {
            let (transaction, turn) = engine.turn(&scope, &tx, deadline).await?;
            let (words, left, ended) =
                plan(&engine, &transaction).map_err(|error| error.with_detail("transaction", "open"))?;
            // It is over quickly, and ends whole or not at all.
            let mut held = transaction.take(&Arc::new(Cancel::default()))?;
            let commits = left == 0 && ended == Ended::Committed;
            let said = say(&mut held.leased.session, &words, Instant::now() + COMMIT_PATIENCE).await;
            let done = match said {
                Ok(heard) => match heard.fault {
                    // A wait for a standby that was cancelled ends like a commit.
                    None if commits && heard.warned => Err(fault::outcome_unknown()),
                    None => Ok(()),
                    // A deferred constraint: nothing was committed, and the transaction is over.
                    Some(refused) if commits => Err(fault::statement(&refused)),
                    Some(_) => Err(Ended::ByTheEngine.told()),
                },
                Err(_) if commits => Err(fault::outcome_unknown()),
                Err(Broken::Late) => Err(fault::timeout()),
                Err(Broken::Lost(_)) => Err(Ended::ByTheEngine.told()),
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

    /// Lays a session to rest whose transaction is over.
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
            if timeout_at(deadline, turn.lock_owned()).await.is_err() {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    "a statement of a transaction that was to end did not; it is rolled back as it ends",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn of_scope(state: &Arc<ScopeState>) -> impl Fn(&Transaction) -> bool {
        let state = Arc::clone(state);
        move |transaction| transaction.state.hex == state.hex
    }
}
