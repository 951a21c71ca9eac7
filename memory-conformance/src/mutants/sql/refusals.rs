//! Refusals that are missing or unhelpful.

use memory_core::{Error, ErrorKind, Next, Op, Reply, Request, Result};

use super::requests::{change_statement, nothing, sql, statement};
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "sql.second-statement-ignored": ["REF-1"] needs [Sql], "only the first of two statements runs"
        => ask(|request| change_statement(request, |sql, _| {
            if let Some((first, _)) = sql.split_once("; ") {
                *sql = first.to_owned();
            }
        }));
    "sql.semicolon-refused": ["REF-1"] needs [Sql], "a final semicolon counts as a second statement"
        => stop(statement(&request).is_some_and(|sql| sql.contains(';'))
            => Error::new(ErrorKind::StatementRefused, "one statement a call; send them one by one") .with_detail("construct", "a second statement"));
    "sql.query-writes": ["REF-2"] needs [Sql], "`query` runs writes" => around(query_writes_where(false, request, next).await);
    "sql.query-writes-in-transactions": ["REF-2"] needs [Sql, SqlTransactions], "`query` runs writes within a transaction"
        => around(query_writes_where(true, request, next).await);
    "sql.transaction-words-ignored": ["REF-3"] needs [Sql], "BEGIN, COMMIT and ROLLBACK succeed without effect"
        => around({
            if matches!(&request, Request::Exec { sql, .. } if is_transaction_word(sql)) {
                return Ok(nothing(true));
            }
            next.run(request).await
        });
    "sql.transaction-words-end-it": ["REF-3"] needs [Sql, SqlTransactions], "COMMIT and ROLLBACK end the transaction they run in"
        => ask(Request::Exec { run, scope, sql: text, options, .. } => {
            if let Some(tx) = &options.tx && ["COMMIT", "END", "ROLLBACK"].contains(&text.as_str()) {
                sql(&next)?.commit(run, scope, tx).await?;
                return Ok(nothing(true));
            }
        });
    "sql.settings-ignored": ["REF-4", "REF-5"] needs [Sql], "refused statements succeed without effect"
        => forgive(Request::Exec { .. }, ErrorKind::StatementRefused => nothing(true));
    "sql.settings-ignored-in-query": ["REF-4"] needs [Sql], "`query` returns no rows for refused statements"
        => forgive(Request::Query { .. }, ErrorKind::StatementRefused => nothing(false));
    "sql.names-not-reserved": ["REF-5"] needs [Sql], "agents can create reserved names"
        => ask(|request| change_statement(request, |sql, _| *sql = sql.replace("_mem_", "mem_").replace("sqlite_mine", "mine")));
    "sql.refusals-untyped": ["REF-4", "REF-7"] needs [Sql], "refusals are `internal`" => refuse(|_, error| {
        match error.kind() {
            ErrorKind::StatementRefused | ErrorKind::ReadOnly => retyped(&error, ErrorKind::Internal),
            _ => error,
        }
    });
    "sql.refusals-without-words": ["REF-6"] needs [Sql], "a refusal has no explanation" => refuse(|_, error| {
        match error.kind() {
            ErrorKind::StatementRefused => Error::new(ErrorKind::StatementRefused, "statement refused"),
            _ => error,
        }
    });
    "sql.engine-errors-untyped": ["REF-7"] needs [Sql], "an engine error is `internal`"
        => refuse(|op, error| {
            match (op, error.kind()) {
                (Op::Exec | Op::Query, ErrorKind::InvalidArgument) => retyped(&error, ErrorKind::Internal),
                _ => error,
            }
        });
    "sql.constraint-unnamed": ["REF-8"] needs [Sql], "a violated constraint is not named"
        => refuse(|_, error| {
            match error.kind() {
                ErrorKind::InvalidArgument => Error::invalid(error.message().to_owned()),
                _ => error,
            }
        });
    "sql.errors-show-arguments": ["REF-8"] needs [Sql], "errors show the arguments" => around({
        let args = match &request {
            Request::Exec { args, .. } | Request::Query { args, .. } => format!("{args:?}"),
            _ => String::new(),
        };
        next.run(request).await.map_err(|error| error.with_detail("arguments", args))
    });
    "sql.long-statements-cut": ["REF-9"] needs [Sql], "a statement over the limit is cut"
        => ask_ahead(|request| change_statement(request, |sql, _| if sql.len() > 1 << 20 { "SELECT 1".clone_into(sql); }));
    "sql.long-statements-untyped": ["REF-9"] needs [Sql], "a statement nested too deeply is an internal error"
        => around({
            let is_long = statement(&request).is_some_and(|sql| sql.len() > 8_000);
            next.run(request)
                .await
                .map_err(|error| if is_long { retyped(&error, ErrorKind::Internal) } else { error })
        });
}

async fn query_writes_where(only_in_tx: bool, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Query { run, scope, sql: text, args, options } = request else {
        return next.run(request).await;
    };
    let facet = sql(&next)?;
    match facet.query(&run, &scope, &text, &args, options.clone()).await {
        Err(error) if error.kind() == ErrorKind::ReadOnly && (!only_in_tx || options.tx.is_some()) => {
            let outcome = facet.exec(&run, &scope, &text, &args, options).await?;
            Ok(Reply::Query(outcome.returning.unwrap_or_default()))
        }
        answer => answer.map(Reply::Query),
    }
}

fn is_transaction_word(sql: &str) -> bool {
    let sql = sql.to_ascii_uppercase();
    ["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"].iter().any(|word| sql.starts_with(word))
}

fn retyped(error: &Error, kind: ErrorKind) -> Error {
    let mut changed = Error::new(kind, error.message().to_owned());
    for (name, value) in error.details() {
        changed = changed.with_detail(name.as_str(), value.clone());
    }
    changed
}
