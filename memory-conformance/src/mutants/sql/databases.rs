//! Listings and drops of tables and databases.

use memory_core::sql::{RestoreOptions, SqlScopesQuery, TableInfo};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Scope, ScopeKind, TenantId};

use super::requests::{nothing, sql};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;

mutants! {
    |memory, request, next|
    "sql.tables-unsorted": ["TBL-1"] needs [Sql], "tables come in reverse order"
        => answer(|reply| if let Some(tables) = tables(reply) { tables.reverse(); });
    "sql.tables-without-views": ["TBL-1"] needs [Sql], "views are missing"
        => answer(|reply| if let Some(tables) = tables(reply) { tables.retain(|table| table.kind != "view"); });
    "sql.tables-all-tables": ["TBL-1"] needs [Sql], "a view is called a table"
        => answer(|reply| each_table(reply, |table| "table".clone_into(&mut table.kind)));
    "sql.tables-of-the-engine": ["TBL-1"] needs [Sql], "the engine's own tables are listed"
        => answer(|reply| if let Some(tables) = tables(reply) { tables.push(TableInfo::new("sqlite_schema", "table")); });
    "sql.tables-plain-names": ["TBL-1"] needs [Sql], "tables whose names need quotes are missing"
        => answer(|reply| {
            if let Some(tables) = tables(reply) {
                tables.retain(|table| table.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            }
        });
    "sql.tables-cached": ["TBL-1", "TBL-4"] needs [Sql], "the list of tables is cached" => around(tables_cached);
    "sql.columns-sorted": ["TBL-2"] needs [Sql], "columns are sorted by name"
        => answer(|reply| each_table(reply, |table| table.columns.sort_by(|a, b| a.name.cmp(&b.name))));
    "sql.columns-all-nullable": ["TBL-2"] needs [Sql], "every column allows NULL"
        => answer(|reply| each_table(reply, |table| table.columns.iter_mut().for_each(|column| column.nullable = true)));
    "sql.columns-untyped": ["TBL-2"] needs [Sql], "declared types are missing"
        => answer(|reply| each_table(reply, |table| table.columns.iter_mut().for_each(|column| column.declared_type.clear())));
    "sql.keys-without-places": ["TBL-2"] needs [Sql], "every column of a primary key has position one"
        => answer(|reply| each_table(reply, |table| {
            table.columns.iter_mut().for_each(|column| column.primary_key = column.primary_key.min(1));
        }));
    "sql.indexes-missing": ["TBL-3"] needs [Sql], "indexes are missing" => answer(|reply| each_table(reply, |table| table.indexes.clear()));
    "sql.indexes-of-all": ["TBL-3"] needs [Sql], "each table has the indexes of all" => answer(|reply| {
        let Some(tables) = tables(reply) else { return };
        let all: Vec<String> = tables.iter().flat_map(|table| table.indexes.clone()).collect();
        tables.iter_mut().for_each(|table| table.indexes.clone_from(&all));
    });
    "sql.scopes-reversed": ["DBS-1"] needs [Sql], "scopes come in reverse order"
        => answer(Reply::SqlScopes(page) => page.scopes.reverse());
    "sql.scopes-without-runs": ["DBS-1"] needs [Sql], "runs are missing"
        => answer(Reply::SqlScopes(page) => page.scopes.retain(|(scope, _)| scope.kind != ScopeKind::Run));
    "sql.scopes-of-other-tenants": ["DBS-1", "OWN-1"] needs [Sql], "another tenant's scopes are listed"
        => around({
            let other = match &request {
                Request::SqlScopes { tenant, .. } => TenantId::new(format!("{}/other", tenant.as_str()))?,
                _ => return next.run(request).await,
            };
            let mut reply = next.run(request).await?;
            if let Reply::SqlScopes(page) = &mut reply {
                page.scopes.extend(sql(&next)?.sql_scopes(&other, SqlScopesQuery::default()).await?.scopes);
            }
            Ok(reply)
        });
    "sql.scopes-limit-ignored": ["DBS-2"] needs [Sql], "the page size is ignored"
        => ask(Request::SqlScopes { query, .. } => query.limit = 1_000);
    "sql.scopes-page-repeats": ["DBS-2"] needs [Sql], "a page starts with the last scope of the previous one" => around(page_repeats);
    "sql.scopes-pages-by-position": ["DBS-2"] needs [Sql], "a cursor is a position" => around(by_position);
    "sql.scopes-limit-of-zero": ["DBS-3"] needs [Sql], "limits out of range are clamped"
        => ask_ahead(Request::SqlScopes { query, .. } => query.limit = query.limit.clamp(1, 1_000));
    "sql.scopes-foreign-cursor": ["DBS-3"] needs [Sql], "a foreign cursor restarts the listing" => around_ahead(foreign_cursor);
    "sql.drop-always-true": ["DBS-4"] needs [Sql], "a drop always reports a database"
        => answer(Reply::DropSqlScope(was_there) => *was_there = true);
    "sql.drop-always-false": ["DBS-4"] needs [Sql], "a drop never reports a database"
        => answer(Reply::DropSqlScope(was_there) => *was_there = false);
    "sql.drop-does-nothing": ["DBS-4", "DBS-5"] needs [Sql], "a drop is acknowledged but not done"
        => over(Request::DropSqlScope { scope } => Ok(Reply::DropSqlScope(sql(&next)?.sql_usage(&scope).await?.bytes > 0)));
    "sql.drop-takes-the-user": ["DBS-4"] needs [Sql], "dropping an agent's scope drops the user's with the same name"
        => ask(Request::DropSqlScope { scope } => {
            let user = Scope::new(scope.tenant.clone(), ScopeKind::User, scope.id.clone());
            sql(&next)?.drop_sql_scope(&user).await?;
        });
    "sql.drop-in-lower-case": ["DBS-4"] needs [Sql], "a drop includes scopes whose ids differ only by case"
        => ask(Request::DropSqlScope { scope } => {
            let page = sql(&next)?.sql_scopes(&scope.tenant, SqlScopesQuery::default()).await?;
            for (other, _) in page.scopes {
                if other.kind == scope.kind && other.id.as_str().eq_ignore_ascii_case(scope.id.as_str()) {
                    if other == *scope {
                        continue;
                    }
                    sql(&next)?.drop_sql_scope(&other).await?;
                }
            }
        });
    "sql.late-writes-lost": ["DBS-6", "REF-7"] needs [Sql], "an insert into a dropped database is acknowledged but lost"
        => forgive(Request::Exec { sql, .. } if sql.starts_with("INSERT INTO t "), ErrorKind::InvalidArgument => nothing(true));
    "sql.dropped-stays-dropped": ["DBS-7"] needs [Sql], "a dropped scope cannot be recreated" => around(stays_dropped);
    "sql.run-end-leaves-database": ["DBS-8"] needs [Sql], "the end of a run leaves its database" => around(end_leaves);
    "sql.run-end-takes-the-agent": ["DBS-8"] needs [Sql], "the end of a run drops the database of the agent with the same name"
        => ask(Request::EndRun { tenant, root_run } => {
            let agent = Scope::new(tenant.clone(), ScopeKind::Agent, root_run.clone());
            sql(&next)?.drop_sql_scope(&agent).await?;
        });
    "sql.drop-takes-entries": ["DBS-8"] needs [Kv, Sql], "dropping a scope's entries drops its database"
        => around({
            match &request {
                Request::DropScope { scope } => drop(sql(&next)?.drop_sql_scope(scope).await?),
                Request::DropSqlScope { scope } => drop(kv(&next)?.drop_scope(scope).await?),
                _ => {}
            }
            next.run(request).await
        });
}

fn tables(reply: &mut Reply) -> Option<&mut Vec<TableInfo>> {
    match reply {
        Reply::DescribeTables(tables) => Some(tables),
        _ => None,
    }
}

fn each_table(reply: &mut Reply, change: impl FnMut(&mut TableInfo)) {
    tables(reply).into_iter().flatten().for_each(change);
}

async fn tables_cached(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::DescribeTables { scope, .. } = &request else { return next.run(request).await };
    let scope = scope.clone();
    let cached = memory.lock().tables.get(&scope).cloned();
    if let Some(cached) = cached {
        return Ok(Reply::DescribeTables(cached));
    }
    let reply = next.run(request).await?;
    if let Reply::DescribeTables(tables) = &reply {
        memory.lock().tables.insert(scope, tables.clone());
    }
    Ok(reply)
}

async fn page_repeats(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_further = matches!(&request, Request::SqlScopes { query, .. } if query.cursor.is_some());
    let mut reply = next.run(request).await?;
    if let Reply::SqlScopes(page) = &mut reply {
        let mut memory = memory.lock();
        let last = memory.scopes.pop_last();
        if let Some((scope, usage)) = page.scopes.last().cloned() {
            memory.scopes.clear();
            memory.scopes.insert(scope);
            if let Some(last) = last.filter(|_| is_further) {
                page.scopes.insert(0, (last, usage));
            }
        }
    }
    Ok(reply)
}

async fn by_position(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::SqlScopes { tenant, query } = request else { return next.run(request).await };
    let mut all = SqlScopesQuery::default();
    all.limit = 1_000;
    let mut page = sql(&next)?.sql_scopes(&tenant, all).await?;
    let skipped = match &query.cursor {
        Some(cursor) => memory.lock().positions.get(&format!("{cursor:?}")).copied().unwrap_or(0),
        None => 0,
    };
    page.scopes.drain(..skipped.min(page.scopes.len()));
    if page.scopes.len() > query.limit {
        page.scopes.truncate(query.limit);
        let cursor = page
            .scopes
            .last()
            .map(|(scope, _)| memory_core::Cursor::after_scope(&tenant, scope.kind, &scope.id));
        if let Some(cursor) = &cursor {
            memory.lock().positions.insert(format!("{cursor:?}"), skipped + query.limit);
        }
        page.next = cursor;
    }
    Ok(Reply::SqlScopes(page))
}

async fn foreign_cursor(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let again = match &request {
        Request::SqlScopes { tenant, query } if query.cursor.is_some() => {
            let mut query = query.clone();
            query.cursor = None;
            Some(Request::SqlScopes { tenant: tenant.clone(), query })
        }
        _ => None,
    };
    match (next.run(request).await, again) {
        (Err(error), Some(again)) if error.kind() == ErrorKind::InvalidArgument => next.run(again).await,
        (reply, _) => reply,
    }
}

async fn stays_dropped(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::DropSqlScope { scope } => {
            memory.lock().scopes.insert(scope.clone());
        }
        Request::Exec { scope, .. } | Request::Restore { scope, .. }
            if memory.lock().scopes.contains(scope) =>
        {
            return Err(Error::new(ErrorKind::NotFound, "the scope was dropped; use another"));
        }
        _ => {}
    }
    next.run(request).await
}

async fn end_leaves(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::EndRun { tenant, root_run } = &request else { return next.run(request).await };
    let scope = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
    let kept = if sql(&next)?.sql_usage(&scope).await?.bytes > 0 {
        Some(crate::stream::collect_lines(sql(&next)?.dump(&scope).await?).await?)
    } else {
        None
    };
    let reply = next.run(request).await?;
    if let Some(kept) = kept {
        let lines = crate::stream::lines(kept.into_iter().map(Ok).collect());
        sql(&next)?.restore(&scope, lines, RestoreOptions::default()).await?;
    }
    Ok(reply)
}
