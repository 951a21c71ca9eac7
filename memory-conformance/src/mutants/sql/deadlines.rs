//! Quotas, deadlines and concurrency.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use memory_core::sql::{SqlUsage, SqlValue, StatementOptions};
use memory_core::{Error, ErrorKind, Next, Quota, Reply, Request, Result, Scope};

use super::requests::{again, exec, nothing, options, query, sql, statement, table_of};
use crate::harness::executor::BoxFuture;
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::let_others_in;

mutants! {
    |memory, request, next|
    "sql.quota-ignored": ["QTA-1"] needs [Sql], "quotas are ignored"
        => ask(|request| if let Some(options) = options(request) { options.quota_bytes = None; });
    "sql.quota-looked-at-before": ["QTA-1"] needs [Sql], "a statement may exceed the quota once"
        => ask(Request::Exec { scope, options, sql: text, .. } => {
            if let Some(quota) = options.quota_bytes.take() && !text.starts_with('D') && sql(&next)?.sql_usage(scope).await?.bytes + 16_384 > quota {
                return Err(is_full());
            }
        });
    "sql.quota-of-inserts": ["QTA-1"] needs [Sql], "the quota applies only to inserts" => ask(|request| {
        let is_insert = statement(request).is_some_and(|sql| sql.starts_with("INSERT"));
        if let Some(options) = options(request)
            && !is_insert
        {
            options.quota_bytes = None;
        }
    });
    "sql.quota-stays": ["QTA-1"] needs [Sql], "a scope keeps its first quota"
        => ask(Request::Exec { scope, options, .. } => {
            if let Some(quota) = options.quota_bytes {
                let first = Quota { max_entries: None, max_bytes: Some(quota) };
                options.quota_bytes = memory.lock().quotas.entry(scope.clone()).or_insert(first).max_bytes;
            }
        });
    "sql.quota-blocks-deletes": ["QTA-2"] needs [Sql], "deletes are refused at the quota" => around(blocks_deletes);
    "sql.quota-blocks-reading": ["QTA-3"] needs [Sql], "reads are refused over the quota"
        => around({
            if let Request::Exec { scope, options, .. } | Request::Query { scope, options, .. } = &request
                && let Some(quota) = options.quota_bytes
                && sql(&next)?.sql_usage(scope).await?.bytes > quota
            {
                return Err(is_full());
            }
            next.run(request).await
        });
    "sql.quota-with-a-margin": ["QTA-4"] needs [Sql], "the quota may be exceeded by a quarter"
        => ask(|request| {
            if let Some(options) = options(request) {
                options.quota_bytes = options.quota_bytes.map(|quota| quota + quota / 4);
            }
        });
    "sql.quota-untyped": ["QTA-1", "TX-8"] needs [Sql], "exceeding the quota is `unavailable`"
        => refuse(ErrorKind::QuotaExceeded => ErrorKind::Unavailable);
    "sql.usage-never-shrinks": ["QTA-4"] needs [Sql], "usage never shrinks"
        => answer(Reply::SqlUsage(usage) => {
            let mut memory = memory.lock();
            let most = memory.notes.entry("usage".to_owned()).or_default();
            *most = usage.bytes.max(*most);
            usage.bytes = *most;
        });
    "sql.usage-unknown": ["QTA-4", "DBS-1"] needs [Sql], "usage is always one page" => answer(|reply| {
        let page = |usage: &mut SqlUsage| usage.bytes = usage.bytes.min(4_096);
        match reply {
            Reply::SqlUsage(usage) => page(usage),
            Reply::SqlScopes(list) => list.scopes.iter_mut().for_each(|(_, usage)| page(usage)),
            _ => {}
        }
    });
    "sql.usage-of-the-tenant": ["QTA-5"] needs [Sql], "usage includes all of the tenant's scopes"
        => over(Request::SqlUsage { scope } => {
            let facet = sql(&next)?;
            let page = facet.sql_scopes(&scope.tenant, memory_core::sql::SqlScopesQuery::default()).await?;
            let mut usage = facet.sql_usage(&scope).await?;
            usage.bytes = page.scopes.iter().map(|(_, usage)| usage.bytes).sum();
            Ok(Reply::SqlUsage(usage))
        });
    "sql.late-is-empty": ["TIM-1"] needs [Sql], "a statement past its deadline returns no rows" => around({
        let (is_exec, is_query) =
            (matches!(request, Request::Exec { .. }), matches!(request, Request::Query { .. }));
        match next.run(request).await {
            Err(error) if error.kind() == ErrorKind::Timeout && (is_exec || is_query) => Ok(nothing(is_exec)),
            reply => reply,
        }
    });
    "sql.late-untyped": ["TIM-1", "TX-12"] needs [Sql], "a statement past its deadline is `unavailable`"
        => refuse(ErrorKind::Timeout => ErrorKind::Unavailable);
    "sql.deadline-of-seconds": ["TIM-1"] needs [Sql], "the deadline in milliseconds is taken for a longer one"
        => ask(|request| {
            if let Some(options) = options(request) {
                options.timeout = options.timeout.map(|timeout| timeout.saturating_mul(90));
            }
        });
    "sql.late-wedges": ["TIM-2"] needs [Sql], "a scope is unusable after a statement passed its deadline" => around(late_wedges);
    "sql.lost-updates": ["TIM-3"] needs [Sql], "an update reads and writes in separate steps"
        => ask(Request::Exec { scope, sql: text, .. } if text == "UPDATE t SET n = n + 1" => {
            let found = query(&next, scope, "SELECT n FROM t").await?;
            if let Some([SqlValue::Int(n)]) = found.rows.first().map(Vec::as_slice) {
                let_others_in();
                *text = format!("UPDATE t SET n = {}", n + 1);
            }
        });
    "sql.statements-in-steps": ["TIM-4"] needs [Sql], "readers see a half-done update"
        => ask(Request::Exec { scope, sql, options: StatementOptions { tx: None, .. }, .. } if sql.starts_with("UPDATE t SET n = ") => {
            exec(&next, scope, "INSERT INTO t VALUES (-1)").await?;
            std::thread::sleep(Duration::from_millis(2));
            exec(&next, scope, "DELETE FROM t WHERE n = -1").await?;
        });
    "sql.dropped-half": ["TIM-5"] needs [Sql], "a dropped insert wrote its first row" => around(dropped_half);
    "sql.dropped-query-wedges": ["TIM-5"] needs [Sql], "a dropped query leaves the scope locked" => around({
        let Request::Query { scope, .. } = &request else { return next.run(request).await };
        let scope: Scope = scope.clone();
        if !memory.lock().scopes.insert(scope.clone()) {
            return Err(Error::new(ErrorKind::Unavailable, "the database is locked; try again"));
        }
        let reply = next.run(request).await;
        memory.lock().scopes.remove(&scope);
        reply
    });
}

fn is_full() -> Error {
    Error::new(ErrorKind::QuotaExceeded, "the scope is at its quota; delete something")
}

async fn blocks_deletes(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Exec { scope, .. } = &request else { return next.run(request).await };
    let scope = scope.clone();
    if memory.lock().scopes.contains(&scope) {
        return Err(is_full());
    }
    let reply = next.run(request).await;
    if matches!(&reply, Err(error) if error.kind() == ErrorKind::QuotaExceeded) {
        memory.lock().scopes.insert(scope);
    }
    reply
}

async fn late_wedges(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let (Request::Exec { scope, .. } | Request::Query { scope, .. }) = &request else {
        return next.run(request).await;
    };
    let scope = scope.clone();
    if memory.lock().scopes.contains(&scope) {
        return Err(Error::new(ErrorKind::Unavailable, "the database is busy; try again"));
    }
    let reply = next.run(request).await;
    if matches!(&reply, Err(error) if error.kind() == ErrorKind::Timeout) {
        memory.lock().scopes.insert(scope);
    }
    reply
}

/// Runs a future to its end within this poll.
pub(super) fn insist<T>(mut future: BoxFuture<'_, T>) -> T {
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for one more poll.
pub(super) async fn once_more() {
    let mut polled = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn dropped_half(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let halves = match (&request, again(&request), again(&request)) {
        (Request::Exec { sql, .. }, Some(first), Some(rest)) => table_of(sql)
            .filter(|_| sql.starts_with("INSERT INTO t VALUES"))
            .zip(sql.split_once("), ("))
            .map(|(table, (one, more))| {
                (first, format!("{one})"), rest, format!("INSERT INTO {table} VALUES ({more}"))
            }),
        _ => None,
    };
    let Some((mut first, one, mut rest, more)) = halves else { return next.run(request).await };
    super::requests::change_statement(&mut first, |sql, _| *sql = one);
    super::requests::change_statement(&mut rest, |sql, _| *sql = more);
    insist(Box::pin(async { next.run(first).await }))?;
    once_more().await;
    next.run(rest).await
}
