//! One operator's statements on one scope.

use std::time::Duration;

use memory::OpenContext;
use memory_core::sql::{ExecOutcome, Rows, SqlFacet, SqlValue, StatementOptions, TableInfo, TxState};
use memory_core::{
    Error, ErrorKind, IdGen as _, Result, Retry, RunContext, Scope, ScopeId, ScopeKind, SqlDialect,
};

use crate::terminal::Opened;

/// Limits of every statement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_rows: usize,
    pub(super) timeout: Option<Duration>,
    pub(super) quota_bytes: Option<u64>,
}

/// The result of a statement.
#[derive(Debug)]
pub(super) enum Answer {
    Rows(Rows),
    Done(ExecOutcome),
}

/// The facet, the scope, and the open transaction.
pub(super) struct Session<'a> {
    opened: &'a Opened,
    run: RunContext,
    limits: Limits,
    transaction: Option<TxState>,
}

impl<'a> Session<'a> {
    pub(super) fn new(opened: &'a Opened, limits: Limits) -> Result<Self> {
        let scope = opened.scope();
        let fresh = ScopeId::new(format!("sql-{:032x}", OpenContext::default().ids.fresh()))?;
        // The scope of a run belongs to that run.
        let own = if scope.kind == ScopeKind::Run { scope.id.clone() } else { fresh };
        let mut run = RunContext::new(scope.tenant.clone(), ScopeId::new("operator")?, own);
        if scope.kind == ScopeKind::User {
            run = run.with_user(scope.id.clone());
        }
        let session = Self { opened, run, limits, transaction: None };
        session.facet("sql")?;
        Ok(session)
    }

    pub(super) fn scope(&self) -> &Scope {
        self.opened.scope()
    }

    pub(super) fn dialect(&self) -> Option<SqlDialect> {
        self.opened.memory.capabilities().sql_dialect
    }

    pub(super) fn transaction(&self) -> Option<&TxState> {
        self.transaction.as_ref()
    }

    pub(super) fn facet(&self, operation: &str) -> Result<&'a dyn SqlFacet> {
        let memory = &self.opened.memory;
        memory.sql().ok_or_else(|| Error::unsupported(operation, memory.name()))
    }

    /// Runs a statement. The facet decides whether it is read-only.
    pub(super) async fn statement(&mut self, sql: &str, args: &[SqlValue]) -> Result<Answer> {
        let facet = self.facet("sql")?;
        if may_read_only(sql) {
            match facet.query(&self.run, self.scope(), sql, args, self.options()).await {
                Err(error) if error.kind() == ErrorKind::ReadOnly => {}
                other => return self.noted(other).map(Answer::Rows),
            }
        }
        let done = facet.exec(&self.run, self.scope(), sql, args, self.options()).await;
        self.noted(done).map(Answer::Done)
    }

    fn options(&self) -> StatementOptions {
        let mut options = StatementOptions::default();
        options.tx = self.transaction.as_ref().map(|state| state.tx.clone());
        options.timeout = self.limits.timeout;
        options.max_rows = self.limits.max_rows;
        options.quota_bytes = self.limits.quota_bytes;
        options
    }

    /// Forgets a lost transaction; the user decides what to do next.
    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::TransactionLost) {
            self.transaction = None;
        }
        result
    }

    /// Opens a transaction, or a savepoint in the open one.
    pub(super) async fn begin(&mut self) -> Result<&TxState> {
        let parent = self.transaction.as_ref().map(|state| state.tx.clone());
        let begun = self.facet("begin")?.begin(&self.run, self.scope(), parent.as_ref()).await;
        let state = self.noted(begun)?;
        Ok(self.transaction.insert(state))
    }

    /// Commits or rolls back the innermost level; returns the resulting state.
    pub(super) async fn end(&mut self, commit: bool) -> Result<TxState> {
        let Some(tx) = self.transaction.as_ref().map(|state| state.tx.clone()) else {
            return Err(
                Error::transaction_lost("no transaction is open; .begin opens one").with_retry(Retry::Never)
            );
        };
        let facet = self.facet("commit")?;
        let ended = if commit {
            facet.commit(&self.run, self.scope(), &tx).await
        } else {
            facet.rollback(&self.run, self.scope(), &tx).await
        };
        let state = self.noted(ended)?;
        self.transaction = (state.depth > 0).then(|| state.clone());
        Ok(state)
    }

    pub(super) async fn tables(&self) -> Result<Vec<TableInfo>> {
        self.facet("describe_tables")?.describe_tables(&self.run, self.scope()).await
    }

    /// Rolls back and ends the run; returns whether a transaction was open.
    pub(super) async fn close(&mut self) -> bool {
        let open = self.transaction.is_some();
        while self.transaction.is_some() {
            if self.end(false).await.is_err() {
                self.transaction = None;
            }
        }
        open
    }
}

/// Whether the statement starts like a query; `WITH` and `EXPLAIN` may be either.
pub(super) fn may_read_only(sql: &str) -> bool {
    let mut rest = sql;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        rest = if rest.starts_with("--") {
            rest.split_once('\n').map_or("", |(_, after)| after)
        } else if rest.starts_with("/*") {
            rest.split_once("*/").map_or("", |(_, after)| after)
        } else {
            break;
        };
    }
    let first: String = rest.chars().take_while(char::is_ascii_alphabetic).take(8).collect();
    ["select", "with", "values", "explain", "table"].iter().any(|word| first.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::may_read_only;

    #[test]
    fn what_may_read_is_told_by_its_first_word() {
        for reads in ["SELECT 1", " -- a\n /* b */ (select 1)", "WITH x AS (SELECT 1) SELECT 1", "values(1)"]
        {
            assert!(may_read_only(reads), "{reads}");
        }
        for writes in ["INSERT INTO t VALUES (1)", "", "-- SELECT", "selection", "CREATE TABLE t(a)"] {
            assert!(!may_read_only(writes), "{writes}");
        }
    }
}
