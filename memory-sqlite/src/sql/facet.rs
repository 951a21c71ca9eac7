//! [`SqlFacet`] for SQLite.

use async_trait::async_trait;
use memory_core::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlFacet, SqlScopePage, SqlScopesQuery,
    SqlUsage, SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use memory_core::{EmbedRole, Result, RunContext, Scope, TenantId};
use memory_sql::{End, check_tenant, has_texts};
use memory_validator::Mode;

use super::arguments;
use super::statements::{Call, rows};
use crate::provider::SqliteProvider;
use crate::sandbox::Ran;

impl SqliteProvider {
    pub(crate) async fn statement(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
        mode: Mode,
    ) -> Result<Ran> {
        check_tenant(run, scope)?;
        let deadline = self.sql.deadline(options.timeout);
        let args = if has_texts(args) {
            // A refused statement must not cost an embedding.
            self.sql.wake()?;
            self.sql.refuse(scope, sql, mode, deadline).await?;
            let role = if mode == Mode::Query { EmbedRole::Query } else { EmbedRole::Document };
            arguments::embed(self.embedder.as_ref(), args, role).await?
        } else {
            args.to_vec()
        };
        let (scope, sql) = (scope.clone(), sql.to_owned());
        self.sql.run(Call { scope, sql, args, mode, options, deadline }).await
    }
}

#[async_trait]
impl SqlFacet for SqliteProvider {
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        let ran = self.statement(run, scope, sql, args, options, Mode::Exec).await?;
        let mut outcome = ExecOutcome::default();
        outcome.rows_affected = ran.rows_affected;
        outcome.returning = ran.rows;
        Ok(outcome)
    }

    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        self.statement(run, scope, sql, args, options, Mode::Query).await.map(rows)
    }

    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        check_tenant(run, scope)?;
        match parent {
            Some(parent) => self.sql.nest(scope, parent).await,
            None => self.sql.begin(run, scope).await,
        }
    }

    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        check_tenant(run, scope)?;
        self.sql.end_innermost(scope, tx, End::Commit).await
    }

    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        check_tenant(run, scope)?;
        self.sql.end_innermost(scope, tx, End::RollBack).await
    }

    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>> {
        check_tenant(run, scope)?;
        self.sql.tables(scope).await
    }

    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage> {
        self.sql.scopes(tenant, query).await
    }

    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool> {
        self.sql.drop_scope(scope).await
    }

    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage> {
        self.sql.usage(scope).await
    }

    async fn dump(&self, scope: &Scope) -> Result<DumpStream> {
        self.sql.dump(scope).await
    }

    async fn restore(
        &self,
        scope: &Scope,
        dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        self.sql.restore(scope, dump, options).await
    }
}
