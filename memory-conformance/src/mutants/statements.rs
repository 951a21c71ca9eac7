//! Defects between our own stages and their tables: something different is written or read.

use memory_core::sql::{ExecOutcome, SqlValue};
use memory_core::{Next, Reply, Request, Result};

use super::memory::Memory;

pub(super) fn set(args: &mut [SqlValue], at: usize, value: SqlValue) {
    if let Some(arg) = args.get_mut(at) {
        *arg = value;
    }
}

/// A reply that this many rows were written.
pub(super) fn written(rows: u64) -> Reply {
    let mut outcome = ExecOutcome::default();
    outcome.rows_affected = rows;
    Reply::Exec(outcome)
}

fn reads(request: &Request, what: &str) -> bool {
    matches!(request, Request::Query { sql, .. } if sql.contains(what))
}

/// Queries that contain `what` find nothing.
pub(super) async fn nothing_of(what: &str, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_asked = reads(&request, what);
    let mut reply = next.run(request).await?;
    if let Reply::Query(rows) = &mut reply
        && is_asked
    {
        rows.rows.clear();
    }
    Ok(reply)
}

/// Queries that contain `what` find this value in a column.
pub(super) async fn column_of(
    what: &str,
    column: &str,
    value: SqlValue,
    request: Request,
    next: Next<'_>,
) -> Result<Reply> {
    let is_asked = reads(&request, what);
    let mut reply = next.run(request).await?;
    if let Reply::Query(rows) = &mut reply
        && is_asked
        && let Some(at) = rows.columns.iter().position(|name| name == column)
    {
        rows.rows.iter_mut().for_each(|row| set(row, at, value.clone()));
    }
    Ok(reply)
}

/// Commits what should be rolled back at this depth of a transaction.
pub(super) async fn keeps_what_failed(
    memory: &Memory,
    depth: u32,
    request: Request,
    next: Next<'_>,
) -> Result<Reply> {
    match request {
        Request::Rollback { run, scope, tx }
            if memory.open_as(&tx).is_some_and(|open| open.depth == depth) =>
        {
            next.run(Request::Commit { run, scope, tx }).await
        }
        request => next.run(request).await,
    }
}
