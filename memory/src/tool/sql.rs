//! The SQL operations.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use memory_core::sql::{Rows, SqlFacet, StatementOptions, TxId, TxState};
use memory_core::{Error, ErrorKind, Result, Retry, ScopeKind};
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::{Budget, text};
use super::memory_tool::MemoryTool;
use super::ops::{SqlStatement, SqlTransaction, ToolOp};
use super::transaction::OpenTransaction;

/// The rows of a result that fit.
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
        let (args, tx) = (op.args.unwrap_or_default(), options.tx.clone());
        let answer = self.sql(ToolOp::SqlQuery)?.query(&self.run, &scope, &op.sql, &args, options).await;
        let rows = answer.map_err(|error| self.noted(scope.kind, tx.as_ref(), error))?;
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
        let (args, tx) = (op.args.unwrap_or_default(), options.tx.clone());
        let answer = self.sql(ToolOp::SqlExec)?.exec(&self.run, &scope, &op.sql, &args, options).await;
        let outcome = answer.map_err(|error| self.noted(scope.kind, tx.as_ref(), error))?;
        let returning = outcome.returning.map(|rows| self.rows(rows)).transpose()?;
        text(&Answer { rows_affected: outcome.rows_affected, returning })
    }

    /// Opens a transaction, or a savepoint in the named or open one; later statements run in its innermost level. If
    /// the open transaction is known to be lost, forgets it and begins a new one.
    pub(super) async fn sql_begin(&self, op: SqlTransaction) -> Result<String> {
        let scope = self.sql_scope(op.scope)?;
        let sql = self.sql(ToolOp::SqlBegin)?;
        let parent = op.tx.map(TxId::new).or_else(|| {
            self.transactions().get(&scope.kind).filter(|open| !open.lost).map(|open| open.tx.clone())
        });
        let answer = sql.begin(&self.run, &scope, parent.as_ref()).await;
        let state = answer.map_err(|error| self.noted(scope.kind, parent.as_ref(), error))?;
        self.transactions().insert(scope.kind, OpenTransaction::new(&state));
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
            return Err(Error::result_too_large(
                "the column names alone exceed the answer; select fewer columns or use shorter names",
            ));
        }
        let allowed = rows.rows.get(..self.policy.max_rows).unwrap_or(&rows.rows);
        let kept = budget.fit(allowed)?;
        Ok(RowsAnswer { columns, truncated: rows.truncated || kept.len() < rows.rows.len(), rows: kept })
    }

    fn transactions(&self) -> MutexGuard<'_, BTreeMap<ScopeKind, OpenTransaction>> {
        self.open_transactions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_tx(&self, kind: ScopeKind) -> Option<TxId> {
        self.transactions().get(&kind).map(|open| open.tx.clone())
    }

    fn tx_to_end(&self, kind: ScopeKind, named: Option<String>) -> Result<TxId> {
        named.map(TxId::new).or_else(|| self.open_tx(kind)).ok_or_else(|| {
            Error::transaction_lost("no transaction is open in this scope; call `sql_begin` first")
                .with_retry(Retry::Never)
        })
    }

    /// Records that the open transaction is lost. It stays the open one until a call that can only mean to end or
    /// replace it: a statement sent in the belief that it is open must not auto-commit.
    fn noted(&self, kind: ScopeKind, tx: Option<&TxId>, error: Error) -> Error {
        if error.kind() != ErrorKind::TransactionLost {
            return error;
        }
        let mut transactions = self.transactions();
        match transactions.get_mut(&kind) {
            Some(open) if tx == Some(&open.tx) => {
                open.lost = true;
                let tx = open.tx.as_str().to_owned();
                Error::transaction_lost(
                    "the transaction open in this scope was lost and rolled back; send `sql_begin` to begin again, or `sql_rollback` to continue without one",
                )
                .with_detail("tx", tx)
                .with_retry(Retry::Never)
                .with_source(error)
            }
            _ => error,
        }
    }

    /// Records the outcome of a commit or rollback.
    fn ended(&self, kind: ScopeKind, tx: &TxId, outcome: &Result<TxState>) {
        let mut open = self.transactions();
        if open.get(&kind).is_none_or(|open| open.tx != *tx) {
            return;
        }
        match outcome {
            Ok(state) if state.depth > 0 => {
                open.insert(kind, OpenTransaction::new(state));
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
