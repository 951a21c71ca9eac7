//! Entries, embeddings and shared data in statements.

use memory_core::sql::{Rows, SqlValue, TableInfo};
use memory_core::{Error, ErrorKind, GetOptions, Next, Reply, Request, Result, ScopeKind};

use super::isolation::is_missing;
use super::requests::{
    change_scope, change_statement, change_values, nothing, options, own_run, sql, statement,
};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{everything, kv};

mutants! {
    |memory, request, next|
    "sql.entries-of-another": ["ENT-1", "OWN-1"] needs [Kv, Sql, SqlEntries], "a user sees the entries of the agent with the same name"
        => ask(|request| {
            if is_about(request, ENTRIES) {
                change_scope(request, |scope| {
                    if scope.kind == ScopeKind::User {
                        scope.kind = ScopeKind::Agent;
                    }
                });
            }
        });
    "sql.entries-in-seconds": ["ENT-1"] needs [Kv, Sql, SqlEntries], "entry times are in seconds"
        => ask(|request| {
            if is_about(request, ENTRIES) {
                change_statement(request, |sql, _| *sql = sql.replace("updated_at,", "updated_at / 1000,"));
            }
        });
    "sql.entries-without-metadata": ["ENT-1"] needs [Kv, Sql, SqlEntries], "entries have no metadata"
        => ask(|request| {
            if is_about(request, ENTRIES) {
                change_statement(request, |sql, _| *sql = sql.replace("SELECT metadata", "SELECT '{}'"));
            }
        });
    "sql.entries-first-page": ["ENT-1"] needs [Kv, Sql, SqlEntries], "only the first hundred entries are visible"
        => ask(|request| {
            if is_about(request, ENTRIES)
                && let Some(options) = options(request)
            {
                options.max_rows = options.max_rows.min(100);
            }
        });
    "sql.entries-cached": ["ENT-2"] needs [Kv, Sql, SqlEntries], "the entries are cached" => around(cached);
    "sql.entries-alone": ["ENT-3"] needs [Kv, Sql, SqlEntries], "entries cannot be joined"
        => stop(is_about(&request, ENTRIES) && is_about(&request, "JOIN")
            => no_such_table());
    "sql.entries-in-queries": ["ENT-3"] needs [Kv, Sql, SqlEntries], "`exec` does not see the entries"
        => around({
            if is_about(&request, ENTRIES) && matches!(request, Request::Exec { .. }) {
                return Err(no_such_table());
            }
            next.run(request).await
        });
    "sql.entries-need-a-database": ["ENT-3"] needs [Kv, Sql, SqlEntries], "entries are visible only once the scope has tables"
        => around(needs_database(ENTRIES, request, next).await);
    "sql.entries-writes-ignored": ["ENT-4"] needs [Kv, Sql, SqlEntries], "writes to the entries succeed and do nothing"
        => around(writes_to_ignored(ENTRIES, request, next).await);
    "sql.entries-counted": ["ENT-5"] needs [Kv, Sql, SqlEntries], "reading the entries table counts as access"
        => ask(Request::Query { scope, sql, .. } if sql.contains(ENTRIES) => {
            for entry in everything(&next, scope).await? {
                kv(&next)?.get(scope, &entry.key, GetOptions::default()).await?;
            }
        });
    "sql.entries-described": ["ENT-6"] needs [Kv, Sql, SqlEntries], "the entries table is listed among the agent's own"
        => answer(|reply| described_as(reply, ENTRIES));
    "sql.embed-another-each-time": ["EBD-1"] needs [Sql, SqlVectors], "equal texts get different vectors"
        => around({
            let time = {
                let mut memory = memory.lock();
                let time = memory.notes.entry("embedded".to_owned()).or_default();
                *time += 1;
                *time
            };
            change_texts(&mut request, |text| text.push_str(&format!(" word{time}")));
            next.run(request).await
        });
    "sql.embed-any-text": ["EBD-1", "EBD-2"] needs [Sql, SqlVectors], "every text gets the same vector"
        => ask(|request| change_texts(request, |text| "a text".clone_into(text)));
    "sql.embed-out-of-place": ["EBD-1"] needs [Sql, SqlVectors], "several vectors are swapped"
        => ask(|request| change_statement(request, |_, args| {
            let mut texts: Vec<SqlValue> =
                args.iter().filter(|arg| matches!(arg, SqlValue::Embed(_))).cloned().collect();
            let by = usize::from(texts.len() > 1);
            texts.rotate_left(by);
            for (arg, text) in args.iter_mut().filter(|arg| matches!(arg, SqlValue::Embed(_))).zip(texts) {
                *arg = text;
            }
        }));
    "sql.embed-similarity": ["EBD-2"] needs [Sql, SqlVectors], "similarities are returned as distances"
        => answer(|reply| change_values(reply, |value| match value {
            SqlValue::Real(distance) => Some(SqlValue::Real(1.0 - distance)),
            _ => None,
        }));
    "sql.embed-failure-is-null": ["EBD-3"] needs [Sql, SqlVectors], "a failed embedding is bound as NULL" => around(failure_is_null);
    "sql.embed-as-document": ["EBD-5"] needs [Sql, SqlVectors], "`query` embeds as `exec` does"
        => instead(Request::Query { run, scope, sql: text, args, options } if !args.is_empty() => {
            let outcome = sql(&next)?.exec(run, scope, text, args, options.clone()).await?;
            Ok(Reply::Query(outcome.returning.unwrap_or_default()))
        });
    "sql.embed-always": ["EBD-4"] needs [Sql, SqlVectors], "every statement calls the embedder"
        => ask(Request::Exec { scope, .. } => {
            let args = [SqlValue::Embed("every statement".to_owned())];
            let asked = sql(&next)?
                .query(&own_run(scope)?, scope, "SELECT CAST($1 AS TEXT) IS NULL", &args, Default::default())
                .await;
            drop(asked);
        });
    "sql.shared-needs-a-database": ["SHR-1"] needs [Sql, SharedSchemas], "shared data is visible only once the scope has tables"
        => around(needs_database(SHARED, request, next).await);
    "sql.shared-writes-ignored": ["SHR-2"] needs [Sql, SharedSchemas], "writes to shared data succeed and do nothing"
        => around(writes_to_ignored(SHARED, request, next).await);
    "sql.shared-wins": ["SHR-3"] needs [Sql, SharedSchemas], "shared data hides the scope's own tables" => ask(shared_wins);
    "sql.shared-until-reopened": ["SHR-3"] needs [Sql, SharedSchemas], "a handle that has read shared data does not see a table that another creates"
        => around(until_reopened);
    "sql.shared-described": ["SHR-4"] needs [Sql, SharedSchemas], "shared tables are listed among the agent's own"
        => answer(|reply| described_as(reply, SHARED));
}

fn is_about(request: &Request, table: &str) -> bool {
    statement(request).is_some_and(|sql| sql.contains(table))
}

const ENTRIES: &str = "memory_entries";
const SHARED: &str = "conformance_shared";

async fn cached(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let asked = match &request {
        Request::Query { scope, sql, .. } if sql.contains(ENTRIES) => format!("{scope:?} {sql}"),
        _ => return next.run(request).await,
    };
    let known = memory.lock().rows.get(&asked).cloned();
    if let Some(rows) = known {
        return Ok(Reply::Query(rows));
    }
    let reply = next.run(request).await?;
    if let Reply::Query(rows) = &reply {
        memory.lock().rows.insert(asked, Rows::clone(rows));
    }
    Ok(reply)
}

fn no_such_table() -> Error {
    Error::invalid("no such table: memory_entries; look at describe_tables")
}

async fn needs_database(table: &str, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Query { scope, sql, .. } = &request
        && sql.contains(table)
        && is_missing(&next, scope).await?
    {
        return Err(no_such_table());
    }
    next.run(request).await
}

async fn writes_to_ignored(table: &str, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_write = is_about(&request, table) && matches!(request, Request::Exec { .. });
    match next.run(request).await {
        Err(error) if is_write && error.kind() != ErrorKind::Internal => Ok(nothing(true)),
        reply => reply,
    }
}

fn described_as(reply: &mut Reply, name: &str) {
    if let Reply::DescribeTables(tables) = reply {
        tables.push(TableInfo::new(name, "table"));
        tables.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

fn change_texts(request: &mut Request, change: impl Fn(&mut String)) {
    change_statement(request, |_, args| {
        for arg in args {
            if let SqlValue::Embed(text) = arg {
                change(text);
            }
        }
    });
}

async fn failure_is_null(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let copy = super::requests::again(&request);
    let embeds = matches!(
        &request,
        Request::Exec { args, .. } | Request::Query { args, .. }
            if args.iter().any(|arg| matches!(arg, SqlValue::Embed(_)))
    );
    match (next.run(request).await, copy) {
        (Err(_), Some(mut copy)) if embeds => {
            change_statement(&mut copy, |_, args| {
                for arg in args {
                    if matches!(arg, SqlValue::Embed(_)) {
                        *arg = SqlValue::Null;
                    }
                }
            });
            next.run(copy).await
        }
        (reply, _) => reply,
    }
}

async fn until_reopened(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if is_about(&request, SHARED) {
        match &request {
            Request::Query { scope, .. } => {
                let first = memory.lock().scopes.insert(scope.clone());
                if !first {
                    shared_wins(&mut request);
                }
            }
            Request::Exec { scope, .. } => {
                memory.lock().scopes.remove(scope);
            }
            _ => {}
        }
    }
    next.run(request).await
}

fn shared_wins(request: &mut Request) {
    if is_about(request, SHARED) && matches!(request, Request::Query { .. }) {
        // A scope without a table of that name.
        change_scope(request, |scope| super::requests::change_id(scope, &format!("{}~", scope.id)));
    }
}
