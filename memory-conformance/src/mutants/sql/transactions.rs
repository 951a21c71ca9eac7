//! Transactions with missing guarantees.

use std::thread;

use memory_core::sql::{StatementOptions, TxId, TxState};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, RunContext, Scope, ScopeKind};

use super::requests::{nothing, options, sql};
use crate::mutants::memory::{Memory, Open};
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "sql.tx-ignored": ["TX-1", "TX-2"] needs [Sql, SqlTransactions], "statements in a transaction are committed immediately" => around(ignored);
    "sql.commit-rolls-back": ["TX-2"] needs [Sql, SqlTransactions], "`commit` rolls back"
        => over(Request::Commit { run, scope, tx } => Ok(Reply::Commit(sql(&next)?.rollback(&run, &scope, &tx).await?)));
    "sql.rollback-commits": ["TX-2"] needs [Sql, SqlTransactions], "`rollback` commits"
        => over(Request::Rollback { run, scope, tx } => Ok(Reply::Rollback(sql(&next)?.commit(&run, &scope, &tx).await?)));
    "sql.dirty-reads": ["TX-2", "TX-14"] needs [Sql, SqlTransactions], "queries see uncommitted changes"
        => ask(Request::Query { scope, options, run, .. } if options.tx.is_none() => {
            if let Some(open) = memory.open_in(scope) {
                (options.tx, *run) = (Some(open.tx), open.run);
            }
        });
    "sql.own-writes-unseen": ["TX-2"] needs [Sql, SqlTransactions], "a transaction does not see its own writes"
        => ask(Request::Query { options, sql, .. } if sql != "SELECT 1" => options.tx = None);
    "sql.unnamed-joins": ["TX-3"] needs [Sql, SqlTransactions], "a run's statements outside its open transaction join it"
        // It is dropped with the transaction, which is always rolled back.
        => instead(Request::Exec { run, options, .. }
            if options.tx.is_none() && memory.lock().open.iter().any(|open| open.run.run == run.run)
            => Ok(nothing(true)));
    "sql.unknown-tx-falls-through": ["TX-4", "TX-8"] needs [Sql, SqlTransactions], "a statement in an unknown transaction is committed immediately" => around(falls_through);
    "sql.tx-of-any-scope": ["TX-4", "OWN-1"] needs [Sql, SqlTransactions], "a transaction accepts statements for any scope"
        => around({
            if let Some(open) = named(&request).and_then(|tx| memory.open_as(tx)) {
                super::requests::change_scope(&mut request, |scope| *scope = open.scope.clone());
                match &mut request {
                    Request::Exec { run, .. } | Request::Query { run, .. } => *run = open.run,
                    _ => {}
                }
            }
            next.run(request).await
        });
    "sql.tx-names-return": ["TX-15"] needs [Sql, SqlTransactions], "transaction ids are reused" => over(Request::Begin { run, scope, parent: None } => {
        let mut state = sql(&next)?.begin(&run, &scope, None).await?;
        // A renamed transaction is not found again; only the names matter here.
        state.tx = TxId::new(format!("{}", memory.lock().open.len()));
        Ok(Reply::Begin(state))
    });
    "sql.savepoint-rolls-all-back": ["TX-5"] needs [Sql, SqlTransactions], "rolling back a savepoint ends the transaction"
        => over(Request::Rollback { run, scope, tx } => loop {
            let state = sql(&next)?.rollback(&run, &scope, &tx).await?;
            if state.depth == 0 {
                return Ok(Reply::Rollback(state));
            }
        });
    "sql.savepoint-ignored": ["TX-5"] needs [Sql, SqlTransactions], "a savepoint is counted but not set" => around(savepoint_ignored);
    "sql.savepoint-commits-all": ["TX-5"] needs [Sql, SqlTransactions], "committing a savepoint ends the transaction"
        => over(Request::Commit { run, scope, tx } => loop {
            let state = sql(&next)?.commit(&run, &scope, &tx).await?;
            if state.depth == 0 {
                return Ok(Reply::Commit(state));
            }
        });
    "sql.depth-always-one": ["TX-1", "TX-5"] needs [Sql, SqlTransactions], "`depth` is 1 while the transaction is open"
        => answer(|reply| if let Some(state) = state_of(reply) { state.depth = state.depth.min(1); });
    "sql.depth-from-zero": ["TX-1"] needs [Sql, SqlTransactions], "`depth` counts savepoints"
        => answer(|reply| if let Some(state) = state_of(reply) { state.depth = state.depth.saturating_sub(1); });
    "sql.savepoints-without-limit": ["TX-6"] needs [Sql, SqlTransactions], "a savepoint over the limit is only pretended"
        => forgive(Request::Begin { parent: Some(tx), .. }, ErrorKind::TransactionLimit
            => Reply::Begin(TxState::new(tx.clone(), 18)));
    "sql.limits-untyped": ["TX-6", "TX-7"] needs [Sql, SqlTransactions], "exceeding a transaction limit is `unavailable`"
        => refuse(ErrorKind::TransactionLimit => ErrorKind::Unavailable);
    "sql.tx-limit-leaks": ["TX-7"] needs [Sql, SqlTransactions], "an ended transaction counts as open"
        => around({
            let is_begin = matches!(&request, Request::Begin { parent: None, .. });
            if is_begin && memory.lock().flag {
                return Err(Error::new(ErrorKind::TransactionLimit, "too many transactions are open; end one"));
            }
            let reply = next.run(request).await;
            if matches!(&reply, Err(error) if is_begin && error.kind() == ErrorKind::TransactionLimit) {
                memory.lock().flag = true;
            }
            reply
        });
    "sql.failure-ends-tx": ["TX-8"] needs [Sql, SqlTransactions], "a failing statement rolls back the transaction" => around(failure_ends);
    "sql.failure-untold": ["TX-8", "TX-16"] needs [Sql, SqlTransactions], "an error does not give the transaction's state"
        => refuse(|_, error| Error::new(error.kind(), error.message().to_owned()));
    "sql.refused-commit-succeeds": ["TX-16"] needs [Sql, SqlTransactions], "a refused commit is reported as done"
        => forgive(Request::Commit { tx, .. }, ErrorKind::InvalidArgument => Reply::Commit(TxState::new(tx.clone(), 0)));
    "sql.tx-of-its-thread": ["TX-9"] needs [Sql, SqlTransactions], "a transaction is unknown to calls from another thread"
        => stop(is_open_and(memory, &request, |open| open.thread != thread::current().id()) => lost());
    "sql.tx-for-a-while": ["TX-9"] needs [Sql, SqlTransactions], "a transaction expires even if it is used"
        => stop(is_open_and(memory, &request, |open| memory.now().as_millis() - open.since.as_millis() > 1_600) => lost());
    "sql.run-end-leaves-tx": ["TX-10", "DBS-8"] needs [Sql, SqlTransactions], "the end of a run leaves its transactions open"
        => instead(Request::EndRun { .. } => Ok(Reply::EndRun(())));
    "sql.run-end-in-its-scope": ["TX-10"] needs [Sql, SqlTransactions], "the end of a run rolls back only in its own scope"
        => over(Request::EndRun { tenant, root_run } => {
            sql(&next)?.drop_sql_scope(&Scope::new(tenant, ScopeKind::Run, root_run)).await?;
            Ok(Reply::EndRun(()))
        });
    "sql.run-end-ends-all": ["TX-10"] needs [Sql, SqlTransactions], "the end of a run rolls back every transaction"
        => ask(Request::EndRun { .. } => {
            let open: Vec<Open> = std::mem::take(&mut memory.lock().open);
            for Open { tx, scope, run, .. } in open {
                while sql(&next)?.rollback(&run, &scope, &tx).await.is_ok_and(|state| state.depth > 0) {}
            }
        });
    "sql.readers-wait": ["TX-11"] needs [Sql, SqlTransactions], "a query next to an open transaction fails"
        => instead(Request::Query { scope, options: StatementOptions { tx: None, .. }, .. } if memory.open_in(scope).is_some()
            => Err(Error::new(ErrorKind::Timeout, "a transaction is open on this scope; wait for its end")));
    "sql.writers-give-up": ["TX-12"] needs [Sql, SqlTransactions], "a write next to an open transaction fails at once"
        => instead(Request::Exec { scope, options: StatementOptions { tx: None, .. }, .. } if memory.open_in(scope).is_some()
            => Err(Error::new(ErrorKind::Unavailable, "the database is locked; try again")));
    "sql.begin-gives-up": ["TX-12", "TIM-3"] needs [Sql, SqlTransactions], "`begin` next to an open transaction fails at once"
        => instead(Request::Begin { scope, parent: None, .. } if memory.open_in(scope).is_some()
            => Err(Error::new(ErrorKind::Unavailable, "the database is locked; try again")));
    "sql.dropped-begin-stays": ["TX-13"] needs [Sql, SqlTransactions], "a dropped `begin` leaves its transaction open"
        => around({
            let is_begin = matches!(&request, Request::Begin { parent: None, .. });
            // The next one would wait for this one.
            if !is_begin || std::mem::replace(&mut memory.lock().flag, true) {
                return next.run(request).await;
            }
            let reply = super::deadlines::insist(Box::pin(async { next.run(request).await }));
            super::deadlines::once_more().await;
            reply
        });
    "sql.tx-of-its-run": ["TX-14"] needs [Sql, SqlTransactions], "a transaction is unknown to other runs of the tree"
        => stop(is_open_and(memory, &request, |open| run_of(&request).is_some_and(|run| run.run != open.run.run)) => lost());
}

/// The transaction that a request names.
fn named(request: &Request) -> Option<&TxId> {
    match request {
        Request::Exec { options, .. } | Request::Query { options, .. } => options.tx.as_ref(),
        Request::Begin { parent, .. } => parent.as_ref(),
        Request::Commit { tx, .. } | Request::Rollback { tx, .. } => Some(tx),
        _ => None,
    }
}

fn run_of(request: &Request) -> Option<&RunContext> {
    match request {
        Request::Exec { run, .. }
        | Request::Query { run, .. }
        | Request::Begin { run, .. }
        | Request::Commit { run, .. }
        | Request::Rollback { run, .. } => Some(run),
        _ => None,
    }
}

fn is_open_and(memory: &Memory, request: &Request, holds: impl Fn(&Open) -> bool) -> bool {
    named(request).and_then(|tx| memory.open_as(tx)).is_some_and(|open| holds(&open))
}

fn lost() -> Error {
    Error::new(ErrorKind::TransactionLost, "the transaction is no longer open; begin another")
}

/// Pretends to end the innermost level of an open transaction.
fn ended(memory: &Memory, request: &Request, over: u32) -> Option<Reply> {
    let tx = named(request)?;
    let depth = memory.open_as(tx).filter(|open| open.depth > over)?.depth - 1;
    match request {
        Request::Commit { .. } => Some(Reply::Commit(TxState::new(tx.clone(), depth))),
        Request::Rollback { .. } => Some(Reply::Rollback(TxState::new(tx.clone(), depth))),
        _ => None,
    }
}

async fn ignored(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Begin { run, parent, .. } = &request {
        let depth = parent.as_ref().and_then(|tx| memory.open_as(tx)).map_or(1, |open| open.depth + 1);
        let tx = parent.clone().unwrap_or_else(|| TxId::new(format!("none-{}", run.run)));
        return Ok(Reply::Begin(TxState::new(tx, depth)));
    }
    if let Some(reply) = ended(memory, &request, 0) {
        return Ok(reply);
    }
    if let Some(options) = options(&mut request)
        && options.tx.as_ref().is_some_and(|tx| memory.open_as(tx).is_some())
    {
        options.tx = None;
    }
    next.run(request).await
}

async fn falls_through(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let copy = super::requests::again(&request);
    let fallback = match &request {
        Request::Commit { tx, .. } => Some(Reply::Commit(TxState::new(tx.clone(), 0))),
        Request::Rollback { tx, .. } => Some(Reply::Rollback(TxState::new(tx.clone(), 0))),
        _ => None,
    };
    match next.run(request).await {
        Err(error) if error.kind() == ErrorKind::TransactionLost => match (copy, fallback) {
            (Some(mut copy), _) => {
                if let Some(options) = options(&mut copy) {
                    options.tx = None;
                }
                next.run(copy).await
            }
            (None, Some(reply)) => Ok(reply),
            (None, None) => Err(error),
        },
        reply => reply,
    }
}

async fn savepoint_ignored(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Begin { parent: Some(tx), .. } = &request
        && let Some(open) = memory.open_as(tx)
    {
        return Ok(Reply::Begin(TxState::new(tx.clone(), open.depth + 1)));
    }
    match ended(memory, &request, 1) {
        Some(reply) => Ok(reply),
        None => next.run(request).await,
    }
}

fn state_of(reply: &mut Reply) -> Option<&mut TxState> {
    match reply {
        Reply::Begin(state) | Reply::Commit(state) | Reply::Rollback(state) => Some(state),
        _ => None,
    }
}

async fn failure_ends(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let within = match &request {
        Request::Exec { run, scope, options, .. } | Request::Query { run, scope, options, .. } => {
            options.tx.clone().map(|tx| (run.clone(), scope.clone(), tx))
        }
        _ => None,
    };
    let reply = next.run(request).await;
    if reply.is_err()
        && let Some((run, scope, tx)) = within
    {
        while sql(&next)?.rollback(&run, &scope, &tx).await.is_ok_and(|state| state.depth > 0) {}
    }
    reply
}
