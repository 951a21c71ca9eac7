//! Runs one statement, on its own or in a transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use memory_core::sql::{Rows, SqlValue, StatementOptions, TxId};
use memory_core::{Error, ErrorKind, Result, Scope, ScopeKind};
use memory_sql::{Ended, Engine as _, WriteLock, errors};
use memory_validator::{Mode, Stages};

use super::connections::{Conn, DROPPED, ScopeState, WRITTEN, is_busy};
use super::engine::{Engine, Held, Transaction};
use super::threads::in_flight::InFlightStatement;
use super::verdicts::{Judged, called};
use crate::error::lost;
use crate::sandbox::{Cancel, Layers, Ran, Sandbox, Statement};

/// A call of `exec` or `query`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) scope: Scope,
    pub(crate) sql: String,
    /// Texts to embed are replaced by their vectors.
    pub(crate) args: Vec<SqlValue>,
    pub(crate) mode: Mode,
    pub(crate) options: StatementOptions,
    pub(crate) deadline: Instant,
}

/// The outcome of one attempt.
enum Tried<T> {
    Done(Result<Ran>),
    /// Another process held the lock. Contains what the caller keeps holding.
    Busy(T),
}

impl Engine {
    /// Runs a statement.
    pub(crate) async fn run(self: &Arc<Self>, call: Call) -> Result<Ran> {
        self.wake()?;
        self.used(&call.scope, call.mode == Mode::Exec).await?;
        let call = Arc::new(call);
        let in_flight = self.in_flight.begin();
        match &call.options.tx {
            Some(tx) => {
                let tx = tx.clone();
                self.run_within(call, &tx, in_flight).await
            }
            None if call.mode == Mode::Query => self.read(call, in_flight).await,
            None => self.write(call, in_flight).await,
        }
    }

    /// Runs the checks that need no connection, on a worker.
    pub(crate) async fn refuse(
        self: &Arc<Self>,
        scope: &Scope,
        sql: &str,
        mode: Mode,
        deadline: Instant,
    ) -> Result<()> {
        if self.verdicts.known(sql, mode).is_some() {
            return Ok(());
        }
        let (engine, scope, sql) = (Arc::clone(self), scope.clone(), sql.to_owned());
        let judge = move || engine.verdict(&scope, &sql, mode);
        match self.workers.run(deadline, judge).await? {
            Err(error) if called(&error).is_none() => Err(error),
            _ => Ok(()),
        }
    }

    async fn read(self: &Arc<Self>, call: Arc<Call>, in_flight: InFlightStatement) -> Result<Ran> {
        let state = self.pool.scope(&call.scope);
        let permit = self
            .until(call.deadline, Arc::clone(&state.reading).acquire_owned())
            .await
            .ok_or_else(|| {
                Error::timeout(
                    "too many queries of this scope ran until the deadline; try again when some have ended",
                )
            })?
            .map_err(|_| crate::error::closed())?;
        if let Some(ran) = self.read_here(&call, &state, &in_flight.cancel) {
            return Ok(ran);
        }
        let mut permit = Some(permit);
        let mut times = 0;
        loop {
            let (engine, call, state, held, cancel) = (
                Arc::clone(self),
                Arc::clone(&call),
                Arc::clone(&state),
                permit.take(),
                in_flight.cancel.clone(),
            );
            let deadline = call.deadline;
            let work = move || match engine.read_once(&call, &state, &cancel) {
                Err(error) if is_busy(&error) => Tried::Busy(held),
                done => Tried::Done(done),
            };
            let engine = Arc::clone(self);
            match self.workers.run_then(deadline, work, move || engine.pool.close_evicted()).await? {
                Tried::Done(done) => return done,
                Tried::Busy(held) => permit = held,
            }
            self.pause(&mut times, deadline).await?;
        }
    }

    /// Runs a query on the caller's thread if it is known to be quick; `None` if it was not run.
    fn read_here(&self, call: &Call, state: &Arc<ScopeState>, cancel: &Cancel) -> Option<Ran> {
        if !self.is_inline_of_host(&call.scope) {
            if !self.config.inline || self.layers(&call.scope) != Layers::ALL || self.stages() != Stages::ALL
            {
                return None;
            }
            if self.verdicts.known(&call.sql, call.mode).is_none() {
                self.verdicts.judge_short(&call.sql, call.mode)?;
            }
        }
        let mut conn = self.pool.rested_reader(state)?;
        let statement = statement(call, false, cancel);
        let ran = catch_unwind(AssertUnwindSafe(|| conn.sandbox.run_inline(&statement)));
        let Ok(ran) = ran else {
            tracing::error!("a statement panicked, which is a bug; please report it");
            return None;
        };
        if !conn.sandbox.in_transaction() {
            self.pool.rest(conn);
        }
        ran
    }

    fn read_once(&self, call: &Call, state: &Arc<ScopeState>, cancel: &Cancel) -> Result<Ran> {
        // A refused statement opens no connection, unless the schema may still allow it.
        if let Err(error) = self.verdict(&call.scope, &call.sql, call.mode)
            && called(&error).is_none()
        {
            return Err(error);
        }
        match self.pool.reader(state, self.layers(&call.scope), call.deadline)? {
            Some(mut conn) => {
                let ran = self.step_reading(&mut conn.sandbox, call, cancel);
                let ran = ran.and_then(|ran| conn.check_read().map(|()| ran));
                if !conn.sandbox.in_transaction() {
                    self.pool.rest(conn);
                }
                ran
            }
            None => self.step_reading(&mut self.pool.empty(state, self.layers(&call.scope))?, call, cancel),
        }
    }

    fn step_reading(&self, sandbox: &mut Sandbox, call: &Call, cancel: &Cancel) -> Result<Ran> {
        self.verdict_on(&call.scope, sandbox, &call.sql, call.mode)?;
        self.step(sandbox, call, false, cancel)
    }

    fn step(&self, sandbox: &mut Sandbox, call: &Call, frees: bool, cancel: &Cancel) -> Result<Ran> {
        sandbox.set_quota(call.options.quota_bytes.or(self.config.quota_bytes));
        sandbox.run(&statement(call, frees, cancel))
    }

    /// As [`Engine::step`], for a statement that may write. The engine limits the pages of the file; if the file
    /// already exceeds its quota, its free pages must not be filled either.
    fn step_writing(
        &self,
        sandbox: &mut Sandbox,
        call: &Call,
        judged: Judged,
        cancel: &Cancel,
    ) -> Result<Ran> {
        let (kind, quota) = (judged.kind, call.options.quota_bytes.or(self.config.quota_bytes));
        let bounded = quota.filter(|_| self.layers(&call.scope).quota && !kind.reads_only() && !kind.frees());
        let before = if bounded.is_some() { sandbox.usage()? } else { 0 };
        let ran = self.step(sandbox, call, kind.frees(), cancel)?;
        if let Some(quota) = bounded
            && sandbox.in_transaction()
        {
            let after = sandbox.usage()?;
            if after > quota && after > before {
                return Err(errors::quota_exceeded(quota));
            }
        }
        Ok(ran)
    }

    async fn write(self: &Arc<Self>, call: Arc<Call>, in_flight: InFlightStatement) -> Result<Ran> {
        let state = self.pool.scope(&call.scope);
        let guard = match Arc::clone(&state.writing).try_lock_owned() {
            Ok(guard) => guard,
            Err(_) => {
                // A refused statement does not wait for the lock.
                self.refuse(&call.scope, &call.sql, call.mode, call.deadline).await?;
                self.lock(&state, call.deadline).await?
            }
        };
        let mut guard = Some(guard);
        let mut times = 0;
        loop {
            let Some(held) = guard.take() else { return Err(Error::internal("a lock was lost")) };
            let (engine, call, state, cancel) =
                (Arc::clone(self), Arc::clone(&call), Arc::clone(&state), in_flight.cancel.clone());
            let deadline = call.deadline;
            let work = move || engine.write_once(&call, &state, held, &cancel);
            let engine = Arc::clone(self);
            match self.workers.run_then(deadline, work, move || engine.pool.close_evicted()).await? {
                Tried::Done(done) => return done,
                Tried::Busy(held) => guard = Some(held),
            }
            self.pause(&mut times, deadline).await?;
        }
    }

    /// Waits for the scope's write lock.
    pub(crate) async fn lock(&self, state: &ScopeState, deadline: Instant) -> Result<WriteLock> {
        self.until(deadline, Arc::clone(&state.writing).lock_owned())
            .await
            .ok_or_else(|| if self.is_closed() { crate::error::closed() } else { errors::locked() })
    }

    fn write_once(
        self: &Arc<Self>,
        call: &Call,
        state: &Arc<ScopeState>,
        guard: WriteLock,
        cancel: &Cancel,
    ) -> Tried<WriteLock> {
        match self.verdict(&call.scope, &call.sql, call.mode) {
            Err(error) if called(&error).is_none() => return Tried::Done(Err(error)),
            _ => {}
        }
        let mut conn = match self.begin_write(state, call.deadline) {
            Ok(conn) => conn,
            Err(error) if is_busy(&error) => return Tried::Busy(guard),
            Err(error) => return Tried::Done(Err(error)),
        };
        let judged = self.verdict_on(&call.scope, &conn.sandbox, &call.sql, call.mode);
        let ran = judged.and_then(|judged| {
            self.step_writing(&mut conn.sandbox, call, judged, cancel).map(|ran| (ran, judged))
        });
        let done = ran.and_then(|(ran, judged)| {
            if conn.sandbox.in_transaction() {
                self.mark_written(&mut conn, judged)?;
                conn.sandbox.commit()?;
                Ok(ran)
            } else {
                Err(Error::statement_refused(
                    "the statement ended its own transaction and had no effect; use RAISE(ABORT) or OR ABORT",
                ))
            }
        });
        match &done {
            Ok(_) => self.wrote(conn, guard),
            Err(error) => self.give_up(conn, guard, error),
        }
        Tried::Done(done)
    }

    /// Marks a new database as written, once a statement has written to it.
    pub(crate) fn mark_written(&self, conn: &mut Conn, judged: Judged) -> Result<()> {
        if !judged.kind.reads_only() && conn.sandbox.user_version()? != WRITTEN {
            conn.sandbox.set_user_version(WRITTEN)?;
        }
        Ok(())
    }

    fn give_up(&self, mut conn: Conn, guard: WriteLock, error: &Error) {
        let sound = error.kind() != ErrorKind::OutcomeUnknown && conn.sandbox.rollback().is_ok();
        if sound {
            self.pool.rest(conn);
        } else {
            drop(conn);
        }
        drop(guard);
    }

    /// A connection in a write transaction on the scope's current database.
    pub(crate) fn begin_write(&self, state: &Arc<ScopeState>, deadline: Instant) -> Result<Conn> {
        loop {
            let mut conn = self.pool.writer(state, self.layers(&state.scope), deadline)?;
            if let Err(error) = conn.sandbox.begin_immediate() {
                if is_busy(&error) {
                    self.pool.rest(conn);
                }
                return Err(error);
            }
            // On a full disk a database is dropped without being marked, under the lock held here.
            if !conn.is_current() {
                conn.sandbox.rollback()?;
                continue;
            }
            if conn.sandbox.user_version()? != DROPPED {
                return Ok(conn);
            }
            // It was dropped while this connection was idle or waited for the lock.
            conn.sandbox.rollback()?;
            self.pool.remove(conn, deadline)?;
            if Instant::now() >= deadline {
                return Err(errors::locked());
            }
        }
    }

    async fn run_within(
        self: &Arc<Self>,
        call: Arc<Call>,
        tx: &TxId,
        in_flight: InFlightStatement,
    ) -> Result<Ran> {
        let (transaction, turn) = self.turn(&call.scope, tx, call.deadline).await?;
        if self.is_short_of_host(&call, &transaction) {
            let done = here(|| self.step_within(&call, &transaction, &in_flight.cancel));
            drop(turn);
            return done;
        }
        let engine = Arc::clone(self);
        let (deadline, cancel) = (call.deadline, in_flight.cancel.clone());
        let work = move || {
            // The transaction may have ended while this call waited.
            let done = engine.step_within(&call, &transaction, &cancel);
            drop(turn);
            done
        };
        self.workers.run(deadline, work).await?
    }

    /// Whether a statement of the host itself runs on the caller's thread: it did not take long when this connection
    /// last ran it. Unlike an agent's query, it is not abandoned after a millisecond, because interrupting a write ends
    /// the transaction, and only the runtime writes such statements.
    fn is_short_of_host(&self, call: &Call, transaction: &Transaction) -> bool {
        self.is_inline_of_host(&call.scope)
            && transaction.look(|held| held.conn.sandbox.was_quick(&call.sql, call.mode)).unwrap_or(false)
    }

    /// Whether what the host does in this scope may run on the caller's thread, if it is quick.
    pub(crate) fn is_inline_of_host(&self, scope: &Scope) -> bool {
        self.config.inline && scope.kind == ScopeKind::Host
    }

    fn step_within(
        self: &Arc<Self>,
        call: &Call,
        transaction: &Arc<Transaction>,
        cancel: &Cancel,
    ) -> Result<Ran> {
        let open = |error: Error| error.with_detail("transaction", "open");
        let mut held = transaction.take(cancel)?;
        let judged = self.verdict_on(&call.scope, &held.conn.sandbox, &call.sql, call.mode);
        let judged = match judged {
            Ok(judged) => judged,
            Err(error) => {
                self.after(transaction, held);
                return Err(open(error));
            }
        };
        let sandbox = &mut held.conn.sandbox;
        let step = |sandbox: &mut Sandbox| self.step_writing(sandbox, call, judged, cancel);
        let ran = if judged.kind.reads_only() { step(sandbox) } else { sandbox.undoing(step) };
        let ran = match ran {
            Ok(ran) if sandbox.in_transaction() => self.mark_written(&mut held.conn, judged).map(|()| ran),
            // An `OR ROLLBACK` that reached the engine.
            Ok(_) => Err(Ended::ByTheEngine.error()),
            Err(error) => Err(error),
        };
        let lives = self.after(transaction, held);
        ran.map_err(|error| {
            if error.details().contains_key("transaction") {
                error
            } else {
                error.with_detail("transaction", if lives { "open" } else { "lost" })
            }
        })
    }

    /// Returns what a call took from a transaction, or ends the transaction if the engine did; returns whether it is
    /// open.
    pub(crate) fn after(&self, transaction: &Arc<Transaction>, held: Held) -> bool {
        let lives = held.conn.sandbox.in_transaction();
        if let Some(held) = self.transactions.put_back(transaction, held) {
            // The transaction ended while the statement ran.
            self.undo(held);
            return false;
        }
        if !lives && let Some(held) = self.transactions.end(transaction, Ended::ByTheEngine) {
            self.undo(held);
        }
        lives
    }
}

/// Runs work on the caller's thread. As on a worker, a panic ends only the work.
pub(super) fn here<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("a statement panicked, which is a bug; please report it");
        Err(lost())
    })
}

fn statement<'a>(call: &'a Call, frees: bool, cancel: &'a Cancel) -> Statement<'a> {
    Statement {
        sql: &call.sql,
        args: &call.args,
        mode: call.mode,
        deadline: call.deadline,
        max_rows: call.options.max_rows,
        max_bytes: call.options.max_bytes,
        frees,
        cancel,
    }
}

/// The rows of a query.
pub(crate) fn rows(ran: Ran) -> Rows {
    ran.rows.unwrap_or_default()
}
