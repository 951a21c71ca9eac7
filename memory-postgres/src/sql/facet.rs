//! [`SqlFacet`] for PostgreSQL.

use async_trait::async_trait;
use memory_core::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlFacet, SqlScopePage, SqlScopesQuery,
    SqlUsage, SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use memory_core::{EmbedRole, Error, Result, RunContext, Scope, TenantId};
use memory_sql::{End, check_tenant, has_texts};
use memory_validator::Mode;
use std::sync::Arc;
use tokio_postgres::IsolationLevel;

use crate::lifecycle::tombstones::ScopeTombstones;
use crate::provider::PostgresProvider;
use crate::sql::engine::Engine;
use crate::sql::errors;
use crate::sql::statement::arguments;
use crate::sql::statement::run::{Call, Ran};
use crate::store::hex::Hex;

impl PostgresProvider {
    pub(crate) fn engine(&self) -> Result<&Arc<Engine>> {
        self.sql.as_ref().ok_or_else(|| Error::unsupported("sql", "postgres"))
    }

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
        let engine = self.engine()?;
        let deadline = engine.deadline(options.timeout);
        if let Some(tx) = &options.tx {
            // A lost transaction is reported before anything about the statement.
            engine.transactions.find(scope, tx)?;
        }
        let open = |error: Error| match options.tx {
            Some(_) => error.with_detail("transaction", "open"),
            None => error,
        };
        let own = Hex::of(scope).schema();
        let judged = engine.judge(scope.kind, &own, sql, mode).await.map_err(open)?;
        // A refused statement must not cost an embedding.
        let args = if has_texts(args) {
            let role = if mode == Mode::Query { EmbedRole::Query } else { EmbedRole::Document };
            arguments::embed(self.embedder.as_ref(), engine.found.vector.is_some(), args, role)
                .await
                .map_err(open)?
        } else {
            args.to_vec()
        };
        engine.used(scope, mode == Mode::Exec).await.map_err(open)?;
        let ran = engine.run(Call { scope: scope.clone(), judged, args, mode, options, deadline }).await;
        if engine.found.vector.is_some() { ran } else { ran.map_err(errors::without_vectors) }
    }
}

#[async_trait]
impl SqlFacet for PostgresProvider {
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
        let ran = self.statement(run, scope, sql, args, options, Mode::Query).await?;
        Ok(ran.rows.unwrap_or_default())
    }

    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        check_tenant(run, scope)?;
        match parent {
            Some(parent) => self.engine()?.nest(scope, parent).await,
            None => {
                let engine = self.engine()?;
                engine.used(scope, true).await?;
                engine.begin(run, scope).await
            }
        }
    }

    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        check_tenant(run, scope)?;
        self.engine()?.end_innermost(scope, tx, End::Commit).await
    }

    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        check_tenant(run, scope)?;
        self.engine()?.end_innermost(scope, tx, End::RollBack).await
    }

    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>> {
        check_tenant(run, scope)?;
        self.engine()?.tables(scope).await
    }

    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage> {
        self.engine()?.scopes(tenant, query).await
    }

    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool> {
        self.engine()?.drop_scope(scope).await
    }

    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage> {
        self.engine()?.usage(scope).await
    }

    async fn dump(&self, scope: &Scope) -> Result<DumpStream> {
        self.engine()?.dump(scope).await
    }

    async fn restore(
        &self,
        scope: &Scope,
        dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        let engine = self.engine()?;
        engine.used(scope, true).await?;
        let Some(taken_at) = options.taken_at else { return engine.restore(scope, dump, options).await };
        // A forget of the scope waits for this transaction, and then drops what was restored.
        let mut connection = self.store.connections.take().await?;
        let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
        let tombstones = ScopeTombstones::over(&self.store, scope, &transaction).await?;
        let restored = if tombstones.covers(taken_at) {
            let mut outcome = RestoreOutcome::default();
            outcome.forgotten = true;
            Ok(outcome)
        } else {
            engine.restore(scope, dump, options).await
        };
        transaction.rollback().await;
        restored
    }
}
