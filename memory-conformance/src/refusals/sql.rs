//! Refusals of the SQL facet for capabilities that are not advertised.

use memory_core::sql::{RestoreMode, RestoreOptions, SqlScopesQuery, SqlValue, StatementOptions, TxId};
use memory_core::{RunContext, Scope, ScopeKind, SqlFacet};

use super::refuser::Refuser;
use crate::case::Need;
use crate::check::{CaseResult, check};
use crate::stream;

pub(super) async fn prove(refuser: &Refuser<'_>) -> CaseResult {
    let cx = refuser.cx;
    if refuser.need == Need::Sql {
        check!(cx.provider().sql().is_none(), "`sql` is not advertised, yet the facet is handed out");
        check!(cx.raw().sql().is_none(), "`sql` is not advertised, yet the provider hands the facet out");
    }
    let asked = Asked { refuser, run: cx.run()?, scope: cx.scope()? };
    asked.all(cx.store().checked(), "called through Checked").await?;
    if let Some(raw) = cx.raw().sql() {
        asked.all(raw, "called on the provider itself").await?;
    }
    Ok(())
}

struct Asked<'a> {
    refuser: &'a Refuser<'a>,
    run: RunContext,
    scope: Scope,
}

impl Asked<'_> {
    async fn all(&self, sql: &dyn SqlFacet, via: &str) -> CaseResult {
        match self.refuser.need {
            Need::Sql => {
                self.statements(sql, via).await?;
                self.transactions(sql, via, StatementOptions::default()).await?;
                self.databases(sql, via).await
            }
            Need::SqlTransactions => {
                let named = StatementOptions::default().in_tx(TxId::new("t"));
                self.transactions(sql, via, named).await
            }
            Need::SqlVectors => {
                let args = [SqlValue::Embed("a text".to_owned())];
                self.exec(sql, via, &args, StatementOptions::default()).await
            }
            Need::SqlEntries => self.nothing_named(sql, "memory_entries", via).await,
            Need::SharedSchemas => self.nothing_named(sql, "conformance_shared", via).await,
            Need::HostTables => {
                let scope = Scope { kind: ScopeKind::Host, ..self.scope.clone() };
                let hosts = Asked { refuser: self.refuser, run: self.run.clone(), scope };
                hosts.statements(sql, via).await?;
                self.refuser.expect(via, "begin", sql.begin(&hosts.run, &hosts.scope, None).await)
            }
            _ => Ok(()),
        }
    }

    async fn exec(
        &self,
        sql: &dyn SqlFacet,
        via: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> CaseResult {
        let statement = if args.is_empty() { "SELECT 1" } else { "SELECT ?" };
        let (run, scope) = (&self.run, &self.scope);
        let exec = sql.exec(run, scope, statement, args, options.clone()).await;
        self.refuser.expect(via, "exec", exec)?;
        let query = sql.query(run, scope, statement, args, options).await;
        self.refuser.expect(via, "query", query)
    }

    async fn statements(&self, sql: &dyn SqlFacet, via: &str) -> CaseResult {
        self.exec(sql, via, &[], StatementOptions::default()).await?;
        let tables = sql.describe_tables(&self.run, &self.scope).await;
        self.refuser.expect(via, "describe_tables", tables)
    }

    async fn transactions(&self, sql: &dyn SqlFacet, via: &str, options: StatementOptions) -> CaseResult {
        let (run, scope, tx) = (&self.run, &self.scope, TxId::new("t"));
        self.refuser.expect(via, "begin", sql.begin(run, scope, None).await)?;
        self.refuser.expect(via, "begin", sql.begin(run, scope, Some(&tx)).await)?;
        self.refuser.expect(via, "commit", sql.commit(run, scope, &tx).await)?;
        self.refuser.expect(via, "rollback", sql.rollback(run, scope, &tx).await)?;
        self.exec(sql, via, &[], options).await
    }

    async fn databases(&self, sql: &dyn SqlFacet, via: &str) -> CaseResult {
        let (scope, query) = (&self.scope, SqlScopesQuery::default());
        self.refuser.expect(via, "sql_scopes", sql.sql_scopes(&scope.tenant, query).await)?;
        self.refuser.expect(via, "drop_sql_scope", sql.drop_sql_scope(scope).await)?;
        self.refuser.expect(via, "sql_usage", sql.sql_usage(scope).await)?;
        self.refuser.expect(via, "dump", sql.dump(scope).await.map(drop))?;
        for mode in [RestoreMode::IntoEmpty, RestoreMode::Replace] {
            let options = RestoreOptions::default().with_mode(mode);
            let restore = sql.restore(scope, stream::lines(Vec::new()), options).await;
            self.refuser.expect(via, "restore", restore)?;
        }
        Ok(())
    }

    /// Tables of capabilities that are not advertised do not exist: a statement that names one fails.
    async fn nothing_named(&self, sql: &dyn SqlFacet, table: &str, via: &str) -> CaseResult {
        let statement = format!("SELECT count(*) FROM {table}");
        let found = sql.query(&self.run, &self.scope, &statement, &[], StatementOptions::default()).await;
        check!(
            found.is_err(),
            "`{table}` {via}, without `{:?}` advertised: the table exists",
            self.refuser.need
        );
        Ok(())
    }
}
