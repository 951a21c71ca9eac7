//! OWN: a scope's database belongs to it alone.

use memory_core::sql::SqlScopesQuery;
use memory_core::{ErrorKind, Scope, ScopeId, ScopeKind};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::cx::database::Database;

pub(crate) const CASES: &[Case] = &[
    case!("sql.own.kinds-and-tenants", [Sql], ["OWN-1", "OWN-2"], |cx| {
        let mut scopes = Vec::new();
        for tenant in [cx.tenant(), cx.other_tenant()?] {
            for kind in [ScopeKind::Agent, ScopeKind::User, ScopeKind::Run] {
                for id in ["same", "other"] {
                    scopes.push(Scope::new(tenant.clone(), kind, ScopeId::new(id)?));
                }
            }
        }
        each_sees_its_own(&numbered(cx, scopes).await?).await?;
    }),
    case!("sql.own.awkward-ids", [Sql], ["OWN-1"], |cx| {
        let long = "x".repeat(256);
        let longer_by_its_end = format!("{}y", "x".repeat(255));
        let ids = [
            "a",
            "A",
            "a/b",
            "a:b",
            "a.b",
            "a_b",
            "a%b",
            "..",
            "../a",
            ".",
            "a'b",
            "a\"b",
            "a;b",
            "a b",
            "-a",
            "main",
            "\u{e9}",
            "e\u{301}",
            "\u{1f469}",
            &long,
            &longer_by_its_end,
            "CON",
            "a\\b",
            "$1",
            "?",
            "temp",
        ];
        let scopes = ids.iter().map(|id| cx.scope_named(ScopeKind::Agent, id)).collect::<CaseResult<_>>()?;
        each_sees_its_own(&numbered(cx, scopes).await?).await?;
    }),
    case!("sql.own.tables-of-others", [Sql], ["OWN-1"], |cx, mine: Database, theirs: Database| {
        theirs.exec("CREATE TABLE secrets (word TEXT)").await?;
        theirs.exec("INSERT INTO secrets VALUES ('hush')").await?;
        mine.exec("CREATE TABLE own (n INTEGER)").await?;
        expect_kind!(
            mine.query("SELECT word FROM secrets").await,
            ErrorKind::InvalidArgument,
            "a table of another scope"
        );
        let tables: Vec<String> = mine.tables().await?.into_iter().map(|table| table.name).collect();
        expect_eq!(tables, ["own"], "the scope's tables");
        expect_kind!(
            mine.exec("DROP TABLE secrets").await,
            ErrorKind::InvalidArgument,
            "dropping a table of another scope"
        );
        expect_eq!(theirs.count("secrets").await?, 1);
    }),
    case!("sql.own.writes-stay", [Sql], ["OWN-1", "OWN-2"], |cx| {
        let databases = numbered(cx, vec![cx.scope()?, cx.scope()?, cx.scope()?]).await?;
        for (n, db) in &databases {
            db.exec(&format!("UPDATE t SET n = n + {}", n * 100)).await?;
        }
        for (n, db) in &databases {
            expect_eq!(db.ints("SELECT n FROM t").await?, [n * 101], "after each scope changed its own row");
        }
        if let [(_, first), rest @ ..] = databases.as_slice() {
            first.exec("DROP TABLE t").await?;
            for (_, db) in rest {
                expect_eq!(db.count("t").await?, 1, "rows of a scope next to one whose table was dropped");
            }
        }
    }),
    case!("sql.own.another-tenants-run", [Sql], ["OWN-3"], |cx, db: Database| {
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        let foreign = db.by(&cx.run_of(&cx.other_tenant()?)?);
        let denied = ErrorKind::ScopeDenied;
        expect_kind!(foreign.query("SELECT n FROM t").await, denied, "`query` by another tenant's run");
        expect_kind!(
            foreign.exec("INSERT INTO t VALUES (1)").await,
            denied,
            "`exec` by another tenant's run"
        );
        expect_kind!(foreign.tables().await, denied, "`describe_tables` by another tenant's run");
        expect_eq!(db.count("t").await?, 0);
    }),
    case!("sql.own.another-tenants-transaction", [Sql, SqlTransactions], ["OWN-3"], |cx, db: Database| {
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let (foreign, denied) = (tx.by(&cx.run_of(&cx.other_tenant()?)?), ErrorKind::ScopeDenied);
        expect_kind!(foreign.begin().await, denied, "`begin` by another tenant's run");
        expect_kind!(foreign.savepoint().await, denied, "a savepoint by another tenant's run");
        expect_kind!(foreign.commit().await, denied, "`commit` by another tenant's run");
        expect_kind!(foreign.rollback().await, denied, "`rollback` by another tenant's run");
        expect_kind!(foreign.exec("DELETE FROM t").await, denied, "`exec` in it by another tenant's run");
        tx.commit().await?;
        expect_eq!(db.count("t").await?, 1);
    }),
    case!("sql.own.runs-share", [Sql], ["OWN-4"], |cx| {
        let db = cx.database_of(cx.scope_of(ScopeKind::User)?)?;
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        db.exec("INSERT INTO t VALUES (1)").await?;
        let other = db.by_another_run()?;
        other.exec("INSERT INTO t VALUES (2)").await?;
        expect_eq!(db.ints("SELECT n FROM t ORDER BY n").await?, [1, 2], "what two runs wrote");
    }),
    case!("sql.own.nothing-is-empty", [Sql], ["OWN-5"], |cx, db: Database| {
        expect_eq!(db.int("SELECT 1 + 1").await?, 2, "a query on a scope without a database");
        expect_kind!(
            db.query("SELECT * FROM t").await,
            ErrorKind::InvalidArgument,
            "a table that was never created"
        );
        check!(db.tables().await?.is_empty(), "a scope without a database has tables");
        expect_eq!(db.bytes().await?, 0, "bytes of a scope without a database");
        expect_eq!(
            cx.sql().drop_sql_scope(&db.scope).await?,
            false,
            "dropping a database that does not exist"
        );
    }),
    case!("sql.own.reading-makes-none", [Sql], ["OWN-5", "DBS-1"], |cx, db: Database| {
        expect_eq!(db.int("SELECT 1").await?, 1);
        db.tables().await?;
        db.bytes().await?;
        drop(crate::stream::collect_lines(cx.sql().dump(&db.scope).await?).await?);
        check!(listed(cx).await?.is_empty(), "reading created a database: {:?}", listed(cx).await?);
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        expect_eq!(listed(cx).await?, [db.scope.id.as_str()], "after the first write");
    }),
    case!("sql.own.refusals-make-none", [Sql], ["OWN-5"], |cx, db: Database| {
        check!(db.query("CREATE TABLE t (n INTEGER)").await.is_err(), "a write by `query` succeeded");
        check!(db.exec("BEGIN").await.is_err(), "`BEGIN` succeeded");
        check!(db.exec("CREATE TABLE t (n INTEGER); SELECT 1").await.is_err(), "two statements succeeded");
        check!(db.exec("no statement").await.is_err(), "no statement succeeded");
        check!(listed(cx).await?.is_empty(), "a refused statement created a database");
    }),
];

/// Creates the same table in each scope, with a different number.
async fn numbered<'a>(cx: &'a Cx, scopes: Vec<Scope>) -> CaseResult<Vec<(i64, Database<'a>)>> {
    let mut databases = Vec::new();
    for (n, scope) in (1..).zip(scopes) {
        let db = cx.database_of(scope)?;
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        db.exec(&format!("INSERT INTO t VALUES ({n})")).await?;
        databases.push((n, db));
    }
    Ok(databases)
}

async fn each_sees_its_own(databases: &[(i64, Database<'_>)]) -> CaseResult {
    for (n, db) in databases {
        expect_eq!(
            db.ints("SELECT n FROM t").await?,
            [*n],
            "the contents of {:?} {:?}",
            db.scope.kind,
            db.scope.id
        );
    }
    Ok(())
}

async fn listed(cx: &Cx) -> CaseResult<Vec<String>> {
    let page = cx.sql().sql_scopes(&cx.tenant(), SqlScopesQuery::default()).await?;
    Ok(page.scopes.into_iter().map(|(scope, _)| scope.id.as_str().to_owned()).collect())
}
