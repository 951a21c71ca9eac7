//! [`SqlFacet`]: statements and transactions.

use async_trait::async_trait;

use super::Checked;
use super::arguments::{check_scopes_page, check_statement, check_tenant};
use crate::capabilities::SqlDialect;
use crate::error::Result;
use crate::interposed::Op;
use crate::provider::Provider;
use crate::scope::{RunContext, Scope, ScopeKind, TenantId};
use crate::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlFacet, SqlScopePage, SqlScopesQuery,
    SqlUsage, SqlValue, StatementOptions, TableInfo, TxId, TxState, check_array, no_arrays,
};

impl<P: Provider> Checked<P> {
    fn checked_sql(&self, op: Op) -> Result<&dyn SqlFacet> {
        self.inner.sql().filter(|_| self.capabilities.sql).ok_or_else(|| self.unsupported(op))
    }

    /// The facet for a call on one scope; the host's own scopes only if the provider serves them.
    fn sql_of(&self, op: Op, scope: &Scope) -> Result<&dyn SqlFacet> {
        let sql = self.checked_sql(op)?;
        self.require(self.capabilities.host_tables || scope.kind != ScopeKind::Host, op)?;
        Ok(sql)
    }

    fn transactions(&self, op: Op, run: &RunContext, scope: &Scope) -> Result<&dyn SqlFacet> {
        let sql = self.sql_of(op, scope)?;
        self.require(self.capabilities.sql_transactions, op)?;
        check_tenant(run, scope)?;
        Ok(sql)
    }

    fn check_sql_call(&self, op: Op, sql: &str, args: &[SqlValue], options: &StatementOptions) -> Result<()> {
        check_statement(sql, args, options)?;
        if options.tx.is_some() {
            self.require(self.capabilities.sql_transactions, op)?;
        }
        for arg in args {
            if let SqlValue::Array(elements) = arg {
                if self.capabilities.sql_dialect != Some(SqlDialect::Postgres) {
                    return Err(no_arrays());
                }
                check_array(elements)?;
            }
        }
        if args.iter().any(|arg| matches!(arg, SqlValue::Embed(_))) && !self.capabilities.sql_vectors {
            return Err(self.vector_unsupported(op));
        }
        Ok(())
    }
}

#[async_trait]
impl<P: Provider> SqlFacet for Checked<P> {
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        let facet = self.sql_of(Op::Exec, scope)?;
        check_tenant(run, scope)?;
        self.check_sql_call(Op::Exec, sql, args, &options)?;
        facet.exec(run, scope, sql, args, options).await
    }

    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        let facet = self.sql_of(Op::Query, scope)?;
        check_tenant(run, scope)?;
        self.check_sql_call(Op::Query, sql, args, &options)?;
        facet.query(run, scope, sql, args, options).await
    }

    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        self.transactions(Op::Begin, run, scope)?.begin(run, scope, parent).await
    }

    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        self.transactions(Op::Commit, run, scope)?.commit(run, scope, tx).await
    }

    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        self.transactions(Op::Rollback, run, scope)?.rollback(run, scope, tx).await
    }

    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>> {
        let facet = self.sql_of(Op::DescribeTables, scope)?;
        check_tenant(run, scope)?;
        facet.describe_tables(run, scope).await
    }

    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage> {
        let facet = self.checked_sql(Op::SqlScopes)?;
        check_scopes_page(tenant, query.limit, query.cursor.as_ref())?;
        facet.sql_scopes(tenant, query).await
    }

    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool> {
        self.checked_sql(Op::DropSqlScope)?.drop_sql_scope(scope).await
    }

    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage> {
        self.checked_sql(Op::SqlUsage)?.sql_usage(scope).await
    }

    async fn dump(&self, scope: &Scope) -> Result<DumpStream> {
        self.checked_sql(Op::Dump)?.dump(scope).await
    }

    async fn restore(
        &self,
        scope: &Scope,
        dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        let facet = self.checked_sql(Op::Restore)?;
        if options.taken_at.is_some() {
            self.require(self.capabilities.erase, Op::Restore)?;
        }
        facet.restore(scope, dump, options).await
    }
}
