//! What statements do.

use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::sql::{Rows, SqlValue};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result};

use super::requests::{again, change_scope, change_statement, exec, statement, table_of};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "sql.rows-reversed": ["SQL-1"] needs [Sql], "rows come in reverse order"
        => answer(Reply::Query(rows) => rows.rows.reverse());
    "sql.rows-lost": ["SQL-1"] needs [Sql], "the last of several rows is missing"
        => answer(Reply::Query(rows) if rows.rows.len() > 1 => rows.rows.pop());
    "sql.insert-forgotten": ["SQL-2"] needs [Sql], "an insert is acknowledged but not run" => around({
        if is_insert(&request) { Ok(super::requests::nothing(true)) } else { next.run(request).await }
    });
    "sql.definition-kept-idle": ["SQL-2"] needs [Sql], "a conditional definition that comes again is not run" => around({
        let is_kept = match &request {
            Request::Exec { scope, sql, .. } if sql.contains(" IF ") => {
                !memory.lock().texts.insert((scope.clone(), sql.clone()))
            }
            _ => false,
        };
        if is_kept { Ok(super::requests::nothing(true)) } else { next.run(request).await }
    });
    "sql.insert-twice": ["SQL-1", "TIM-5"] needs [Sql], "an insert runs twice" => around({
        let copy = again(&request).filter(|_| is_insert(&request));
        let reply = next.run(request).await?;
        match copy {
            Some(copy) => Ok(next.run(copy).await.unwrap_or(reply)),
            None => Ok(reply),
        }
    });
    "sql.handles-cache": ["SQL-2", "TIM-6"] needs [Sql], "a handle caches answers across another handle's writes" => around(handles_cache);
    "sql.handles-apart": ["SQL-2", "TIM-6", "DBS-6"] needs [Sql], "each handle has separate databases" => around(handles_apart);
    "sql.exec-answers-no-select": ["SQL-9"] needs [Sql], "`exec` of a SELECT returns no rows" => around({
        let is_select = matches!(&request, Request::Exec { sql, .. } if sql.starts_with("SELECT"));
        let mut reply = next.run(request).await?;
        if let Reply::Exec(outcome) = &mut reply
            && is_select
        {
            outcome.returning = None;
        }
        Ok(reply)
    });
    "sql.affected-of-before": ["SQL-3"] needs [Sql], "a statement without changes reports the previous count"
        => answer(Reply::Exec(outcome) => {
            let mut memory = memory.lock();
            let before = memory.notes.entry("affected".to_owned()).or_default();
            if outcome.rows_affected == 0 {
                outcome.rows_affected = *before;
            }
            *before = outcome.rows_affected;
        });
    "sql.affected-at-most-one": ["SQL-3"] needs [Sql], "`rows_affected` is 1 for any number of rows"
        => answer(Reply::Exec(outcome) => outcome.rows_affected = outcome.rows_affected.min(1));
    "sql.returning-dropped": ["SQL-4"] needs [Sql], "rows of RETURNING are missing"
        => answer(Reply::Exec(outcome) => outcome.returning = None);
    "sql.like-is-equality": ["SQL-10"] needs [Sql], "LIKE compares the texts"
        => ask(|request| change_statement(request, |sql, _| *sql = sql.replace(" LIKE ", " = ")));
    "sql.long-patterns-cut": ["SQL-10"] needs [Sql], "patterns end after 64 characters"
        => ask(|request| change_statement(request, |sql, args| {
            if let (true, Some(SqlValue::Text(pattern))) = (sql.contains(" LIKE ?"), args.last_mut()) {
                pattern.truncate(64);
            }
        }));
    "sql.power-multiplies": ["SQL-10"] needs [Sql], "`power` multiplies"
        => ask(|request| change_statement(request, |sql, _| *sql = sql.replace("power(2, 10)", "(2 * 10)")));
    "sql.replace-once": ["SQL-10"] needs [Sql], "`replace` replaces the first occurrence only"
        => answer(|reply| super::requests::change_values(reply, |value| match value {
            SqlValue::Text(text) if text == "b<><>a" => Some(SqlValue::Text("b<>ana".to_owned())),
            _ => None,
        }));
    "sql.percentiles-discrete": ["SQL-10"] needs [Sql], "percentiles are not interpolated"
        => ask(|request| change_statement(request, |sql, _| {
            *sql = sql.replace("percentile_cont", "percentile_disc");
        }));
    "sql.words-unmarked": ["SQL-10"] needs [Sql], "the words found are not marked"
        => answer(|reply| super::requests::change_values(reply, |value| match value {
            SqlValue::Text(text) if text.contains("<b>") => {
                Some(SqlValue::Text(text.replace("<b>", "").replace("</b>", "")))
            }
            _ => None,
        }));
    "sql.distance-squared": ["SQL-10"] needs [Sql, SqlVectors], "the Euclidean distance is its square"
        => answer(|reply| super::requests::change_values(reply, |value| {
            (*value == SqlValue::Real(3.0)).then_some(SqlValue::Real(9.0))
        }));
    "sql.columns-unnamed": ["SQL-1", "SQL-5"] needs [Sql], "columns are named by number" => answer(|reply| {
        if let Some(rows) = super::requests::rows_of(reply) {
            for (at, column) in rows.columns.iter_mut().enumerate() {
                *column = format!("column{}", at + 1);
            }
        }
    });
    "sql.columns-only-with-rows": ["SQL-5"] needs [Sql], "an answer without rows has no columns"
        => answer(|reply| {
            if let Some(rows) = super::requests::rows_of(reply)
                && rows.rows.is_empty()
            {
                rows.columns.clear();
            }
        });
    "sql.columns-once": ["SQL-5"] needs [Sql], "a repeated column name is returned once" => answer(columns_once);
    "sql.failure-empties": ["SQL-6", "TIM-1", "TX-8"] needs [Sql], "a failing statement empties its table" => around(failure_empties);
    "sql.recursion-refused": ["SQL-7"] needs [Sql], "recursive queries are refused"
        => stop(statement(&request).is_some_and(|sql| sql.contains("RECURSIVE"))
            => narrow_refusal());
    "sql.sandbox-too-narrow": ["SQL-7"] needs [Sql], "joins, upserts and views are refused"
        => stop(statement(&request).is_some_and(|sql| ["JOIN", "ON CONFLICT", "VIEW"].iter().any(|word| sql.contains(word)))
            => narrow_refusal());
    "sql.references-ignored": ["SQL-7", "REF-8"] needs [Sql], "foreign keys are not enforced"
        => ask(|request| {
            super::requests::change_statement(request, |sql, _| {
                while let Some(at) = sql.find(" REFERENCES ") {
                    let Some(end) = sql.get(at..).and_then(|rest| rest.find(')')) else { break };
                    sql.replace_range(at..=at + end, "");
                }
            });
        });
    "sql.words-in-literals": ["SQL-8", "ARG-1"] needs [Sql], "words in literals and names are treated as statements" => around(words);
}

fn is_insert(request: &Request) -> bool {
    matches!(request, Request::Exec { sql, .. } if sql.starts_with("INSERT"))
}

async fn handles_cache(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::Query { scope, sql, args, options, .. } => {
            let asked = format!("{scope:?} {sql} {args:?} {options:?}");
            let cached = memory.lock().rows.get(&asked).cloned();
            match cached {
                Some(rows) => Ok(Reply::Query(rows)),
                None => {
                    let reply = next.run(request).await?;
                    if let Reply::Query(rows) = &reply {
                        memory.lock().rows.insert(asked, Rows::clone(rows));
                    }
                    Ok(reply)
                }
            }
        }
        Request::Exec { .. }
        | Request::Commit { .. }
        | Request::Rollback { .. }
        | Request::Restore { .. }
        | Request::DropSqlScope { .. }
        | Request::EndRun { .. } => {
            memory.lock().rows.clear();
            next.run(request).await
        }
        _ => next.run(request).await,
    }
}

async fn handles_apart(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    static HANDLES: AtomicU64 = AtomicU64::new(1);
    let handle = *memory
        .lock()
        .notes
        .entry("handle".to_owned())
        .or_insert_with(|| HANDLES.fetch_add(1, Ordering::SeqCst));
    change_scope(&mut request, |scope| {
        super::requests::change_id(scope, &format!("{}~{handle}", scope.id.clone()));
    });
    next.run(request).await
}

fn columns_once(reply: &mut Reply) {
    let Some(rows) = super::requests::rows_of(reply) else { return };
    let mut at = 0;
    while let Some(name) = rows.columns.get(at).cloned() {
        if rows.columns.iter().take(at).any(|earlier| *earlier == name) {
            rows.columns.remove(at);
            rows.rows.iter_mut().filter(|row| at < row.len()).for_each(|row| drop(row.remove(at)));
        } else {
            at += 1;
        }
    }
}

async fn failure_empties(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let written = match &request {
        Request::Exec { run, scope, sql, options, .. } => table_of(sql)
            .map(|table| (run.clone(), scope.clone(), format!("DELETE FROM {table}"), options.tx.clone())),
        _ => None,
    };
    let reply = next.run(request).await;
    if reply.is_err()
        && let Some((run, scope, delete, tx)) = written
    {
        let mut options = memory_core::sql::StatementOptions::default();
        options.tx = tx;
        // If that fails too, nothing is emptied.
        let _ = super::requests::sql(&next)?.exec(&run, &scope, &delete, &[], options).await;
    }
    reply
}

fn narrow_refusal() -> Error {
    Error::new(ErrorKind::StatementRefused, "this statement is refused; write a simpler one")
}

async fn words(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if statement(&request)
        .is_some_and(|sql| ["'DROP TABLE", "'BEGIN", "\"attach\""].iter().any(|word| sql.contains(word)))
    {
        return Err(narrow_refusal());
    }
    if let Request::Exec { scope, args, .. } = &request
        && format!("{args:?}").contains("DROP TABLE precious")
    {
        exec(&next, scope, "DROP TABLE precious").await?;
    }
    next.run(request).await
}
