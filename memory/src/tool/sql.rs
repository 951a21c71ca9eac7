//! The SQL operations.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use memory_core::sql::{Rows, SqlFacet, StatementOptions, TxId};
use memory_core::{Error, ErrorKind, Result, Retry, ScopeKind};
use serde::Serialize;
use serde_json::value::RawValue;

use super::MemoryTool;
use super::answer::{Budget, text};
use super::ops::{SqlStatement, SqlTransaction, ToolOp};

/// Rows of a result, as many as fit.
#[derive(Serialize)]
struct RowsAnswer {
    columns: Vec<Box<RawValue>>,
    rows: Vec<Box<RawValue>>,
    truncated: bool,
}

impl MemoryTool {
    fn sql(&self, op: ToolOp) -> Result<&dyn SqlFacet> {
        self.memory.sql().ok_or_else(|| self.unsupported(op))
    }

    pub(super) async fn sql_query(&self, op: SqlStatement) -> Result<String> {
        let scope = self.sql_scope(op.scope)?;
        let options = self.statement_options(scope.kind, op.tx);
        let args = op.args.unwrap_or_default();
        let rows =
            self.sql(ToolOp::SqlQuery)?.query(&self.run, &scope, &op.statement, &args, options).await?;
        text(&self.rows(rows)?)
    }

    pub(super) async fn sql_exec(&self, op: SqlStatement) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            rows_affected: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            returning: Option<RowsAnswer>,
        }
        let scope = self.sql_scope(op.scope)?;
        let options = self.statement_options(scope.kind, op.tx);
        let args = op.args.unwrap_or_default();
        let outcome =
            self.sql(ToolOp::SqlExec)?.exec(&self.run, &scope, &op.statement, &args, options).await?;
        let returning = outcome.returning.map(|rows| self.rows(rows)).transpose()?;
        text(&Answer { rows_affected: outcome.rows_affected, returning })
    }

    /// Opens a transaction, or a savepoint in the one named or open; its innermost level is what
    /// later statements run in.
    pub(super) async fn sql_begin(&self, op: SqlTransaction) -> Result<String> {
        let scope = self.sql_scope(op.scope)?;
        let parent = op.tx.map(TxId::new).or_else(|| self.open_tx(scope.kind));
        let state = self.sql(ToolOp::SqlBegin)?.begin(&self.run, &scope, parent.as_ref()).await?;
        self.transactions().insert(scope.kind, state.tx.clone());
        text(&state)
    }

    pub(super) async fn sql_commit(&self, op: SqlTransaction) -> Result<String> {
        let (scope, sql) = (self.sql_scope(op.scope)?, self.sql(ToolOp::SqlCommit)?);
        let tx = self.tx_to_end(scope.kind, op.tx)?;
        let outcome = sql.commit(&self.run, &scope, &tx).await;
        self.ended(scope.kind, &tx, &outcome);
        text(&outcome?)
    }

    pub(super) async fn sql_rollback(&self, op: SqlTransaction) -> Result<String> {
        let (scope, sql) = (self.sql_scope(op.scope)?, self.sql(ToolOp::SqlRollback)?);
        let tx = self.tx_to_end(scope.kind, op.tx)?;
        let outcome = sql.rollback(&self.run, &scope, &tx).await;
        self.ended(scope.kind, &tx, &outcome);
        text(&outcome?)
    }

    fn statement_options(&self, kind: ScopeKind, tx: Option<String>) -> StatementOptions {
        let mut options = StatementOptions::default();
        options.tx = tx.map(TxId::new).or_else(|| self.open_tx(kind));
        options.max_rows = self.policy.max_rows;
        options.max_bytes = self.policy.max_answer_bytes;
        options.quota_bytes = self.policy.sql_max_bytes;
        options
    }

    fn rows(&self, rows: Rows) -> Result<RowsAnswer> {
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let columns = budget.fit(&rows.columns)?;
        if columns.len() < rows.columns.len() {
            return Err(Error::new(
                ErrorKind::ResultTooLarge,
                "the column names alone exceed the answer; select fewer columns or name them shorter",
            ));
        }
        let allowed = rows.rows.get(..self.policy.max_rows).unwrap_or(&rows.rows);
        let kept = budget.fit(allowed)?;
        Ok(RowsAnswer { columns, truncated: rows.truncated || kept.len() < rows.rows.len(), rows: kept })
    }

    fn transactions(&self) -> MutexGuard<'_, BTreeMap<ScopeKind, TxId>> {
        self.open_transactions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_tx(&self, kind: ScopeKind) -> Option<TxId> {
        self.transactions().get(&kind).cloned()
    }

    fn tx_to_end(&self, kind: ScopeKind, named: Option<String>) -> Result<TxId> {
        named.map(TxId::new).or_else(|| self.open_tx(kind)).ok_or_else(|| {
            Error::new(
                ErrorKind::TransactionLost,
                "no transaction is open in this scope; call `sql_begin` first",
            )
            .with_retry(Retry::Never)
        })
    }

    /// A transaction that was lost stays the open one until it is committed or rolled back: a
    /// statement sent in the belief that it is open must not commit by itself.
    fn ended(&self, kind: ScopeKind, tx: &TxId, outcome: &Result<memory_core::sql::TxState>) {
        let mut open = self.transactions();
        if open.get(&kind) != Some(tx) {
            return;
        }
        match outcome {
            Ok(state) if state.depth > 0 => {
                open.insert(kind, state.tx.clone());
            }
            Ok(_) => {
                open.remove(&kind);
            }
            Err(error) if error.kind() == ErrorKind::TransactionLost => {
                open.remove(&kind);
            }
            Err(_) => {}
        }
    }
}
