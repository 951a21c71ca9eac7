//! Dumps with missing or extra parts. The dump format is provider-specific, so most of these change the restored
//! database.

use memory_core::sql::{RestoreMode, RestoreOptions, SqlValue};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Scope};

use super::requests::{exec, own_run, query, sql};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;
use crate::stream::{collect_lines, lines, next_line};

mutants! {
    |memory, request, next|
    "sql.dump-loses-a-row": ["DMP-1"] needs [Sql], "the last row of each table is not restored"
        => around(spoil(request, next, |table| {
            let name = quoted(&table.name);
            let column = table.columns.first().map(|column| quoted(&column.name)).unwrap_or_default();
            vec![format!("DELETE FROM {name} WHERE {column} = (SELECT max({column}) FROM {name})")]
        }).await);
    "sql.dump-bytes-as-text": ["DMP-1"] needs [Sql], "bytes are restored as text" => around(bytes_as_text);
    "sql.dump-loses-views": ["DMP-1"] needs [Sql], "views are not restored"
        => around(spoil(request, next, |table| {
            if table.kind == "view" { vec![format!("DROP VIEW {}", quoted(&table.name))] } else { Vec::new() }
        }).await);
    "sql.dump-loses-indexes": ["DMP-1"] needs [Sql], "indexes are not restored"
        => around(spoil(request, next, |table| {
            table.indexes.iter().map(|index| format!("DROP INDEX {}", quoted(index))).collect()
        }).await);
    "sql.dump-loses-triggers": ["DMP-1"] needs [Sql], "triggers are not restored" => around(loses_triggers);
    "sql.dump-loses-settings": ["DMP-1"] needs [Sql], "how a full-text index ranks is not restored"
        => around(spoil(request, next, |table| match table.name.as_str() {
            "own" => vec!["INSERT INTO own (own, rank) VALUES ('rank', 'bm25()')".to_owned()],
            _ => Vec::new(),
        }).await);
    "sql.dump-loses-awkward-names": ["DMP-1"] needs [Sql], "tables whose names need quotes are not restored"
        => around(spoil(request, next, |table| {
            let is_plain = table.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            let kind = if table.kind == "view" { "VIEW" } else { "TABLE" };
            if is_plain { Vec::new() } else { vec![format!("DROP {kind} {}", quoted(&table.name))] }
        }).await);
    "sql.dump-unstable": ["DMP-1"] needs [Sql], "two dumps of the same database differ" => around(unstable);
    "sql.restore-counts-nothing": ["DMP-2"] needs [Sql], "restored tables and rows are not counted"
        => answer(Reply::Restore(outcome) => (outcome.tables, outcome.rows) = (0, 0));
    "sql.restore-ignores-quota": ["QTA-1"] needs [Sql], "a restore has no quota"
        => over(Request::Restore { scope, dump, options } => {
            let options = options.with_quota_bytes(None);
            next.run(Request::Restore { scope, dump, options }).await
        });
    "sql.restore-merges": ["DMP-3"] needs [Sql], "a non-empty database is left as it is and reported as restored"
        => around(forgives(ErrorKind::Conflict, request, next).await);
    "sql.restore-takes-anything": ["DMP-4"] needs [Sql], "an invalid dump is reported as restored"
        => around(forgives(ErrorKind::InvalidArgument, request, next).await);
    "sql.restore-leaves-rest": ["DMP-4"] needs [Sql], "a failed restore leaves a table behind" => around({
        let scope = restored(&request);
        let reply = next.run(request).await;
        if reply.is_err()
            && let Some(scope) = scope
        {
            exec(&next, &scope, "CREATE TABLE IF NOT EXISTS half_restored (n INTEGER)").await?;
        }
        reply
    });
    "sql.restore-errors-untyped": ["DMP-4"] needs [Sql], "an error of the stream is reported as `internal`"
        => around({
            let is_restore = restored(&request).is_some();
            next.run(request).await.map_err(|error| {
                if is_restore { Error::internal("the restore failed; look at the log") } else { error }
            })
        });
    "sql.restore-ends-at-errors": ["DMP-4"] needs [Sql], "a failing stream counts as a complete one"
        => over(Request::Restore { scope, mut dump, options } => {
            let mut until = Vec::new();
            while let Some(Ok(line)) = next_line(&mut dump).await {
                until.push(Ok(line));
            }
            Ok(Reply::Restore(sql(&next)?.restore(&scope, lines(until), options).await?))
        });
    "sql.replace-refuses": ["DMP-8"] needs [Sql], "a non-empty database is never replaced"
        => over(Request::Restore { scope, dump, options } => {
            let options = options.with_mode(RestoreMode::IntoEmpty);
            next.run(Request::Restore { scope, dump, options }).await
        });
    "sql.replace-drops-first": ["DMP-8"] needs [Sql], "the old database is dropped before the dump is read"
        => around({
            if let Request::Restore { scope, options: RestoreOptions { mode: RestoreMode::Replace, .. }, .. } =
                &request
            {
                sql(&next)?.drop_sql_scope(scope).await?;
            }
            next.run(request).await
        });
    "sql.replace-adds": ["DMP-8"] needs [Sql], "a replaced database keeps an old table" => around(keeps_a_table);
    "sql.replace-loses-rows": ["DMP-9"] needs [Sql], "rows of refused tables are left out of a replacement too"
        => around(replaces_anyway);
    "sql.dump-as-it-is-later": ["DMP-5"] needs [Sql], "a dump shows writes made while it streamed" => around(later);
    "sql.dump-commits": ["DMP-5"] needs [Sql, SqlTransactions], "a dump commits the open transaction"
        => ask(Request::Dump { .. } => {
            let open = std::mem::take(&mut memory.lock().open);
            for open in open {
                sql(&next)?.commit(&open.run, &open.scope, &open.tx).await?;
            }
        });
    "sql.dump-of-nothing-fails": ["DMP-6"] needs [Sql], "a scope without a database cannot be dumped"
        => instead(Request::Dump { scope } if super::isolation::is_missing(&next, scope).await?
            => Err(Error::new(ErrorKind::NotFound, "this scope has no database; write to it first")));
    "sql.dump-with-entries": ["DMP-7"] needs [Kv, Sql], "a dump holds the scope's keys" => around(with_entries);
}

/// Replaces by what can be restored into an empty scope.
async fn replaces_anyway(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Restore { scope, mut dump, options } = request else { return next.run(request).await };
    let mut all = Vec::new();
    while let Some(Ok(line)) = next_line(&mut dump).await {
        all.push(line);
    }
    let copy = || lines(all.iter().cloned().map(Ok).collect());
    match sql(&next)?.restore(&scope, copy(), options).await {
        Err(error) if error.kind() == ErrorKind::InvalidArgument && options.mode == RestoreMode::Replace => {
            sql(&next)?.drop_sql_scope(&scope).await?;
            let options = options.with_mode(RestoreMode::IntoEmpty);
            Ok(Reply::Restore(sql(&next)?.restore(&scope, copy(), options).await?))
        }
        done => Ok(Reply::Restore(done?)),
    }
}

/// The scope that a request restores into.
fn restored(request: &Request) -> Option<Scope> {
    match request {
        Request::Restore { scope, .. } => Some(scope.clone()),
        _ => None,
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Runs statements for each table after a restore; failing ones are ignored.
async fn spoil(
    request: Request,
    next: Next<'_>,
    change: impl Fn(&memory_core::sql::TableInfo) -> Vec<String>,
) -> Result<Reply> {
    let scope = restored(&request);
    let reply = next.run(request).await?;
    if let Some(scope) = scope {
        for table in sql(&next)?.describe_tables(&own_run(&scope)?, &scope).await? {
            for statement in change(&table) {
                drop(exec(&next, &scope, &statement).await);
            }
        }
    }
    Ok(reply)
}

async fn bytes_as_text(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    spoil(request, next, |table| {
        let bytes = |declared: &str| declared.eq_ignore_ascii_case("blob");
        table
            .columns
            .iter()
            .filter(|column| bytes(&column.declared_type))
            .map(|column| {
                let column = quoted(&column.name);
                format!("UPDATE {} SET {column} = CAST({column} AS TEXT)", quoted(&table.name))
            })
            .collect()
    })
    .await
}

async fn loses_triggers(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let scope = restored(&request);
    let reply = next.run(request).await?;
    if let Some(scope) = scope
        && let Ok(triggers) =
            query(&next, &scope, "SELECT name FROM sqlite_schema WHERE type = 'trigger'").await
    {
        for name in triggers.rows.into_iter().flatten() {
            if let SqlValue::Text(name) = name {
                exec(&next, &scope, &format!("DROP TRIGGER {}", quoted(&name))).await?;
            }
        }
    }
    Ok(reply)
}

/// Changes the lines of a dump.
async fn relined(request: Request, next: Next<'_>, change: impl FnOnce(&mut Vec<Vec<u8>>)) -> Result<Reply> {
    let reply = next.run(request).await?;
    let Reply::Dump(dump) = reply else { return Ok(reply) };
    let mut all = collect_lines(dump).await?;
    change(&mut all);
    Ok(Reply::Dump(lines(all.into_iter().map(Ok).collect())))
}

async fn unstable(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_second = {
        let mut memory = memory.lock();
        let dumps = memory.notes.entry("dumps".to_owned()).or_default();
        *dumps += u64::from(matches!(request, Request::Dump { .. }));
        *dumps > 1
    };
    relined(request, next, |lines| {
        if is_second {
            lines.pop();
        }
    })
    .await
}

async fn forgives(kind: ErrorKind, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_restore = restored(&request).is_some();
    match next.run(request).await {
        Err(error) if is_restore && error.kind() == kind => {
            Ok(Reply::Restore(memory_core::sql::RestoreOutcome::default()))
        }
        reply => reply,
    }
}

async fn keeps_a_table(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let kept = match &request {
        Request::Restore { scope, options: RestoreOptions { mode: RestoreMode::Replace, .. }, .. } => {
            let tables = sql(&next)?.describe_tables(&own_run(scope)?, scope).await?;
            tables.into_iter().next().map(|table| (scope.clone(), table.name))
        }
        _ => None,
    };
    let reply = next.run(request).await?;
    if let Some((scope, name)) = kept {
        drop(exec(&next, &scope, &format!("CREATE TABLE {} (n INTEGER)", quoted(&name))).await);
    }
    Ok(reply)
}

async fn later(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Dump { scope } => {
            memory.lock().dumped = Some(scope.clone());
            next.run(Request::Dump { scope }).await
        }
        Request::Restore { scope, dump, options } => {
            let dumped = memory.lock().dumped.clone();
            let dump = match dumped {
                Some(dumped) => sql(&next)?.dump(&dumped).await?,
                None => dump,
            };
            next.run(Request::Restore { scope, dump, options }).await
        }
        request => next.run(request).await,
    }
}

async fn with_entries(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let keys = match &request {
        Request::Dump { scope } => kv(&next)?
            .list(scope, memory_core::ListQuery::default())
            .await?
            .entries
            .into_iter()
            .map(|entry| entry.key.as_str().as_bytes().to_vec())
            .collect(),
        _ => Vec::new(),
    };
    relined(request, next, |lines| lines.extend(keys)).await
}
