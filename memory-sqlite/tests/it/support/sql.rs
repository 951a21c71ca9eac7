//! The SQL facet of one scope, with blocking calls.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_core::sql::{
    ExecOutcome, Rows, SqlFacet, SqlScopesQuery, SqlValue, StatementOptions, TxId, TxState,
};
use memory_core::{Checked, Error, Provider as _, Result, RunContext, Scope, ScopeId, ScopeKind, TenantId};
use memory_sqlite::{SqliteConfig, SqliteProvider};

use super::{TestClock, agent, block_on};

/// A provider as users have it, one run, one scope.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) provider: Arc<SqliteProvider>,
    pub(crate) checked: Arc<Checked<Arc<SqliteProvider>>>,
    pub(crate) run: RunContext,
    pub(crate) scope: Scope,
}

impl Sql {
    pub(crate) fn open(path: &Path, config: SqliteConfig) -> Self {
        Self::over(SqliteProvider::open(path, config, TestClock::new()).unwrap())
    }

    pub(crate) fn in_memory(config: SqliteConfig) -> Self {
        Self::over(SqliteProvider::open_in_memory(config, TestClock::new()).unwrap())
    }

    pub(crate) fn over(provider: SqliteProvider) -> Self {
        let provider = Arc::new(provider);
        let checked = Arc::new(Checked::new(provider.clone()).unwrap());
        let id = |id: &str| ScopeId::new(id).unwrap();
        let run = RunContext::new(TenantId::new("acme").unwrap(), id("ada"), id("run-1"));
        Self { provider, checked, run, scope: agent("ada") }
    }

    /// The same provider and run, at another scope.
    pub(crate) fn at(&self, scope: Scope) -> Self {
        Self { scope, ..self.clone() }
    }

    /// The same provider and scope, in another run.
    pub(crate) fn by_run(&self, run: &str) -> Self {
        let mut other = self.clone();
        other.run.run = ScopeId::new(run).unwrap();
        other.run.root_run = ScopeId::new(run).unwrap();
        other
    }

    pub(crate) fn run_scope(&self) -> Scope {
        self.run.scope(ScopeKind::Run).unwrap()
    }

    pub(crate) fn facet(&self) -> &dyn SqlFacet {
        self.checked.sql().unwrap()
    }

    pub(crate) async fn exec_async(
        &self,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        self.facet().exec(&self.run, &self.scope, sql, args, options).await
    }

    pub(crate) fn try_exec(&self, sql: &str) -> Result<ExecOutcome> {
        block_on(self.exec_async(sql, &[], StatementOptions::default()))
    }

    pub(crate) fn exec(&self, sql: &str) -> ExecOutcome {
        self.try_exec(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub(crate) fn run_with(&self, sql: &str, args: &[SqlValue]) -> ExecOutcome {
        block_on(self.exec_async(sql, args, StatementOptions::default()))
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub(crate) fn try_query_with(
        &self,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        block_on(self.facet().query(&self.run, &self.scope, sql, args, options))
    }

    pub(crate) fn try_query(&self, sql: &str) -> Result<Rows> {
        self.try_query_with(sql, &[], StatementOptions::default())
    }

    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<SqlValue>> {
        self.try_query(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}")).rows
    }

    pub(crate) fn int(&self, sql: &str) -> i64 {
        match self.rows(sql).first().and_then(|row| row.first()) {
            Some(SqlValue::Int(value)) => *value,
            other => panic!("{sql}: {other:?}"),
        }
    }

    /// The first column.
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        let text = |row: Vec<SqlValue>| match row.into_iter().next() {
            Some(SqlValue::Text(text)) => text,
            other => panic!("{sql}: {other:?}"),
        };
        self.rows(sql).into_iter().map(text).collect()
    }

    pub(crate) fn begin(&self) -> TxId {
        self.try_begin(None).unwrap().tx
    }

    pub(crate) fn try_begin(&self, parent: Option<&TxId>) -> Result<TxState> {
        block_on(self.facet().begin(&self.run, &self.scope, parent))
    }

    pub(crate) fn commit(&self, tx: &TxId) -> Result<TxState> {
        block_on(self.facet().commit(&self.run, &self.scope, tx))
    }

    pub(crate) fn rollback(&self, tx: &TxId) -> Result<TxState> {
        block_on(self.facet().rollback(&self.run, &self.scope, tx))
    }

    pub(crate) fn try_exec_in(&self, tx: &TxId, sql: &str) -> Result<ExecOutcome> {
        block_on(self.exec_async(sql, &[], StatementOptions::default().in_tx(tx.clone())))
    }

    pub(crate) fn exec_in(&self, tx: &TxId, sql: &str) -> ExecOutcome {
        self.try_exec_in(tx, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    pub(crate) fn int_in(&self, tx: &TxId, sql: &str) -> i64 {
        let rows = self.try_query_with(sql, &[], StatementOptions::default().in_tx(tx.clone()));
        match rows.unwrap_or_else(|error| panic!("{sql}: {error:?}")).rows[0][0] {
            SqlValue::Int(value) => value,
            ref other => panic!("{sql}: {other:?}"),
        }
    }

    pub(crate) fn tables(&self) -> Vec<String> {
        let tables = block_on(self.facet().describe_tables(&self.run, &self.scope)).unwrap();
        tables.into_iter().map(|table| table.name).collect()
    }

    pub(crate) fn usage(&self) -> u64 {
        block_on(self.facet().sql_usage(&self.scope)).unwrap().bytes
    }

    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let page = block_on(self.facet().sql_scopes(&self.run.tenant, SqlScopesQuery::default())).unwrap();
        page.scopes.into_iter().map(|(scope, _)| scope).collect()
    }

    pub(crate) fn drop_scope(&self) -> bool {
        block_on(self.facet().drop_sql_scope(&self.scope)).unwrap()
    }

    pub(crate) fn end_run(&self) {
        block_on(self.checked.end_run(&self.run.tenant, &self.run.root_run)).unwrap();
    }

    pub(crate) fn close(self) {
        block_on(self.provider.close()).unwrap();
    }
}

/// Options of a call with this timeout.
pub(crate) fn within(timeout: Duration) -> StatementOptions {
    let mut options = StatementOptions::default();
    options.timeout = Some(timeout);
    options
}

/// The state of the transaction, according to an error.
pub(crate) fn transaction_of(error: &Error) -> Option<&str> {
    error.details().get("transaction").and_then(|told| told.as_str())
}
