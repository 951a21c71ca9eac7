//! A scope's database for the cases about SQL.

use std::fmt;

use memory_core::sql::{ExecOutcome, Rows, SqlValue, StatementOptions, TableInfo, TxId, TxState};
use memory_core::{Error, ErrorKind, Result, RunContext, Scope, SqlDialect, SqlFacet};

use crate::check::{CaseResult, Stop, shown};
use crate::cx::Cx;

/// One scope, used by one run, inside or outside a transaction.
#[derive(Clone)]
pub(crate) struct Database<'a> {
    cx: &'a Cx,
    /// The scope.
    pub(crate) scope: Scope,
    /// The run.
    pub(crate) run: RunContext,
    /// The options of every statement.
    pub(crate) options: StatementOptions,
}

impl fmt::Debug for Database<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("scope", &self.scope).finish_non_exhaustive()
    }
}

impl Cx {
    /// The database of a fresh scope with a fresh run.
    pub(crate) fn database(&self) -> CaseResult<Database<'_>> {
        self.database_of(self.scope()?)
    }

    /// The database of that scope with a fresh run of its tenant.
    pub(crate) fn database_of(&self, scope: Scope) -> CaseResult<Database<'_>> {
        let run = self.run_of(&scope.tenant)?;
        Ok(Database { cx: self, scope, run, options: StatementOptions::default() })
    }

    /// The dialect of agents' SQL.
    pub(crate) fn dialect(&self) -> SqlDialect {
        self.capabilities().sql_dialect.unwrap_or(SqlDialect::Sqlite)
    }

    /// The text for the provider's dialect.
    pub(crate) fn in_dialect<T>(&self, sqlite: T, postgres: T) -> T {
        match self.dialect() {
            SqlDialect::Postgres => postgres,
            _ => sqlite,
        }
    }
}

impl<'a> Database<'a> {
    fn sql(&self) -> &'a dyn SqlFacet {
        self.cx.sql()
    }

    /// The same scope with a fresh run.
    pub(crate) fn by_another_run(&self) -> CaseResult<Self> {
        self.cx.database_of(self.scope.clone())
    }

    /// The same with that run.
    #[must_use]
    pub(crate) fn by(&self, run: &RunContext) -> Self {
        Self { run: run.clone(), ..self.clone() }
    }

    /// The same in that transaction.
    #[must_use]
    pub(crate) fn within(&self, tx: &TxId) -> Self {
        Self { options: self.options.clone().in_tx(tx.clone()), ..self.clone() }
    }

    /// The same with other options.
    #[must_use]
    pub(crate) fn with(&self, change: impl FnOnce(&mut StatementOptions)) -> Self {
        let mut changed = self.clone();
        change(&mut changed.options);
        changed
    }

    /// Runs a statement that may write.
    pub(crate) async fn exec(&self, sql: &str) -> Result<ExecOutcome> {
        self.exec_with(sql, &[]).await
    }

    /// As [`Database::exec`], with arguments.
    pub(crate) async fn exec_with(&self, sql: &str, args: &[SqlValue]) -> Result<ExecOutcome> {
        self.sql().exec(&self.run, &self.scope, sql, args, self.options.clone()).await
    }

    /// Runs each of these statements.
    pub(crate) async fn exec_all(&self, statements: &[&str]) -> Result<()> {
        for statement in statements {
            self.exec(statement).await?;
        }
        Ok(())
    }

    /// Runs a statement that does not write.
    pub(crate) async fn query(&self, sql: &str) -> Result<Rows> {
        self.query_with(sql, &[]).await
    }

    /// As [`Database::query`], with arguments.
    pub(crate) async fn query_with(&self, sql: &str, args: &[SqlValue]) -> Result<Rows> {
        self.sql().query(&self.run, &self.scope, sql, args, self.options.clone()).await
    }

    /// The rows of a query.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<Vec<SqlValue>>> {
        Ok(self.query(sql).await?.rows)
    }

    /// The only value of a query's only row.
    pub(crate) async fn value(&self, sql: &str) -> CaseResult<SqlValue> {
        self.value_with(sql, &[]).await
    }

    /// As [`Database::value`], with arguments.
    pub(crate) async fn value_with(&self, sql: &str, args: &[SqlValue]) -> CaseResult<SqlValue> {
        let rows = self.query_with(sql, args).await?;
        only_value(rows.rows).map_err(|rows| not_one_value(sql, &rows))
    }

    /// The only integer of a query's only row.
    pub(crate) async fn int(&self, sql: &str) -> CaseResult<i64> {
        match self.value(sql).await? {
            SqlValue::Int(int) => Ok(int),
            other => {
                Err(Stop::failed(format_args!("`{sql}` answered {}, expected an integer", shown(&other))))
            }
        }
    }

    /// How many rows a table has.
    pub(crate) async fn count(&self, table: &str) -> CaseResult<i64> {
        self.int(&format!("SELECT count(*) FROM {table}")).await
    }

    /// The integers of a query's only column, in order.
    pub(crate) async fn ints(&self, sql: &str) -> CaseResult<Vec<i64>> {
        let rows = self.rows(sql).await?;
        rows.iter()
            .map(|row| match row.as_slice() {
                [SqlValue::Int(int)] => Ok(*int),
                other => Err(Stop::failed(format_args!(
                    "`{sql}` answered a row {}, expected one integer",
                    shown(&other)
                ))),
            })
            .collect()
    }

    /// The texts of a query's only column, in order.
    pub(crate) async fn texts(&self, sql: &str) -> CaseResult<Vec<String>> {
        let rows = self.rows(sql).await?;
        rows.iter()
            .map(|row| match row.as_slice() {
                [SqlValue::Text(text)] => Ok(text.clone()),
                other => Err(Stop::failed(format_args!(
                    "`{sql}` answered a row {}, expected one text",
                    shown(&other)
                ))),
            })
            .collect()
    }

    /// Opens a transaction; returns this database inside it, and its state.
    pub(crate) async fn begin(&self) -> Result<(Self, TxState)> {
        let state = self.sql().begin(&self.run, &self.scope, None).await?;
        Ok((self.within(&state.tx), state))
    }

    /// Opens a savepoint within the transaction.
    pub(crate) async fn savepoint(&self) -> Result<TxState> {
        self.sql().begin(&self.run, &self.scope, Some(&self.tx()?)).await
    }

    /// Commits the innermost level.
    pub(crate) async fn commit(&self) -> Result<TxState> {
        self.sql().commit(&self.run, &self.scope, &self.tx()?).await
    }

    /// Rolls the innermost level back.
    pub(crate) async fn rollback(&self) -> Result<TxState> {
        self.sql().rollback(&self.run, &self.scope, &self.tx()?).await
    }

    /// The tables and views.
    pub(crate) async fn tables(&self) -> Result<Vec<TableInfo>> {
        self.sql().describe_tables(&self.run, &self.scope).await
    }

    /// The bytes that count against the quota.
    pub(crate) async fn bytes(&self) -> Result<u64> {
        Ok(self.sql().sql_usage(&self.scope).await?.bytes)
    }

    fn tx(&self) -> Result<TxId> {
        let tx = self.options.tx.clone();
        tx.ok_or_else(|| Error::new(ErrorKind::Internal, "the case ends a transaction that it did not begin"))
    }
}

fn not_one_value(sql: &str, rows: &[Vec<SqlValue>]) -> Stop {
    Stop::failed(format_args!("`{sql}` answered {}, expected one row of one value", shown(&rows)))
}

fn only_value(mut rows: Vec<Vec<SqlValue>>) -> std::result::Result<SqlValue, Vec<Vec<SqlValue>>> {
    match rows.as_mut_slice() {
        [row] if row.len() == 1 => row.pop().ok_or_else(Vec::new),
        _ => Err(rows),
    }
}

/// A text.
pub(crate) fn text(text: impl Into<String>) -> SqlValue {
    SqlValue::Text(text.into())
}
