//! Transactions with missing guarantees.

use std::thread;

use memory_core::sql::{StatementOptions, TxId, TxState};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, RunContext, Scope, ScopeKind};

use super::requests::{nothing, options, sql};
use crate::mutants::memory::{Memory, Open};
use crate::mutants::mutant::mutants;

mutants! {
    "sql.tx-ignored": ["TX-1", "TX-2"] needs [Sql, SqlTransactions], "statements in a transaction are committed immediately" => around(ignored);
    "sql.commit-rolls-back": ["TX-2"] needs [Sql, SqlTransactions], "`commit` rolls back" => around(commit_rolls_back);
    "sql.rollback-commits": ["TX-2"] needs [Sql, SqlTransactions], "`rollback` commits" => around(rollback_commits);
    "sql.dirty-reads": ["TX-2", "TX-14"] needs [Sql, SqlTransactions], "queries see uncommitted changes" => around(dirty_reads);
    "sql.own-writes-unseen": ["TX-2"] needs [Sql, SqlTransactions], "a transaction does not see its own writes"
        => ask(Request::Query { options, sql, .. } if sql != "SELECT 1" => options.tx = None);
    "sql.unnamed-joins": ["TX-3"] needs [Sql, SqlTransactions], "a run's statements outside its open transaction join it" => around(unnamed_joins);
    "sql.unknown-tx-falls-through": ["TX-4", "TX-8"] needs [Sql, SqlTransactions], "a statement in an unknown transaction is committed immediately" => around(falls_through);
    "sql.tx-of-any-scope": ["TX-4", "OWN-1"] needs [Sql, SqlTransactions], "a transaction accepts statements for any scope" => around(any_scope);
    "sql.tx-names-return": ["TX-15"] needs [Sql, SqlTransactions], "transaction ids are reused" => around(names_return);
    "sql.savepoint-rolls-all-back": ["TX-5"] needs [Sql, SqlTransactions], "rolling back a savepoint ends the transaction" => around(rolls_all_back);
    "sql.savepoint-ignored": ["TX-5"] needs [Sql, SqlTransactions], "a savepoint is counted but not set" => around(savepoint_ignored);
    "sql.savepoint-commits-all": ["TX-5"] needs [Sql, SqlTransactions], "committing a savepoint ends the transaction" => around(commits_all);
    "sql.depth-always-one": ["TX-1", "TX-5"] needs [Sql, SqlTransactions], "`depth` is 1 while the transaction is open"
        => answer(|reply| if let Some(state) = state_of(reply) { state.depth = state.depth.min(1); });
    "sql.depth-from-zero": ["TX-1"] needs [Sql, SqlTransactions], "`depth` counts savepoints"
        => answer(|reply| if let Some(state) = state_of(reply) { state.depth = state.depth.saturating_sub(1); });
    "sql.savepoints-without-limit": ["TX-6"] needs [Sql, SqlTransactions], "a savepoint over the limit is only pretended" => around(no_depth_limit);
    "sql.limits-untyped": ["TX-6", "TX-7"] needs [Sql, SqlTransactions], "exceeding a transaction limit is `unavailable`"
        => refuse(ErrorKind::TransactionLimit => ErrorKind::Unavailable);
    "sql.tx-limit-leaks": ["TX-7"] needs [Sql, SqlTransactions], "an ended transaction counts as open" => around(limit_leaks);
    "sql.failure-ends-tx": ["TX-8"] needs [Sql, SqlTransactions], "a failing statement rolls back the transaction" => around(failure_ends);
    "sql.failure-untold": ["TX-8", "TX-16"] needs [Sql, SqlTransactions], "an error does not give the transaction's state"
        => refuse(|_, error| Error::new(error.kind(), error.message().to_owned()));
    "sql.refused-commit-succeeds": ["TX-16"] needs [Sql, SqlTransactions], "a refused commit is reported as done" => around(refused_commit);
    "sql.tx-of-its-thread": ["TX-9"] needs [Sql, SqlTransactions], "a transaction is unknown to calls from another thread" => around(of_its_thread);
    "sql.tx-for-a-while": ["TX-9"] needs [Sql, SqlTransactions], "a transaction expires even if it is used" => around(for_a_while);
    "sql.run-end-leaves-tx": ["TX-10", "DBS-8"] needs [Sql, SqlTransactions], "the end of a run leaves its transactions open"
        => instead(Request::EndRun { .. } => Ok(Reply::EndRun(())));
    "sql.run-end-in-its-scope": ["TX-10"] needs [Sql, SqlTransactions], "the end of a run rolls back only in its own scope" => around(end_in_its_scope);
    "sql.run-end-ends-all": ["TX-10"] needs [Sql, SqlTransactions], "the end of a run rolls back every transaction" => around(end_ends_all);
    "sql.readers-wait": ["TX-11"] needs [Sql, SqlTransactions], "a query next to an open transaction fails" => around(readers_wait);
    "sql.writers-give-up": ["TX-12"] needs [Sql, SqlTransactions], "a write next to an open transaction fails at once" => around(writers_give_up);
    "sql.begin-gives-up": ["TX-12", "TIM-3"] needs [Sql, SqlTransactions], "`begin` next to an open transaction fails at once" => around(begin_gives_up);
    "sql.dropped-begin-stays": ["TX-13"] needs [Sql, SqlTransactions], "a dropped `begin` leaves its transaction open" => around(dropped_begin);
    "sql.tx-of-its-run": ["TX-14"] needs [Sql, SqlTransactions], "a transaction is unknown to other runs of the tree" => around(of_its_run);
}

/// Runs a request and tracks open transactions.
async fn counted(memory: &Memory, request: Request, next: &Next<'_>) -> Result<Reply> {
    let asked = match &request {
        Request::Begin { run, scope, .. } => Some((run.clone(), scope.clone())),
        _ => None,
    };
    let reply = next.run(request).await?;
    match (&reply, asked) {
        (Reply::Begin(state), Some((run, scope))) => note(memory, state, &run, &scope),
        (Reply::Commit(state) | Reply::Rollback(state), _) => {
            let mut memory = memory.lock();
            memory.open.retain(|open| open.tx != state.tx || state.depth > 0);
            memory
                .open
                .iter_mut()
                .filter(|open| open.tx == state.tx)
                .for_each(|open| open.depth = state.depth);
        }
        _ => {}
    }
    Ok(reply)
}

fn note(memory: &Memory, state: &TxState, run: &RunContext, scope: &Scope) {
    let since = memory.now();
    let mut memory = memory.lock();
    if let Some(open) = memory.open.iter_mut().find(|open| open.tx == state.tx) {
        open.depth = state.depth;
        return;
    }
    memory.open.push(Open {
        tx: state.tx.clone(),
        scope: scope.clone(),
        run: run.clone(),
        depth: state.depth,
        since,
        thread: thread::current().id(),
    });
}

fn open_in(memory: &Memory, scope: &Scope) -> Option<Open> {
    memory.lock().open.iter().find(|open| open.scope == *scope).cloned()
}

fn open_as(memory: &Memory, tx: &TxId) -> Option<Open> {
    memory.lock().open.iter().find(|open| open.tx == *tx).cloned()
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

fn lost() -> Error {
    Error::new(ErrorKind::TransactionLost, "the transaction is no longer open; begin another")
}

async fn ignored(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::Begin { run, scope, parent } => {
            let depth = parent.as_ref().and_then(|tx| open_as(memory, tx)).map_or(1, |open| open.depth + 1);
            let tx = parent.clone().unwrap_or_else(|| TxId::new(format!("none-{}", run.run)));
            let state = TxState::new(tx, depth);
            note(memory, &state, run, scope);
            return Ok(Reply::Begin(state));
        }
        Request::Commit { tx, .. } | Request::Rollback { tx, .. } => {
            let is_commit = matches!(request, Request::Commit { .. });
            if let Some(open) = open_as(memory, tx) {
                let state = TxState::new(tx.clone(), open.depth - 1);
                let mut memory = memory.lock();
                memory.open.retain(|open| open.tx != state.tx || state.depth > 0);
                memory.open.iter_mut().filter(|open| open.tx == state.tx).for_each(|open| open.depth -= 1);
                return Ok(if is_commit { Reply::Commit(state) } else { Reply::Rollback(state) });
            }
        }
        _ => {}
    }
    if let Some(options) = options(&mut request)
        && options.tx.as_ref().is_some_and(|tx| open_as(memory, tx).is_some())
    {
        options.tx = None;
    }
    next.run(request).await
}

async fn commit_rolls_back(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Commit { run, scope, tx } => {
            Ok(Reply::Commit(sql(&next)?.rollback(&run, &scope, &tx).await?))
        }
        request => next.run(request).await,
    }
}

async fn rollback_commits(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Rollback { run, scope, tx } => {
            Ok(Reply::Rollback(sql(&next)?.commit(&run, &scope, &tx).await?))
        }
        request => next.run(request).await,
    }
}

async fn dirty_reads(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Query { scope, options, run, .. } = &mut request
        && options.tx.is_none()
        && let Some(open) = open_in(memory, scope)
    {
        options.tx = Some(open.tx);
        *run = open.run;
    }
    counted(memory, request, &next).await
}

async fn unnamed_joins(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Exec { run, options, .. } = &request
        && options.tx.is_none()
        && memory.lock().open.iter().any(|open| open.run.run == run.run)
    {
        // It is dropped with the transaction, which is always rolled back.
        return Ok(nothing(true));
    }
    counted(memory, request, &next).await
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

async fn any_scope(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Some(open) = named(&request).and_then(|tx| open_as(memory, tx)) {
        super::requests::change_scope(&mut request, |scope| *scope = open.scope.clone());
        match &mut request {
            Request::Exec { run, .. } | Request::Query { run, .. } => *run = open.run,
            _ => {}
        }
    }
    counted(memory, request, &next).await
}

async fn names_return(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_first = matches!(&request, Request::Begin { parent: None, .. });
    let mut reply = counted(memory, request, &next).await?;
    if let Reply::Begin(state) = &mut reply
        && is_first
    {
        state.tx = TxId::new(format!("{}", memory.lock().open.len()));
    }
    // A renamed transaction is not found again; only the names matter here.
    Ok(reply)
}

async fn rolls_all_back(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Rollback { run, scope, tx } = request else {
        return counted(memory, request, &next).await;
    };
    loop {
        let (run, scope, tx) = (run.clone(), scope.clone(), tx.clone());
        let reply = counted(memory, Request::Rollback { run, scope, tx }, &next).await?;
        if matches!(&reply, Reply::Rollback(state) if state.depth == 0) {
            return Ok(reply);
        }
    }
}

async fn commits_all(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Commit { run, scope, tx } = request else { return counted(memory, request, &next).await };
    loop {
        let (run, scope, tx) = (run.clone(), scope.clone(), tx.clone());
        let reply = counted(memory, Request::Commit { run, scope, tx }, &next).await?;
        if matches!(&reply, Reply::Commit(state) if state.depth == 0) {
            return Ok(reply);
        }
    }
}

async fn savepoint_ignored(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::Begin { run, scope, parent: Some(tx) } => {
            if let Some(open) = open_as(memory, tx) {
                let state = TxState::new(tx.clone(), open.depth + 1);
                note(memory, &state, run, scope);
                return Ok(Reply::Begin(state));
            }
        }
        Request::Commit { run, scope, tx } | Request::Rollback { run, scope, tx } => {
            let is_commit = matches!(request, Request::Commit { .. });
            if let Some(open) = open_as(memory, tx).filter(|open| open.depth > 1) {
                let state = TxState::new(tx.clone(), open.depth - 1);
                note(memory, &state, run, scope);
                return Ok(if is_commit { Reply::Commit(state) } else { Reply::Rollback(state) });
            }
        }
        _ => {}
    }
    counted(memory, request, &next).await
}

fn state_of(reply: &mut Reply) -> Option<&mut TxState> {
    match reply {
        Reply::Begin(state) | Reply::Commit(state) | Reply::Rollback(state) => Some(state),
        _ => None,
    }
}

async fn no_depth_limit(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let parent = match &request {
        Request::Begin { parent, .. } => parent.clone(),
        _ => None,
    };
    match (next.run(request).await, parent) {
        (Err(error), Some(tx)) if error.kind() == ErrorKind::TransactionLimit => {
            Ok(Reply::Begin(TxState::new(tx, 18)))
        }
        (reply, _) => reply,
    }
}

async fn limit_leaks(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_begin = matches!(&request, Request::Begin { parent: None, .. });
    if is_begin && memory.lock().flag {
        return Err(Error::new(ErrorKind::TransactionLimit, "too many transactions are open; end one"));
    }
    let reply = next.run(request).await;
    if matches!(&reply, Err(error) if is_begin && error.kind() == ErrorKind::TransactionLimit) {
        memory.lock().flag = true;
    }
    reply
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

async fn refused_commit(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let tx = match &request {
        Request::Commit { tx, .. } => Some(tx.clone()),
        _ => None,
    };
    match (next.run(request).await, tx) {
        (Err(error), Some(tx)) if error.kind() == ErrorKind::InvalidArgument => {
            Ok(Reply::Commit(TxState::new(tx, 0)))
        }
        (reply, _) => reply,
    }
}

async fn of_its_thread(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Some(open) = named(&request).and_then(|tx| open_as(memory, tx))
        && open.thread != thread::current().id()
    {
        return Err(lost());
    }
    counted(memory, request, &next).await
}

async fn for_a_while(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Some(open) = named(&request).and_then(|tx| open_as(memory, tx))
        && memory.now().as_millis() - open.since.as_millis() > 1_600
    {
        return Err(lost());
    }
    counted(memory, request, &next).await
}

async fn end_in_its_scope(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::EndRun { tenant, root_run } => {
            sql(&next)?.drop_sql_scope(&Scope::new(tenant, ScopeKind::Run, root_run)).await?;
            Ok(Reply::EndRun(()))
        }
        request => next.run(request).await,
    }
}

async fn end_ends_all(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::EndRun { .. } = &request {
        let open: Vec<Open> = std::mem::take(&mut memory.lock().open);
        for Open { tx, scope, run, .. } in open {
            while sql(&next)?.rollback(&run, &scope, &tx).await.is_ok_and(|state| state.depth > 0) {}
        }
    }
    counted(memory, request, &next).await
}

async fn readers_wait(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Query { scope, options: StatementOptions { tx: None, .. }, .. } = &request
        && open_in(memory, scope).is_some()
    {
        return Err(Error::new(ErrorKind::Timeout, "a transaction is open on this scope; wait for its end"));
    }
    counted(memory, request, &next).await
}

async fn writers_give_up(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Exec { scope, options: StatementOptions { tx: None, .. }, .. } = &request
        && open_in(memory, scope).is_some()
    {
        return Err(Error::new(ErrorKind::Unavailable, "the database is locked; try again"));
    }
    counted(memory, request, &next).await
}

async fn begin_gives_up(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Begin { scope, parent: None, .. } = &request
        && open_in(memory, scope).is_some()
    {
        return Err(Error::new(ErrorKind::Unavailable, "the database is locked; try again"));
    }
    counted(memory, request, &next).await
}

async fn dropped_begin(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_begin = matches!(&request, Request::Begin { parent: None, .. });
    // The next one would wait for this one.
    if !is_begin || std::mem::replace(&mut memory.lock().flag, true) {
        return next.run(request).await;
    }
    let reply = super::deadlines::insist(Box::pin(async { next.run(request).await }));
    super::deadlines::once_more().await;
    reply
}

async fn of_its_run(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Some(open) = named(&request).and_then(|tx| open_as(memory, tx))
        && run_of(&request).is_some_and(|run| run.run != open.run.run)
    {
        return Err(lost());
    }
    counted(memory, request, &next).await
}
