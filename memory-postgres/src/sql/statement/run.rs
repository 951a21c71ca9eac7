//! Runs one statement on its own.

use std::sync::Arc;
use std::time::Duration;

use memory_core::sql::{Rows, SqlValue, StatementOptions};
use memory_core::{Error, Result, Scope, ScopeKind};
use memory_sql::WriteLock;
use memory_validator::{Mode, StatementKind};
use tokio::time::{Instant, timeout_at};

use crate::sql::engine::{Engine, detached};
use crate::sql::errors;
use crate::sql::pool::{Leased, ScopeState};
use crate::sql::protocol::deadline::limits;
use crate::sql::protocol::exchange::{Answer, Broken, Cancel, Exchange, Why};
use crate::sql::protocol::results::{Sink, affected};
use crate::sql::protocol::{FORGET, Lost, Session};
use crate::sql::statement::execute::{self, Asked, Failed, Opening, QuotaCheck, Start, error_of};
use crate::sql::statement::verdicts::Judged;

/// How often to retry a statement that has not run, on another session.
const TRIES: u32 = 4;
/// What resets a session after a statement that reads or writes rows. After any other kind of statement, everything is
/// reset.
struct Tails {
    reads: &'static [&'static str],
    writes: &'static [&'static str],
}

/// Functions that agents can call leave nothing but the positions of sequences, which are reset before a statement that
/// reads them.
const OF_CLOSED: Tails = Tails { reads: &[], writes: &[] };
/// Resets the positions of sequences.
const FORGET_PLACES: &str = "DISCARD SEQUENCES";
/// For servers where only the validator prevents agents from leaving settings and locks.
const OF_OPEN: Tails = Tails {
    reads: &["SELECT pg_catalog.pg_advisory_unlock_all()"],
    writes: &["SELECT pg_catalog.pg_advisory_unlock_all()", "RESET ALL", "DISCARD SEQUENCES", "DISCARD TEMP"],
};
/// After other statements everything is reset.
const OF_OTHERS: Tails = Tails { reads: &[], writes: &[] };

/// A call of `exec` or `query`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) scope: Scope,
    pub(crate) judged: Judged,
    /// Texts to embed are replaced by their vectors.
    pub(crate) args: Vec<SqlValue>,
    pub(crate) mode: Mode,
    pub(crate) options: StatementOptions,
    pub(crate) deadline: Instant,
}

/// The result of a statement.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_affected: u64,
}

/// The outcome of one attempt.
enum Tried {
    Done(Result<Ran>),
    /// Nothing ran. It may be tried on another session.
    Stale(Error),
}

/// Cancels a statement when its caller goes away.
struct Caller(Arc<Cancel>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.call(Why::Unwanted);
    }
}

impl Engine {
    /// Runs a statement in a separate task, so that it ends in order even if the caller goes away.
    pub(crate) async fn run(self: &Arc<Self>, call: Call) -> Result<Ran> {
        self.wake()?;
        let cancel = Arc::new(Cancel::default());
        let caller = Caller(Arc::clone(&cancel));
        let engine = Arc::clone(self);
        let ran = detached(async move {
            match call.options.tx.clone() {
                Some(tx) => engine.run_within(&call, &tx, &cancel).await,
                None => engine.run_alone(&call, &cancel).await,
            }
        })
        .await;
        drop(caller);
        ran
    }

    /// The statements to send afterwards, depending on the kind found by the validator.
    fn tails(&self, asked: &Asked) -> &'static Tails {
        match (asked.comes_again, self.found.is_superuser) {
            (true, true) => &OF_CLOSED,
            (true, false) => &OF_OPEN,
            (false, _) => &OF_OTHERS,
        }
    }

    /// Resets what an earlier statement left and this one could see.
    fn clear(&self, session: &mut Session, call: &Call) {
        if session.moved && call.judged.reads_positions {
            session.query(FORGET_PLACES);
            session.unread += 1;
            session.moved = false;
        }
        session.moved |= call.mode == Mode::Exec;
    }

    /// Returns a session to the pool after its statement was answered. If the tail may not have been enough, resets
    /// everything.
    async fn rest(&self, mut leased: Leased, asked: &Asked, heard: &Answer) {
        if heard.status != b'I' {
            leased.session.query("ROLLBACK");
            leased.session.unread += 1;
        }
        if !(asked.comes_again && heard.status == b'I' && heard.done().is_some_and(is_of_rows)) {
            leased.session.query(FORGET);
            leased.session.unread += 1;
            if leased.session.flush().await.is_err() {
                self.pool.retire(leased);
                return;
            }
        }
        self.pool.rest(leased);
    }

    /// The statement to send.
    pub(in crate::sql) fn asked(&self, call: &Call) -> Result<Asked> {
        let Judged { kind, text, arguments, .. } = &call.judged;
        if *arguments != call.args.len() {
            return Err(Error::invalid(format!(
                "the statement takes {arguments} arguments, and {} were given",
                call.args.len()
            )));
        }
        let writes = call.mode == Mode::Exec;
        let quota = call.options.quota_bytes.or(self.config.quota_bytes);
        Ok(Asked {
            text: Arc::clone(text),
            values: crate::sql::statement::arguments::encode(&call.args, self.config.value_bytes)?,
            args: call.args.clone(),
            quota_check: writes.then(|| QuotaCheck { quota, frees: kind.frees() }),
            max_rows: call.options.max_rows,
            max_bytes: call.options.max_bytes,
            only_reads: !writes || kind.reads_only(),
            comes_again: comes_again(*kind),
            may_be_kept: comes_again(*kind) && self.config.shared.is_empty(),
            checks_quota: writes,
        })
    }

    async fn run_alone(self: &Arc<Self>, call: &Call, cancel: &Arc<Cancel>) -> Result<Ran> {
        let mut asked = self.asked(call)?;
        let state = self.pool.scope(&call.scope);
        let mut tries = 0;
        loop {
            let guard =
                if call.mode == Mode::Exec { Some(self.lock(&state, call.deadline).await?) } else { None };
            let leased = self.session(&state, call.deadline).await?;
            if call.mode == Mode::Exec
                && let Err(error) = self.admit(&state, leased.session.generation).await
            {
                self.pool.rest(leased);
                return Err(error);
            }
            if cancel.why().is_some() {
                self.pool.rest(leased);
                return Err(errors::cancelled());
            }
            // Skipped if there is nothing to count and nothing to record.
            asked.checks_quota = !(asked.comes_again
                && state.is_written()
                && asked
                    .quota_check
                    .and_then(|room| room.quota)
                    .is_none_or(|quota| state.is_far_from(quota)));
            let tried = match call.mode {
                Mode::Exec => self.write_once(call, &asked, leased, cancel).await,
                Mode::Query => self.read_once(call, &asked, leased, cancel).await,
            };
            drop(guard);
            match tried {
                Tried::Done(done) => {
                    self.settle_quota(&state, &asked, &done).await;
                    return done;
                }
                Tried::Stale(error) => {
                    tries += 1;
                    if tries >= TRIES || cancel.why().is_some() || Instant::now() >= call.deadline {
                        return Err(error);
                    }
                    // Time has passed since the use was recorded.
                    self.used(&call.scope, call.mode == Mode::Exec).await?;
                }
            }
        }
    }

    /// The scope's write lock among this process's writers.
    pub(crate) async fn lock(&self, state: &Arc<ScopeState>, deadline: Instant) -> Result<WriteLock> {
        timeout_at(deadline, Arc::clone(&state.writer).lock_owned()).await.map_err(|_| errors::locked())
    }

    async fn read_once(&self, call: &Call, asked: &Asked, mut leased: Leased, cancel: &Cancel) -> Tried {
        let (generation, state) = (leased.session.generation, Arc::clone(&leased.state));
        self.clear(&mut leased.session, call);
        // If the role is gone, names of the scope's tables would resolve to shared schemas. And a run may have ended at
        // any moment.
        let looks = !self.config.shared.is_empty() || state.scope.kind == ScopeKind::Run;
        let look = if looks { format!("; SELECT mem_sql.look({generation})") } else { String::new() };
        let begin = match self.limits(call.deadline) {
            None => format!("BEGIN READ ONLY{look}"),
            Some(limits) => format!("BEGIN READ ONLY; {limits}{look}"),
        };
        let is_short = self.limits(call.deadline).is_none();
        let tails = self.tails(asked);
        let opening = Opening {
            first: if is_short {
                Start::Read(looks.then_some(generation))
            } else {
                Start::Words(begin.clone())
            },
            again: Start::Words(format!("ROLLBACK; {begin}")),
            closing: &["ROLLBACK"],
            tail: tails.reads,
        };
        let mut exchange = Exchange::new(&mut leased.session, cancel, call.deadline);
        let done = execute::run(&mut exchange, &self.parameter_types, &opening, asked).await;
        let (heard, sink) = match done {
            Ok(done) => done,
            Err(Failed::Statement(error)) => {
                let was_cancelled = exchange.was_cancelled();
                self.undo(leased, was_cancelled).await;
                return self.unless_dropped(&state, generation, error).await;
            }
            Err(failed) => return self.failed(failed, leased, cancel, asked, false),
        };
        let error = error_of(&heard, &sink, &exchange, asked);
        if exchange.was_cancelled() {
            self.pool.retire(leased);
        } else {
            self.rest(leased, asked, &heard).await;
        }
        match error {
            Some(error) => self.unless_dropped(&state, generation, error).await,
            None => Tried::Done(Ok(Ran { rows: Some(sink.rows().unwrap_or_default()), rows_affected: 0 })),
        }
    }

    /// The statement's error. If its database has been dropped meanwhile, the statement is retried on the current one.
    async fn unless_dropped(&self, state: &Arc<ScopeState>, generation: i64, error: Error) -> Tried {
        let sqlstate = error.details().get("sqlstate").and_then(|state| state.as_str()).unwrap_or_default();
        let is_about_names = matches!(sqlstate, "3F000" | "42501" | "42P01" | "42704" | "42883");
        if is_about_names && matches!(self.admin.find(&state.hex).await, Ok(now) if now != Some(generation)) {
            state.forget(generation);
            return Tried::Stale(error);
        }
        Tried::Done(Err(error))
    }

    async fn write_once(
        &self,
        call: &Call,
        asked: &Asked,
        mut leased: Leased,
        cancel: &Arc<Cancel>,
    ) -> Tried {
        let (generation, state) = (leased.session.generation, Arc::clone(&leased.state));
        self.clear(&mut leased.session, call);
        let limits = self.limits(call.deadline);
        let begin = match &limits {
            None => format!("BEGIN; SELECT mem_sql.enter({generation})"),
            Some(limits) => format!("BEGIN; {limits}; SELECT mem_sql.enter({generation})"),
        };
        let opening = Opening {
            first: if limits.is_none() { Start::Write(generation) } else { Start::Words(begin.clone()) },
            again: Start::Words(format!("ROLLBACK; {begin}")),
            closing: &["COMMIT"],
            tail: self.tails(asked).writes,
        };
        let quota = asked.quota_check.and_then(|room| room.quota);
        let watching = quota.map(|quota| self.watch.over(&leased.session.pid, quota, cancel));
        let mut exchange = Exchange::new(&mut leased.session, cancel, call.deadline);
        let done = execute::run(&mut exchange, &self.parameter_types, &opening, asked).await;
        drop(watching);
        let (heard, sink) = match done {
            Ok(done) => done,
            Err(Failed::Statement(error)) => {
                let was_cancelled = exchange.was_cancelled();
                self.undo(leased, was_cancelled).await;
                return self.unless_dropped(&state, generation, error).await;
            }
            Err(failed) => return self.failed(failed, leased, cancel, asked, true),
        };
        let is_committed = heard.fault.is_none() && heard.last.as_deref() == Some("COMMIT");
        let answer = match error_of(&heard, &sink, &exchange, asked) {
            Some(error) => Err(error),
            // A limit cut a statement that only reads: its transaction had failed, and had nothing to commit.
            None if heard.fault.is_some() => Ok(()),
            None if heard.tag.as_deref().is_some_and(ends_transactions) => Err(errors::ends_transaction()),
            // If the wait for a standby was cancelled, the server still reports a commit.
            None if is_committed && !heard.warned => Ok(()),
            None => Err(errors::outcome_unknown()),
        };
        if is_committed && answer.is_ok() {
            state.note_written(generation);
            let bytes = heard.further.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(bytes) = bytes.and_then(|bytes| bytes.parse().ok()).filter(|_| quota.is_some()) {
                state.note_bytes(generation, bytes);
            }
        }
        if exchange.was_cancelled() {
            // A late cancel request would hit another statement.
            self.pool.retire(leased);
        } else {
            self.rest(leased, asked, &heard).await;
        }
        match answer {
            Ok(()) => Tried::Done(Ok(ran(&heard.tag, sink))),
            Err(error) if heard.fault.is_some() => self.unless_dropped(&state, generation, error).await,
            Err(error) => Tried::Done(Err(error)),
        }
    }

    /// The server-side timeouts for the rest of the deadline; `None` if the session's own are close enough, since this
    /// side enforces the deadline.
    pub(crate) fn limits(&self, deadline: Instant) -> Option<String> {
        let whole = Duration::from_millis(self.config.statement_timeout_ms);
        let left = deadline.saturating_duration_since(Instant::now());
        let is_whole = left <= whole && left >= whole.mul_f64(0.9);
        (!is_whole).then(|| limits(deadline))
    }

    /// Rolls back what a statement began, and returns its session to the pool.
    async fn undo(&self, mut leased: Leased, was_cancelled: bool) {
        if was_cancelled {
            // A late request would hit another statement.
            self.pool.retire(leased);
            return;
        }
        leased.session.query("ROLLBACK");
        leased.session.query(FORGET);
        match leased.session.flush().await {
            Ok(()) => {
                leased.session.unread += 2;
                self.pool.rest(leased);
            }
            Err(_) => self.pool.retire(leased),
        }
    }

    /// The outcome of a statement that did not run, or whose session was lost.
    fn failed(&self, failed: Failed, leased: Leased, cancel: &Cancel, asked: &Asked, commits: bool) -> Tried {
        let (state, generation, is_fresh) =
            (Arc::clone(&leased.state), leased.session.generation, leased.is_fresh);
        let tried = match failed {
            Failed::Opening(refused) => match refused.state.as_str() {
                "55P03" => Tried::Done(Err(errors::locked())),
                "57014" if cancel.why().is_some() => Tried::Done(Err(errors::cancelled())),
                "57014" => Tried::Done(Err(errors::locked())),
                // Somebody dropped the database; it is created again.
                _ => {
                    state.forget(generation);
                    Tried::Stale(errors::statement(&refused))
                }
            },
            Failed::Unbound(heard) => Tried::Done(Err(errors::statement(&heard.fault.unwrap_or_default()))),
            Failed::Statement(error) => Tried::Done(Err(error)),
            Failed::Broken(Broken::Late) if commits => {
                leased.session.ask_to_end();
                // The commit was sent with it.
                Tried::Done(Err(errors::outcome_unknown()))
            }
            Failed::Broken(broken @ (Broken::Late | Broken::Stopped)) => {
                if matches!(broken, Broken::Late) {
                    leased.session.ask_to_end();
                }
                Tried::Done(Err(match (cancel.why(), asked.quota_check.and_then(|room| room.quota)) {
                    (Some(Why::QuotaExceeded), Some(quota)) => errors::quota_exceeded(quota),
                    (Some(_), _) => errors::cancelled(),
                    (None, _) => errors::timeout(),
                }))
            }
            Failed::Broken(Broken::Lost(lost)) => {
                let ended_by_us =
                    matches!(&lost, Lost::Ended(state) if state == "57P01") && cancel.why().is_some();
                match lost {
                    _ if ended_by_us => Tried::Done(Err(errors::cancelled())),
                    // A server that ends a session says so before it commits. Otherwise the outcome is unknown.
                    Lost::Broken(_) | Lost::ProtocolViolation if commits => {
                        Tried::Done(Err(errors::outcome_unknown()))
                    }
                    // Nothing was committed: an idle session may have ended long ago.
                    lost if !is_fresh || matches!(lost, Lost::Ended(_)) => {
                        state.forget(generation);
                        Tried::Stale(errors::lost(lost))
                    }
                    lost => Tried::Done(Err(errors::lost(lost))),
                }
            }
        };
        self.pool.retire(leased);
        tried
    }
}

/// Kinds of statements that agents repeat, and that leave little in a session.
fn comes_again(kind: StatementKind) -> bool {
    use StatementKind::{Delete, Insert, Merge, Select, Update};
    matches!(kind, Select | Insert | Update | Delete | Merge)
}

/// Whether a command tag belongs to a statement that counts rows.
fn is_of_rows(tag: &str) -> bool {
    let word = tag.split(' ').next().unwrap_or_default();
    matches!(word, "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "MERGE")
}

/// Whether a command tag belongs to a statement that controls transactions.
fn ends_transactions(tag: &str) -> bool {
    matches!(
        tag,
        "BEGIN"
            | "COMMIT"
            | "ROLLBACK"
            | "START TRANSACTION"
            | "PREPARE TRANSACTION"
            | "SAVEPOINT"
            | "RELEASE"
            | "COMMIT PREPARED"
            | "ROLLBACK PREPARED"
    )
}

pub(in crate::sql) fn ran(tag: &Option<String>, sink: Sink) -> Ran {
    Ran { rows_affected: tag.as_deref().map_or(0, affected), rows: sink.rows() }
}
