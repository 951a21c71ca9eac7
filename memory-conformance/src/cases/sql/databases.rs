//! DBS: which scopes have a database, and how it is dropped.

use std::collections::BTreeSet;

use memory_core::sql::{SqlScopePage, SqlScopesQuery};
use memory_core::{Cursor, ErrorKind, Scope, ScopeKind, TenantId};

use super::transactions::is_lost;
use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind, expect_some};
use crate::cx::Cx;
use crate::cx::database::Database;

pub(crate) const CASES: &[Case] = &[
    case!("sql.scopes.listed-with-usage", [Sql], ["DBS-1", "QTA-4"], |cx| {
        let (one, two) = (made(cx, cx.scope()?).await?, made(cx, cx.scope()?).await?);
        let page = page(cx, &cx.tenant(), 100, None).await?;
        let scopes: BTreeSet<&Scope> = page.scopes.iter().map(|(scope, _)| scope).collect();
        expect_eq!(scopes, BTreeSet::from([&one.scope, &two.scope]), "scopes with a database");
        for (scope, usage) in &page.scopes {
            let own = cx.sql().sql_usage(scope).await?;
            check!(
                usage.bytes > 0 && usage.bytes == own.bytes,
                "usage {usage:?} in the list, {own:?} for the scope alone"
            );
        }
        check!(page.next.is_none(), "a cursor though all are shown");
    }),
    case!("sql.scopes.in-order", [Sql], ["DBS-1"], |cx| {
        let mut due = Vec::new();
        for kind in [ScopeKind::Agent, ScopeKind::User, ScopeKind::Run] {
            for id in ["B", "a", "a b", "aa", "b", "\u{e9}"] {
                due.push(cx.scope_named(kind, id)?);
            }
        }
        for scope in due.iter().rev() {
            made(cx, scope.clone()).await?;
        }
        expect_eq!(scopes_of(cx, &cx.tenant()).await?, due, "scopes by kind and the bytes of the id");
    }),
    case!("sql.scopes.of-the-tenant-alone", [Sql], ["DBS-1", "OWN-1"], |cx| {
        let mine = made(cx, cx.scope_named(ScopeKind::Agent, "same")?).await?;
        let mut theirs = mine.scope.clone();
        theirs.tenant = cx.other_tenant()?;
        made(cx, theirs.clone()).await?;
        let mut more = theirs.clone();
        more.kind = ScopeKind::User;
        made(cx, more.clone()).await?;
        expect_eq!(scopes_of(cx, &cx.tenant()).await?, [mine.scope], "of the one tenant");
        expect_eq!(scopes_of(cx, &cx.other_tenant()?).await?, [theirs, more], "of the other tenant");
    }),
    case!("sql.scopes.pages", [Sql], ["DBS-2"], |cx| {
        let mut due = Vec::new();
        for n in 0..7 {
            due.push(made(cx, cx.scope_named(ScopeKind::Agent, &format!("s{n}"))?).await?.scope);
        }
        for limit in [1, 2, 3, 7, 8] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let page = page(cx, &cx.tenant(), limit, cursor).await?;
                check!(page.scopes.len() <= limit, "{} scopes on a page of {limit}", page.scopes.len());
                check!(!page.scopes.is_empty(), "an empty page with a limit of {limit}");
                seen.extend(page.scopes.into_iter().map(|(scope, _)| scope));
                check!(seen.len() <= due.len(), "a scope comes twice with a limit of {limit}");
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            expect_eq!(seen, due, "scopes by pages of {limit}");
        }
    }),
    case!("sql.scopes.pages-while-they-change", [Sql], ["DBS-2"], |cx| {
        let named = |id: &str| cx.scope_named(ScopeKind::Agent, id);
        for id in ["b", "d", "f", "h", "j"] {
            made(cx, named(id)?).await?;
        }
        let first = page(cx, &cx.tenant(), 2, None).await?;
        let ids = |page: &SqlScopePage| -> Vec<String> {
            page.scopes.iter().map(|(scope, _)| scope.id.as_str().to_owned()).collect()
        };
        expect_eq!(ids(&first), ["b", "d"], "the first page");
        // The scope named by the cursor is dropped, and others are added before and after it.
        for id in ["a", "c", "g"] {
            made(cx, named(id)?).await?;
        }
        cx.sql().drop_sql_scope(&named("d")?).await?;
        cx.sql().drop_sql_scope(&named("h")?).await?;
        let cursor = expect_some!(first.next, "the cursor of the first page");
        let rest = page(cx, &cx.tenant(), 100, Some(cursor)).await?;
        let rest: Vec<String> = ids(&rest).into_iter().filter(|id| id != "g").collect();
        expect_eq!(rest, ["f", "j"], "scopes that were there throughout, after the first page");
    }),
    case!("sql.scopes.limits", [Sql], ["DBS-3"], |cx| {
        made(cx, cx.scope()?).await?;
        expect_kind!(page(cx, &cx.tenant(), 0, None).await, ErrorKind::InvalidArgument, "a limit of 0");
        expect_kind!(page(cx, &cx.tenant(), 1_001, None).await, ErrorKind::TooLarge, "a limit of 1,001");
        expect_eq!(page(cx, &cx.tenant(), 1_000, None).await?.scopes.len(), 1, "a limit of 1,000");
    }),
    case!("sql.scopes.foreign-cursor", [Sql], ["DBS-3"], |cx| {
        for _ in 0..3 {
            made(cx, cx.scope()?).await?;
        }
        let cursor = expect_some!(page(cx, &cx.tenant(), 1, None).await?.next, "a cursor");
        let foreign = page(cx, &cx.other_tenant()?, 10, Some(cursor)).await;
        expect_kind!(foreign, ErrorKind::InvalidArgument, "a cursor of another tenant");
        for garbage in ["", "x", "AAAA", "\u{0}"] {
            let made_up: Cursor = match serde_json::from_value(serde_json::Value::from(garbage)) {
                Ok(cursor) => cursor,
                Err(_) => continue,
            };
            let refused = page(cx, &cx.tenant(), 10, Some(made_up)).await;
            expect_kind!(refused, ErrorKind::InvalidArgument, "the cursor {garbage:?}");
        }
    }),
    case!("sql.drop.removes-all", [Sql], ["DBS-4"], |cx| {
        let db = made(cx, cx.scope()?).await?;
        expect_eq!(db.count("t").await?, 1);
        check!(
            cx.sql().drop_sql_scope(&db.scope).await?,
            "a database that was there is said not to have been"
        );
        expect_kind!(
            db.query("SELECT * FROM t").await,
            ErrorKind::InvalidArgument,
            "a table of a dropped database"
        );
        check!(db.tables().await?.is_empty(), "tables of a dropped database");
        expect_eq!(db.bytes().await?, 0, "bytes of a dropped database");
        expect_eq!(scopes_of(cx, &cx.tenant()).await?, [], "scopes after the only one was dropped");
        check!(!cx.sql().drop_sql_scope(&db.scope).await?, "a database is said to have been there twice");
    }),
    case!("sql.drop.of-nothing", [Sql], ["DBS-4"], |cx, db: Database| {
        check!(
            !cx.sql().drop_sql_scope(&db.scope).await?,
            "a database that never was is said to have been there"
        );
        db.query("SELECT 1").await?;
        check!(!cx.sql().drop_sql_scope(&db.scope).await?, "a query created a database");
    }),
    case!("sql.drop.leaves-others", [Sql], ["DBS-4", "OWN-1"], |cx| {
        let db = made(cx, cx.scope_named(ScopeKind::Agent, "same")?).await?;
        let mut others = Vec::new();
        for (tenant, kind, id) in [
            (cx.tenant(), ScopeKind::User, "same"),
            (cx.tenant(), ScopeKind::Agent, "Same"),
            (cx.tenant(), ScopeKind::Agent, "same2"),
            (cx.other_tenant()?, ScopeKind::Agent, "same"),
        ] {
            others.push(made(cx, Scope::new(tenant, kind, memory_core::ScopeId::new(id)?)).await?);
        }
        cx.sql().drop_sql_scope(&db.scope).await?;
        for other in &others {
            expect_eq!(other.count("t").await?, 1, "rows of {:?}", other.scope);
        }
    }),
    case!("sql.drop.loses-transactions", [Sql, SqlTransactions], ["DBS-5", "TX-4"], |cx| {
        let db = made(cx, cx.scope()?).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (2)").await?;
        tx.savepoint().await?;
        check!(
            cx.sql().drop_sql_scope(&db.scope).await?,
            "a database that was there is said not to have been"
        );
        is_lost(&tx, "of a scope that was dropped").await?;
        check!(db.tables().await?.is_empty(), "tables after the scope was dropped with a transaction open");
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        is_lost(&tx, "of a scope that was dropped and recreated").await?;
        expect_eq!(db.count("t").await?, 0, "rows of a lost transaction");
    }),
    case!("sql.drop.late-writer", [Sql], ["DBS-6"], |cx| {
        let db = made(cx, cx.scope()?).await?;
        let late = db.by_another_run()?;
        late.exec("INSERT INTO t VALUES (2)").await?;
        cx.sql().drop_sql_scope(&db.scope).await?;
        expect_kind!(
            late.exec("INSERT INTO t VALUES (3)").await,
            ErrorKind::InvalidArgument,
            "a write to a dropped database"
        );
        late.exec("CREATE TABLE t (n INTEGER)").await?;
        late.exec("INSERT INTO t VALUES (4)").await?;
        expect_eq!(db.ints("SELECT n FROM t").await?, [4], "what was written into the scope made anew");
    }),
    case!("sql.drop.late-writer-of-another-handle", [Sql], ["DBS-6", "TIM-6"], |cx| {
        let beside = cx.on(cx.store().another_handle().await?);
        let here = made(cx, cx.scope()?).await?;
        let there = beside.database_of(here.scope.clone())?;
        there.exec("INSERT INTO t VALUES (2)").await?;
        expect_eq!(there.count("t").await?, 2);
        check!(
            cx.sql().drop_sql_scope(&here.scope).await?,
            "a database that was there is said not to have been"
        );
        expect_kind!(
            there.exec("INSERT INTO t VALUES (3)").await,
            ErrorKind::InvalidArgument,
            "another handle's write to a dropped database"
        );
        there.exec("CREATE TABLE t (n INTEGER)").await?;
        there.exec("INSERT INTO t VALUES (4)").await?;
        expect_eq!(
            here.ints("SELECT n FROM t").await?,
            [4],
            "what the other handle wrote to the recreated scope"
        );
        here.exec("INSERT INTO t VALUES (5)").await?;
        expect_eq!(there.ints("SELECT n FROM t ORDER BY n").await?, [4, 5]);
    }),
    case!("sql.drop.made-anew", [Sql], ["DBS-7"], |cx, scope: Scope| {
        for round in 1..=4 {
            let db = made(cx, scope.clone()).await?;
            db.exec(&format!("INSERT INTO t VALUES ({})", round * 10)).await?;
            expect_eq!(db.ints("SELECT n FROM t ORDER BY n").await?, [1, round * 10], "round {round}");
            expect_eq!(
                scopes_of(cx, &cx.tenant()).await?,
                std::slice::from_ref(&scope),
                "scopes in round {round}"
            );
            check!(cx.sql().drop_sql_scope(&scope).await?, "nothing was there in round {round}");
        }
    }),
    case!("sql.drop.while-others-write", [Sql], ["DBS-6", "DBS-7"], |cx, scope: Scope| {
        let writer = cx.database_of(scope.clone())?;
        let write: crate::harness::executor::BoxFuture<'_, CaseResult> = Box::pin(async {
            for n in 0..25 {
                let statements =
                    ["CREATE TABLE IF NOT EXISTS t (n INTEGER)", "INSERT INTO t SELECT count(*) FROM t"];
                for statement in statements {
                    match writer.exec(statement).await {
                        Ok(_) => {}
                        // The table was dropped in between, or the database during the statement: nothing was written.
                        Err(error)
                            if matches!(
                                error.kind(),
                                ErrorKind::InvalidArgument | ErrorKind::Unavailable
                            ) => {}
                        Err(error) => {
                            return Err(Stop::failed(format_args!(
                                "`{statement}`, round {n}, while the scope was dropped, failed with {}: {error}",
                                error.kind()
                            )));
                        }
                    }
                }
            }
            Ok(())
        });
        let dropper: crate::harness::executor::BoxFuture<'_, CaseResult> = Box::pin(async {
            for _ in 0..6 {
                cx.sql().drop_sql_scope(&scope).await?;
            }
            Ok(())
        });
        cx.threads(vec![write, dropper])?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        // Rows count up from 0 without a gap: each was written into the database that its statement saw. Without the
        // table there are no rows.
        let rows = writer.ints("SELECT n FROM t ORDER BY n").await.unwrap_or_default();
        let due: Vec<i64> = (0..i64::try_from(rows.len()).unwrap_or(0)).collect();
        expect_eq!(rows, due, "rows after writes and drops at the same time");
        cx.sql().drop_sql_scope(&scope).await?;
        let again = made(cx, scope.clone()).await?;
        expect_eq!(again.count("t").await?, 1);
    }),
    case!("sql.run.end-removes-its-database", [Sql], ["DBS-8"], |cx| {
        let run = cx.run()?;
        let scope = expect_some!(run.scope(ScopeKind::Run), "the scope of a run");
        let db = made(cx, scope.clone()).await?;
        cx.provider().end_run(&run.tenant, &run.root_run).await?;
        expect_kind!(
            db.query("SELECT * FROM t").await,
            ErrorKind::InvalidArgument,
            "a table of a run that has ended"
        );
        expect_eq!(scopes_of(cx, &cx.tenant()).await?, [], "scopes after the run has ended");
        check!(
            !cx.sql().drop_sql_scope(&scope).await?,
            "the database of a run that has ended is still there"
        );
        cx.provider().end_run(&run.tenant, &run.root_run).await?;
    }),
    case!("sql.run.end-leaves-others", [Sql], ["DBS-8"], |cx| {
        let run = cx.run()?;
        let mut others = Vec::new();
        for kind in [ScopeKind::Agent, ScopeKind::User] {
            // The same id as the run's.
            others.push(made(cx, cx.scope_named(kind, run.root_run.as_str())?).await?);
        }
        others.push(made(cx, cx.scope_of(ScopeKind::Run)?).await?);
        let mut foreign = expect_some!(run.scope(ScopeKind::Run), "the scope of a run");
        foreign.tenant = cx.other_tenant()?;
        others.push(made(cx, foreign).await?);
        cx.provider().end_run(&run.tenant, &run.root_run).await?;
        for other in &others {
            expect_eq!(other.count("t").await?, 1, "rows of {:?} after another run has ended", other.scope);
        }
    }),
    case!("sql.drop.facets-apart", [Kv, Sql], ["DBS-8"], |cx| {
        let db = made(cx, cx.scope()?).await?;
        cx.set(&db.scope, "k", "1").await?;
        cx.kv().drop_scope(&db.scope).await?;
        expect_eq!(db.count("t").await?, 1, "rows after `drop_scope`, which is about entries");
        cx.set(&db.scope, "k", "2").await?;
        cx.sql().drop_sql_scope(&db.scope).await?;
        expect_eq!(cx.text(&db.scope, "k").await?.as_deref(), Some("2"), "an entry after `drop_sql_scope`");
    }),
];

async fn made<'a>(cx: &'a Cx, scope: Scope) -> CaseResult<Database<'a>> {
    let db = cx.database_of(scope)?;
    db.exec("CREATE TABLE t (n INTEGER)").await?;
    db.exec("INSERT INTO t VALUES (1)").await?;
    Ok(db)
}

async fn page(
    cx: &Cx,
    tenant: &TenantId,
    limit: usize,
    cursor: Option<Cursor>,
) -> memory_core::Result<SqlScopePage> {
    let mut query = SqlScopesQuery::default();
    (query.limit, query.cursor) = (limit, cursor);
    cx.sql().sql_scopes(tenant, query).await
}

async fn scopes_of(cx: &Cx, tenant: &TenantId) -> CaseResult<Vec<Scope>> {
    Ok(page(cx, tenant, 1_000, None).await?.scopes.into_iter().map(|(scope, _)| scope).collect())
}
