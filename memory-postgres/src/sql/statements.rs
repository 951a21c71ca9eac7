//! Running one statement: by itself, or in a transaction.

use std::sync::Arc;
use std::time::Duration;

use memory_core::sql::{Rows, SqlValue, StatementOptions, TxId};
use memory_core::{Error, ErrorKind, Result, Scope, ScopeKind};
use memory_validator::{Mode, StatementKind};
use tokio::time::{Instant, timeout_at};

use super::engine::Engine;
use super::fault;
use super::pool::{Leased, ScopeState};
use super::step::{self, Asked, Failed, Opening, Room, Start, error_of};
use super::talk::{Broken, Cancel, Heard, Talk, Why};
use super::transactions::{Ended, Guard, Held, Transaction};
use super::values::{Sink, affected};
use super::verdicts::Judged;
pub(crate) use super::wire::FORGET;
use super::wire::{Lost, Session};

/// Times that a statement which has not run is tried on another session.
const TRIES: u32 = 4;
/// What takes from a session what a statement of rows can have left there. Where the engine says that it was another kind
/// of statement than it seemed, all is taken.
struct Tails {
    reads: &'static [&'static str],
    writes: &'static [&'static str],
}

/// What an agent can call leaves nothing but where sequences stand, which is taken before a statement that asks for it.
const OF_CLOSED: Tails = Tails { reads: &[], writes: &[] };
/// Takes from a session where sequences stand.
const FORGET_PLACES: &str = "DISCARD SEQUENCES";
/// Functions that only the validator refuses could leave settings and locks too.
const OF_OPEN: Tails = Tails {
    reads: &["SELECT pg_catalog.pg_advisory_unlock_all()"],
    writes: &["SELECT pg_catalog.pg_advisory_unlock_all()", "RESET ALL", "DISCARD SEQUENCES", "DISCARD TEMP"],
};
/// Of statements that define something all is taken.
const OF_OTHERS: Tails = Tails { reads: &[], writes: &[] };

/// What a call wants done.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) scope: Scope,
    pub(crate) judged: Judged,
    /// Nothing to be embedded is among them any more.
    pub(crate) args: Vec<SqlValue>,
    pub(crate) mode: Mode,
    pub(crate) options: StatementOptions,
    pub(crate) deadline: Instant,
}

/// What a statement did.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_affected: u64,
}

/// What came of trying.
enum Tried {
    Done(Result<Ran>),
    /// Nothing ran; on another session it may.
    Stale(Error),
}

/// Calls a statement off where nobody waits for it any more.
struct Caller(Arc<Cancel>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.call(Why::Unwanted);
    }
}

impl Engine {
    /// Runs a statement as its call says, in a task of its own: it ends in order whatever becomes of the caller.
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

    /// What is sent behind the statement: by what the validator takes it for.
    fn tails(&self, asked: &Asked) -> &'static Tails {
        match (asked.comes_again, self.found.is_superuser) {
            (true, true) => &OF_CLOSED,
            (true, false) => &OF_OPEN,
            (false, _) => &OF_OTHERS,
        }
    }

    /// Takes from a session what an earlier statement left and this one could see.
    fn clear(&self, session: &mut Session, call: &Call) {
        if session.moved && call.judged.asks_places {
            session.query(FORGET_PLACES);
            session.unread += 1;
            session.moved = false;
        }
        session.moved |= call.mode == Mode::Exec;
    }

    /// Lays a session to rest whose statement was answered. What the engine did decides whether the tail took all there was
    /// to take.
    async fn rest(&self, mut leased: Leased, asked: &Asked, heard: &Heard) {
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

    /// The statement as it is sent.
    fn asked(&self, call: &Call) -> Result<Asked> {
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
            values: super::arguments::encode(&call.args, self.config.value_bytes)?,
            args: call.args.clone(),
            room: writes.then(|| Room { quota, frees: kind.frees() }),
            max_rows: call.options.max_rows,
            max_bytes: call.options.max_bytes,
            only_reads: !writes || kind.reads_only(),
            comes_again: comes_again(*kind),
            settles: writes,
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
                return Err(fault::cancelled());
            }
            // Where there is nothing to count, and nothing to note.
            asked.settles = !(asked.comes_again
                && state.is_written()
                && asked.room.and_then(|room| room.quota).is_none_or(|quota| state.is_far_from(quota)));
            let tried = match call.mode {
                Mode::Exec => self.write_once(call, &asked, leased, cancel).await,
                Mode::Query => self.read_once(call, &asked, leased, cancel).await,
            };
            drop(guard);
            match tried {
                Tried::Done(done) => {
                    self.look_at_room(&state, &asked, &done).await;
                    return done;
                }
                Tried::Stale(error) => {
                    tries += 1;
                    if tries >= TRIES || cancel.why().is_some() || Instant::now() >= call.deadline {
                        return Err(error);
                    }
                    // That took its time.
                    self.used(&call.scope, call.mode == Mode::Exec).await?;
                }
            }
        }
    }

    /// The scope's lock for writing, among the writers of this process.
    ///
    /// # Errors
    /// `timeout`.
    pub(crate) async fn lock(&self, state: &Arc<ScopeState>, deadline: Instant) -> Result<Guard> {
        timeout_at(deadline, Arc::clone(&state.writer).lock_owned()).await.map_err(|_| fault::waited())
    }

    async fn read_once(&self, call: &Call, asked: &Asked, mut leased: Leased, cancel: &Cancel) -> Tried {
        let (generation, state) = (leased.session.generation, Arc::clone(&leased.state));
        self.clear(&mut leased.session, call);
        // A session whose role is gone finds nothing of the scope's; what others share it would find in place of that.
        // And a run may have ended at any moment.
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
        let mut talk = Talk::new(&mut leased.session, cancel, call.deadline);
        let done = step::run(&mut talk, &self.plans, &opening, asked).await;
        let (heard, sink) = match done {
            Ok(done) => done,
            Err(Failed::Statement(error)) => {
                let was_cancelled = talk.was_cancelled();
                self.undo(leased, was_cancelled).await;
                return self.unless_dropped(&state, generation, error).await;
            }
            Err(failed) => return self.failed(failed, leased, cancel, asked, false),
        };
        let error = error_of(&heard, &sink, &talk, asked);
        if talk.was_cancelled() {
            self.pool.retire(leased);
        } else {
            self.rest(leased, asked, &heard).await;
        }
        match error {
            Some(error) => self.unless_dropped(&state, generation, error).await,
            None => Tried::Done(Ok(Ran { rows: Some(sink.rows().unwrap_or_default()), rows_affected: 0 })),
        }
    }

    /// What a statement failed with; where that is since its database was dropped, here or by another replica or by hand, it
    /// is tried on the one that is there now.
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
        let quota = asked.room.and_then(|room| room.quota);
        let watching = quota.map(|quota| self.watch.over(&leased.session.pid, quota, cancel));
        let mut talk = Talk::new(&mut leased.session, cancel, call.deadline);
        let done = step::run(&mut talk, &self.plans, &opening, asked).await;
        drop(watching);
        let (heard, sink) = match done {
            Ok(done) => done,
            Err(Failed::Statement(error)) => {
                let was_cancelled = talk.was_cancelled();
                self.undo(leased, was_cancelled).await;
                return self.unless_dropped(&state, generation, error).await;
            }
            Err(failed) => return self.failed(failed, leased, cancel, asked, true),
        };
        let is_committed = heard.fault.is_none() && heard.last.as_deref() == Some("COMMIT");
        let answer = match error_of(&heard, &sink, &talk, asked) {
            Some(error) => Err(error),
            // A cap cut a statement that only reads: its transaction had failed, and had nothing to commit.
            None if heard.fault.is_some() => Ok(()),
            None if heard.tag.as_deref().is_some_and(ends_transactions) => Err(fault::ends_transaction()),
            // A wait for a standby that was cancelled ends like a commit.
            None if is_committed && !heard.warned => Ok(()),
            None => Err(fault::outcome_unknown()),
        };
        if is_committed && answer.is_ok() {
            state.note_written(generation);
            let bytes = heard.further.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
            if let Some(bytes) = bytes.and_then(|bytes| bytes.parse().ok()).filter(|_| quota.is_some()) {
                state.note_bytes(generation, bytes);
            }
        }
        if talk.was_cancelled() {
            // A late request would end another statement.
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

    /// The server's own limits for what is left of the deadline; `None`: those that every session has are about that, and
    /// the deadline itself is kept from here.
    pub(crate) fn limits(&self, deadline: Instant) -> Option<String> {
        let whole = Duration::from_millis(self.config.statement_timeout_ms);
        let left = deadline.saturating_duration_since(Instant::now());
        let is_whole = left <= whole && left >= whole.mul_f64(0.9);
        (!is_whole).then(|| limits(deadline))
    }

    /// Rolls back what a statement began, and lays its session to rest.
    async fn undo(&self, mut leased: Leased, was_cancelled: bool) {
        if was_cancelled {
            // A late request would end another statement.
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

    /// What becomes of a statement that did not run, or whose session was lost.
    fn failed(&self, failed: Failed, leased: Leased, cancel: &Cancel, asked: &Asked, commits: bool) -> Tried {
        let (state, generation, is_fresh) =
            (Arc::clone(&leased.state), leased.session.generation, leased.is_fresh);
        let tried = match failed {
            Failed::Opening(refused) => match refused.state.as_str() {
                "55P03" => Tried::Done(Err(fault::waited())),
                "57014" if cancel.why().is_some() => Tried::Done(Err(fault::cancelled())),
                "57014" => Tried::Done(Err(fault::waited())),
                // Dropped, here or by another replica, or by hand: it is made anew.
                _ => {
                    state.forget(generation);
                    Tried::Stale(fault::statement(&refused))
                }
            },
            Failed::Statement(error) => Tried::Done(Err(error)),
            Failed::Broken(Broken::Late) if commits => {
                leased.session.ask_to_end();
                // Its commit was sent with it.
                Tried::Done(Err(fault::outcome_unknown()))
            }
            Failed::Broken(Broken::Late) => {
                leased.session.ask_to_end();
                Tried::Done(Err(match (cancel.why(), asked.room.and_then(|room| room.quota)) {
                    (Some(Why::NoRoom), Some(quota)) => fault::quota_exceeded(quota),
                    (Some(_), _) => fault::cancelled(),
                    (None, _) => fault::timeout(),
                }))
            }
            Failed::Broken(Broken::Lost(lost)) => {
                let ended_by_us =
                    matches!(&lost, Lost::Ended(state) if state == "57P01") && cancel.why().is_some();
                match lost {
                    _ if ended_by_us => Tried::Done(Err(fault::cancelled())),
                    // What the server ends it says before it commits; otherwise nobody knows.
                    Lost::Broken(_) | Lost::Nonsense if commits => Tried::Done(Err(fault::outcome_unknown())),
                    // Nothing was committed: a session that was at rest may have ended long ago.
                    lost if !is_fresh || matches!(lost, Lost::Ended(_)) => {
                        state.forget(generation);
                        Tried::Stale(fault::lost(lost))
                    }
                    lost => Tried::Done(Err(fault::lost(lost))),
                }
            }
        };
        self.pool.retire(leased);
        tried
    }

    async fn run_within(self: &Arc<Self>, call: &Call, tx: &TxId, cancel: &Arc<Cancel>) -> Result<Ran> {
        let (transaction, turn) = self.turn(&call.scope, tx, call.deadline).await?;
        let asked = self.asked(call).map_err(|error| error.with_detail("transaction", "open"))?;
        let mut held = transaction.take(cancel)?;
        let quota = asked.room.and_then(|room| room.quota);
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
        self.look_at_room(&transaction.state, &asked, &answer).await;
        answer
    }

    /// `Ok`: the transaction goes on, whatever became of the statement.
    async fn within_once(
        &self,
        call: &Call,
        asked: &Asked,
        held: &mut Held,
        cancel: &Arc<Cancel>,
    ) -> Result<Result<Ran>> {
        const UNDO: &str = "ROLLBACK TO SAVEPOINT mem_q; RELEASE SAVEPOINT mem_q";
        let reads = call.mode == Mode::Query;
        // Limits of a statement's own stay for those that follow.
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
        let mut talk = Talk::new(&mut held.leased.session, cancel, call.deadline);
        let stepped = step::run(&mut talk, &self.plans, &opening, asked).await;
        let (outcome, is_closed) = match stepped {
            Ok((heard, sink)) => {
                let error = error_of(&heard, &sink, &talk, asked);
                if !matches!(heard.status, b'T' | b'E') {
                    return Err(fault::ends_transaction());
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
            Err(Failed::Opening(_)) => return Err(Ended::ByTheEngine.told()),
            Err(Failed::Broken(broken)) => return Err(lost_within(broken, cancel)),
        };
        if is_closed {
            return Ok(outcome);
        }
        // A request to cancel the statement may reach this one.
        for _ in 0..4 {
            let mut talk = Talk::new(&mut held.leased.session, uncalled(), Instant::now() + COMMIT_PATIENCE);
            talk.session.query(UNDO);
            let heard = async {
                talk.send().await?;
                talk.hear(&mut Sink::default()).await
            }
            .await
            .map_err(|broken| lost_within(broken, cancel))?;
            match heard.fault {
                None if heard.status == b'T' => return Ok(outcome),
                Some(fault) if matches!(fault.state.as_str(), "57014" | "25P02") => {}
                _ => break,
            }
        }
        Err(Ended::ByTheEngine.told())
    }

    /// The transaction, and one's turn with it.
    ///
    /// # Errors
    /// `transaction_lost`; `timeout`.
    pub(crate) async fn turn(
        &self,
        scope: &Scope,
        tx: &TxId,
        deadline: Instant,
    ) -> Result<(Arc<Transaction>, Guard)> {
        let transaction = self.transactions.find(scope, tx)?;
        let turn = timeout_at(deadline, Arc::clone(&transaction.turn).lock_owned()).await.map_err(|_| {
            Error::new(
                ErrorKind::Timeout,
                "another call used the transaction for longer than the deadline; nothing was done, try again",
            )
            .with_detail("transaction", "open")
        })?;
        // It may have ended while this call waited.
        self.transactions.find(scope, tx)?;
        Ok((transaction, turn))
    }

    /// Gives a transaction back what a call took; rolls it back where it was ended meanwhile.
    pub(crate) fn put_back(self: &Arc<Self>, transaction: &Transaction, held: Held) {
        if let Some(held) = self.transactions.put_back(transaction, held) {
            self.roll_back(held);
        }
    }

    /// Rolls back what a transaction held, and lets the next writer go on.
    pub(crate) fn roll_back(self: &Arc<Self>, held: Held) {
        let engine = Arc::clone(self);
        let undone = async move {
            let Held { mut leased, guard, .. } = held;
            leased.session.query("ROLLBACK");
            leased.session.query(FORGET);
            let mut talk = Talk::new(&mut leased.session, uncalled(), Instant::now() + COMMIT_PATIENCE);
            let heard = async {
                talk.send().await?;
                talk.hear(&mut Sink::default()).await
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
        };
        // Without a runtime the connection ends, and the server rolls back.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(undone);
        }
    }
}

/// How long a commit or a rollback may take: it is not called off.
pub(crate) const COMMIT_PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A cancel that nobody calls.
pub(crate) fn uncalled() -> &'static Cancel {
    static NEVER: std::sync::LazyLock<Cancel> = std::sync::LazyLock::new(Cancel::default);
    &NEVER
}

/// Kinds whose statements agents repeat, and that leave little in a session.
fn comes_again(kind: StatementKind) -> bool {
    use StatementKind::{Delete, Insert, Merge, Select, Update};
    matches!(kind, Select | Insert | Update | Delete | Merge)
}

/// Whether the engine did what such statements do, by what it calls it.
fn is_of_rows(tag: &str) -> bool {
    let word = tag.split(' ').next().unwrap_or_default();
    matches!(word, "SELECT" | "INSERT" | "UPDATE" | "DELETE" | "MERGE")
}

/// Whether the engine did what begins, ends or divides a transaction.
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

/// The server's own limits for what is left of the deadline.
pub(crate) fn limits(deadline: Instant) -> String {
    let left = deadline.saturating_duration_since(Instant::now()).as_millis().max(1);
    format!("SET LOCAL statement_timeout = {left}; SET LOCAL lock_timeout = {left}")
}

fn ran(tag: &Option<String>, sink: Sink) -> Ran {
    Ran { rows_affected: tag.as_deref().map_or(0, affected), rows: sink.rows() }
}

fn lost_within(broken: Broken, cancel: &Cancel) -> Error {
    match (broken, cancel.why()) {
        (Broken::Late, None) => fault::timeout(),
        (Broken::Late, Some(_)) => fault::cancelled(),
        (Broken::Lost(_), _) => Error::new(
            ErrorKind::TransactionLost,
            "the connection that the transaction lived on was lost, and nothing of it stays; begin another one",
        ),
    }
}

/// Runs to the end whatever becomes of the caller.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::internal("a task for SQL ended early; please report it").with_source(error)),
    }
}
