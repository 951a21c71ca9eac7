//! HST: tables of the runtime itself, which no agent can reach.

use memory_core::sql::{RestoreMode, RestoreOptions, SqlScopesQuery};
use memory_core::{EraseTarget, ErrorKind, Scope, ScopeKind};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::cx::database::Database;

pub(crate) const CASES: &[Case] = &[
    case!("sql.host.apart", [Sql, HostTables], ["HST-1"], |cx| {
        let host = host(cx)?;
        host.exec("CREATE TABLE ledger (n INTEGER)").await?;
        host.exec("INSERT INTO ledger VALUES (1)").await?;
        for kind in ScopeKind::ALL {
            let theirs = cx.database_of(Scope { kind, ..host.scope.clone() })?;
            expect_kind!(
                theirs.query("SELECT n FROM ledger").await,
                ErrorKind::InvalidArgument,
                "the host's table, asked for by {kind}"
            );
            expect_kind!(
                theirs.exec("DROP TABLE ledger").await,
                ErrorKind::InvalidArgument,
                "the host's table, dropped by {kind}"
            );
            theirs.exec("CREATE TABLE ledger (n INTEGER)").await?;
            theirs.exec("DELETE FROM ledger").await?;
            cx.sql().drop_sql_scope(&theirs.scope).await?;
            if let Some(kv) = cx.provider().backend() {
                kv.drop_scope(&theirs.scope).await?;
            }
            expect_eq!(host.count("ledger").await?, 1, "rows of the host after {kind} dropped its own");
        }
    }),
    case!("sql.host.rows-that-never-change", [Sql, HostTables], ["HST-2"], |cx| {
        let host = host(cx)?;
        let within = append_only(cx, &host).await?;
        within.exec("INSERT INTO ledger VALUES (1, 'a')").await?;
        expect_kind!(
            within.exec("UPDATE ledger SET what = 'b'").await,
            ErrorKind::InvalidArgument,
            "an update of a row that never changes"
        );
        expect_kind!(
            within.exec("INSERT INTO ledger VALUES (0, 'b')").await,
            ErrorKind::InvalidArgument,
            "a row against a check"
        );
        within.commit().await?;
        expect_kind!(
            host.exec("DELETE FROM ledger").await,
            ErrorKind::InvalidArgument,
            "removing a row that never changes"
        );
        expect_eq!(host.count("ledger").await?, 1);
    }),
    case!("sql.host.listed-copied-dropped", [Sql, HostTables], ["HST-3"], |cx| {
        let host = host(cx)?;
        host.exec("CREATE TABLE ledger (n INTEGER PRIMARY KEY)").await?;
        host.exec("INSERT INTO ledger VALUES (1), (2)").await?;
        check!(listed(cx, &host.scope).await?, "the host's database is not listed");
        let dump = cx.sql().dump(&host.scope).await?;
        let copy = cx.database_of(Scope::host(host.scope.tenant.as_str(), "copy")?)?;
        let mode = RestoreOptions::default().with_mode(RestoreMode::IntoEmpty);
        cx.sql().restore(&copy.scope, dump, mode).await?;
        expect_eq!(copy.count("ledger").await?, 2, "rows of the copy");
        check!(cx.sql().drop_sql_scope(&host.scope).await?, "there was nothing to drop");
        check!(!listed(cx, &host.scope).await?, "the host's database is listed after it was dropped");
        expect_eq!(copy.count("ledger").await?, 2, "rows of the copy after the other was dropped");
    }),
    case!("sql.host.erased-with-its-tenant", [Sql, HostTables, Erase], ["HST-3"], |cx| {
        let host = host(cx)?;
        host.exec("CREATE TABLE ledger (n INTEGER)").await?;
        cx.provider().erase(&EraseTarget::Tenant(host.scope.tenant.clone())).await?;
        check!(!listed(cx, &host.scope).await?, "the host's database outlived its tenant");
    }),
];

/// The database of a host scope with the id of a fresh scope.
fn host(cx: &Cx) -> CaseResult<Database<'_>> {
    cx.database_of(Scope { kind: ScopeKind::Host, ..cx.scope()? })
}

async fn listed(cx: &Cx, scope: &Scope) -> CaseResult<bool> {
    let mut query = SqlScopesQuery::default();
    query.limit = 1_000;
    let page = cx.sql().sql_scopes(&scope.tenant, query).await?;
    Ok(page.scopes.iter().any(|(found, _)| found == scope))
}

/// Opens a transaction, and creates a table in it whose rows never change.
async fn append_only<'a>(cx: &Cx, host: &Database<'a>) -> CaseResult<Database<'a>> {
    let (within, _) = host.begin().await?;
    within.exec("CREATE TABLE ledger (n INTEGER NOT NULL CHECK (n > 0), what TEXT)").await?;
    let triggers: &[&str] = cx.in_dialect(
        &[
            "CREATE TRIGGER ledger_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'never'); END",
            "CREATE TRIGGER ledger_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'never'); END",
        ],
        &["CREATE TRIGGER ledger_change BEFORE UPDATE OR DELETE ON ledger \
           FOR EACH ROW EXECUTE FUNCTION mem_sql.append_only()"],
    );
    for trigger in triggers {
        within.exec(trigger).await?;
    }
    Ok(within)
}
