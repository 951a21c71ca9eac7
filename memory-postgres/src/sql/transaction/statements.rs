//! Running a statement in an open transaction, and rolling one back.

use std::future::Future;
use std::sync::Arc;

use memory_core::sql::TxId;
use memory_core::{Error, Result};
use memory_sql::{Ended, Engine as _};
use memory_validator::Mode;
use tokio::time::Instant;

use crate::sql::engine::{Engine, Held, Transaction, Transactions};
use crate::sql::errors;
use crate::sql::protocol::FORGET;
use crate::sql::protocol::deadline::{COMMIT_PATIENCE, limits};
use crate::sql::protocol::exchange::{Broken, Cancel, Exchange, never, run_own};
use crate::sql::protocol::results::Sink;
use crate::sql::statement::execute::{self, Asked, Failed, Opening, Start, error_of};
use crate::sql::statement::run::{Call, Ran, ran};

impl memory_sql::Engine for Engine {
    type Held = Held;
    type Interrupt = Arc<Cancel>;

    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn roll_back(this: &Arc<Self>, held: Held) {
        // Without a runtime the connection ends, and the server rolls back.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(roll_back(Arc::clone(this), held));
        }
    }

    async fn until<F>(&self, deadline: std::time::Instant, future: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        tokio::time::timeout_at(deadline.into(), future).await.ok()
    }
}

impl Engine {
    pub(in crate::sql) async fn run_within(
        self: &Arc<Self>,
        call: &Call,
        tx: &TxId,
        cancel: &Arc<Cancel>,
    ) -> Result<Ran> {
        let (transaction, turn) = self.turn(&call.scope, tx, call.deadline.into_std()).await?;
        let asked = self.asked(call).map_err(|error| error.with_detail("transaction", "open"))?;
        let mut held = transaction.take(cancel)?;
        let state = Arc::clone(&held.leased.state);
        let quota = asked.quota_check.and_then(|room| room.quota);
        let watching = quota.map(|quota| self.watch.over(&held.leased.session.pid, quota, cancel));
        let ran = self.within_once(call, &asked, &mut held, cancel).await;
        drop(watching);
        let answer = match ran {
            Ok(ran) => {
                self.put_back(&transaction, held);
                ran.map_err(|error| error.with_detail("transaction", "open"))
            }
            Err(error) => {
                drop(self.transactions.end(&transaction, Ended::ByTheEngine));
                let Held { leased, guard, .. } = held;
                leased.session.ask_to_end();
                self.pool.retire(leased);
                drop(guard);
                Err(error.with_detail("transaction", "lost"))
            }
        };
        drop(turn);
        self.settle_quota(&state, &asked, &answer).await;
        answer
    }

    /// `Ok` means that the transaction is still usable, whatever the statement's own outcome.
    async fn within_once(
        &self,
        call: &Call,
        asked: &Asked,
        held: &mut Held,
        cancel: &Arc<Cancel>,
    ) -> Result<Result<Ran>> {
        const UNDO: &str = "ROLLBACK TO SAVEPOINT mem_q; RELEASE SAVEPOINT mem_q";
        let reads = call.mode == Mode::Query;
        // Timeouts set for one statement apply to those that follow.
        let limits = if held.is_limited { Some(limits(call.deadline)) } else { self.limits(call.deadline) };
        held.is_limited = limits.is_some();
        let limits = limits.map(|limits| format!("; {limits}"));
        let rest = if reads { "; SET TRANSACTION READ ONLY" } else { "" };
        let opening = Opening {
            first: match &limits {
                Some(limits) => Start::Words(format!("SAVEPOINT mem_q{limits}{rest}")),
                None => Start::Within { reads },
            },
            again: Start::Words(format!(
                "ROLLBACK TO SAVEPOINT mem_q{}{rest}",
                limits.as_deref().unwrap_or_default()
            )),
            closing: if reads {
                &["ROLLBACK TO SAVEPOINT mem_q", "RELEASE SAVEPOINT mem_q"]
            } else {
                &["RELEASE SAVEPOINT mem_q"]
            },
            tail: &[],
        };
        let mut exchange = Exchange::new(&mut held.leased.session, cancel, call.deadline);
        let stepped = execute::run(&mut exchange, &self.parameter_types, &opening, asked).await;
        let (outcome, is_closed) = match stepped {
            Ok((heard, sink)) => {
                let error = error_of(&heard, &sink, &exchange, asked);
                if !matches!(heard.status, b'T' | b'E') {
                    return Err(errors::ends_transaction());
                }
                let is_closed = heard.fault.is_none() && heard.status == b'T';
                match error {
                    Some(error) => (Err(error), is_closed),
                    None if reads => {
                        let rows = Some(sink.rows().unwrap_or_default());
                        (Ok(Ran { rows, rows_affected: 0 }), is_closed)
                    }
                    None => (Ok(ran(&heard.tag, sink)), is_closed),
                }
            }
            Err(Failed::Statement(error)) => (Err(error), false),
            Err(Failed::Opening(_) | Failed::Unbound(_)) => return Err(Ended::ByTheEngine.error()),
            Err(Failed::Broken(broken)) => return Err(lost_within(broken, cancel)),
        };
        if !held.leased.session.is_past_cancelling().await {
            return Err(Ended::ByTheEngine.error());
        }
        if is_closed {
            return Ok(outcome);
        }
        // The time limit of the statement still applies until its savepoint is undone.
        for _ in 0..4 {
            let deadline = Instant::now() + COMMIT_PATIENCE;
            let heard = run_own(&mut held.leased.session, UNDO, deadline, &mut Sink::default())
                .await
                .map_err(|broken| lost_within(broken, cancel))?;
            match heard.fault {
                None if heard.status == b'T' => return Ok(outcome),
                Some(fault) if matches!(fault.state.as_str(), "57014" | "25P02") => {}
                _ => break,
            }
        }
        Err(Ended::ByTheEngine.error())
    }

    /// Returns to a transaction what a call took, or rolls it back if it has ended meanwhile.
    pub(crate) fn put_back(self: &Arc<Self>, transaction: &Transaction, held: Held) {
        if let Some(held) = self.transactions.put_back(transaction, held) {
            Self::roll_back(self, held);
        }
    }
}

fn lost_within(broken: Broken, cancel: &Cancel) -> Error {
    match (broken, cancel.why()) {
        (Broken::Late | Broken::Stopped, None) => errors::timeout(),
        (Broken::Late | Broken::Stopped, Some(_)) => errors::cancelled(),
        (Broken::Lost(_), _) => Error::transaction_lost(
            "the transaction's connection was lost and everything in it rolled back; begin another one",
        ),
    }
}

/// Rolls back what a transaction held, and releases the scope's write lock.
async fn roll_back(engine: Arc<Engine>, held: Held) {
    let Held { mut leased, guard, .. } = held;
    let session = &mut leased.session;
    session.query("ROLLBACK");
    session.query(FORGET);
    let mut exchange = Exchange::new(session, never(), Instant::now() + COMMIT_PATIENCE);
    let heard = async {
        exchange.send().await?;
        exchange.receive(&mut Sink::default()).await
    }
    .await;
    match heard {
        Ok(heard) if heard.fault.is_none() => {
            leased.session.unread += 1;
            engine.pool.rest(leased);
        }
        _ => engine.pool.retire(leased),
    }
    drop(guard);
}
