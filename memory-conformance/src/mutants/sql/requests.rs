//! Requests by mutants of the SQL facet, and changes of requests and replies.

use memory_core::sql::{ExecOutcome, Rows, SqlValue, StatementOptions};
use memory_core::{Error, Next, Reply, Request, Result, RunContext, Scope, ScopeId, SqlFacet};

/// The SQL facet of the wrapped provider.
pub(super) fn sql<'a>(next: &'a Next<'_>) -> Result<&'a dyn SqlFacet> {
    next.provider().sql().ok_or_else(|| Error::internal("a mutant stands around no SQL facet"))
}

/// A run that no case uses.
pub(super) fn own_run(scope: &Scope) -> Result<RunContext> {
    Ok(RunContext::new(scope.tenant.clone(), ScopeId::new("mutant")?, ScopeId::new("mutant")?))
}

/// Runs a custom statement.
pub(super) async fn exec(next: &Next<'_>, scope: &Scope, statement: &str) -> Result<ExecOutcome> {
    sql(next)?.exec(&own_run(scope)?, scope, statement, &[], StatementOptions::default()).await
}

/// Runs a custom query.
pub(super) async fn query(next: &Next<'_>, scope: &Scope, statement: &str) -> Result<Rows> {
    sql(next)?.query(&own_run(scope)?, scope, statement, &[], StatementOptions::default()).await
}

/// The statement of a request.
pub(super) fn statement(request: &Request) -> Option<&str> {
    match request {
        Request::Exec { sql, .. } | Request::Query { sql, .. } => Some(sql),
        _ => None,
    }
}

/// The options of a request.
pub(super) fn options(request: &mut Request) -> Option<&mut StatementOptions> {
    match request {
        Request::Exec { options, .. } | Request::Query { options, .. } => Some(options),
        _ => None,
    }
}

/// Changes the text and arguments of a statement.
pub(super) fn change_statement(request: &mut Request, change: impl FnOnce(&mut String, &mut Vec<SqlValue>)) {
    if let Request::Exec { sql, args, .. } | Request::Query { sql, args, .. } = request {
        change(sql, args);
    }
}

/// The rows of an answer.
pub(super) fn rows_of(reply: &mut Reply) -> Option<&mut Rows> {
    match reply {
        Reply::Query(rows) => Some(rows),
        Reply::Exec(outcome) => outcome.returning.as_mut(),
        _ => None,
    }
}

/// Changes every value of an answer.
pub(super) fn change_values(reply: &mut Reply, change: fn(&SqlValue) -> Option<SqlValue>) {
    for row in rows_of(reply).into_iter().flat_map(|rows| &mut rows.rows) {
        for value in row {
            if let Some(changed) = change(value) {
                *value = changed;
            }
        }
    }
}

/// An empty answer for the same operation, if it was a statement.
pub(super) fn nothing(is_exec: bool) -> Reply {
    if is_exec { Reply::Exec(ExecOutcome::default()) } else { Reply::Query(Rows::default()) }
}

/// A copy of a request for a second run.
pub(super) fn again(request: &Request) -> Option<Request> {
    Some(match request {
        Request::Exec { run, scope, sql, args, options } => Request::Exec {
            run: run.clone(),
            scope: scope.clone(),
            sql: sql.clone(),
            args: args.clone(),
            options: options.clone(),
        },
        Request::Query { run, scope, sql, args, options } => Request::Query {
            run: run.clone(),
            scope: scope.clone(),
            sql: sql.clone(),
            args: args.clone(),
            options: options.clone(),
        },
        _ => return None,
    })
}

/// The name of the table in a statement: the word after one of these keywords.
pub(super) fn table_of(sql: &str) -> Option<&str> {
    let mut words = sql.split([' ', '(', '\n']).filter(|word| !word.is_empty());
    let first = words.next()?;
    let found = match first {
        "UPDATE" => words.next(),
        "INSERT" | "DELETE" => words.nth(1),
        _ => None,
    }?;
    found.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then_some(found)
}

/// Changes the scope of a request about SQL.
pub(super) fn change_scope(request: &mut Request, change: impl Fn(&mut Scope)) {
    match request {
        Request::Exec { scope, .. }
        | Request::Query { scope, .. }
        | Request::Begin { scope, .. }
        | Request::Commit { scope, .. }
        | Request::Rollback { scope, .. }
        | Request::DescribeTables { scope, .. }
        | Request::DropSqlScope { scope }
        | Request::SqlUsage { scope }
        | Request::Dump { scope }
        | Request::Restore { scope, .. } => change(scope),
        _ => {}
    }
}

/// Replaces the id of a request's scope, if it has one.
pub(super) fn change_id(scope: &mut Scope, id: &str) {
    if let Ok(id) = ScopeId::new(id) {
        scope.id = id;
    }
}
