//! Statements by themselves or in a transaction, and their rows.

use std::sync::Arc;

use memory_core::sql::{SqlValue, StatementOptions, TxId};
use memory_core::{Error, ErrorKind, Provider, Result, RunContext, Scope, SqlFacet, Timestamp};

/// Most bytes of one page of rows.
const MAX_BYTES: usize = 64 << 20;

/// The database with the tables of one space.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) scope: Scope,
    pub(super) run: RunContext,
}

impl Tables {
    fn sql(&self) -> Result<&dyn SqlFacet> {
        self.provider
            .sql()
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "the provider has lost its SQL facet"))
    }
}

/// Statements on a space's tables, in a transaction or each by itself.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    tables: &'a Tables,
    tx: Option<TxId>,
}

pub(crate) fn text(text: impl Into<String>) -> SqlValue {
    SqlValue::Text(text.into())
}

pub(crate) fn int(number: impl TryInto<i64>) -> SqlValue {
    SqlValue::Int(number.try_into().unwrap_or(i64::MAX))
}

pub(crate) fn maybe(value: Option<SqlValue>) -> SqlValue {
    value.unwrap_or(SqlValue::Null)
}

impl<'a> Session<'a> {
    /// Each statement by itself.
    pub(super) fn plain(tables: &'a Tables) -> Self {
        Self { tables, tx: None }
    }

    /// A transaction, which is alone in its space until it ends.
    pub(super) async fn begin(tables: &'a Tables) -> Result<Self> {
        let state = tables.sql()?.begin(&tables.run, &tables.scope, None).await?;
        Ok(Self { tables, tx: Some(state.tx) })
    }

    fn facet(&self) -> Result<&'a dyn SqlFacet> {
        self.tables.sql()
    }

    fn options(&self) -> StatementOptions {
        let mut options = StatementOptions::default();
        options.tx.clone_from(&self.tx);
        options.max_bytes = MAX_BYTES;
        options.max_rows = 1_000_000;
        options
    }

    /// Runs a statement; returns the number of rows written.
    pub(crate) async fn exec(&self, sql: &str, args: &[SqlValue]) -> Result<u64> {
        let (run, scope) = (&self.tables.run, &self.tables.scope);
        Ok(self.facet()?.exec(run, scope, sql, args, self.options()).await?.rows_affected)
    }

    /// Runs a statement with `RETURNING`.
    pub(crate) async fn exec_returning(&self, sql: &str, args: &[SqlValue]) -> Result<Vec<Cells>> {
        let (run, scope) = (&self.tables.run, &self.tables.scope);
        let outcome = self.facet()?.exec(run, scope, sql, args, self.options()).await?;
        Ok(outcome.returning.unwrap_or_default().rows.into_iter().map(Cells::of).collect())
    }

    /// Reads rows.
    pub(crate) async fn query(&self, sql: &str, args: &[SqlValue]) -> Result<Vec<Cells>> {
        let (run, scope) = (&self.tables.run, &self.tables.scope);
        let rows = self.facet()?.query(run, scope, sql, args, self.options()).await?;
        if rows.truncated {
            return Err(Error::new(
                ErrorKind::ResultTooLarge,
                "the shared space holds more than one read may take",
            ));
        }
        Ok(rows.rows.into_iter().map(Cells::of).collect())
    }

    /// The only row of a query, if there is one.
    pub(crate) async fn one(&self, sql: &str, args: &[SqlValue]) -> Result<Option<Cells>> {
        Ok(self.query(sql, args).await?.into_iter().next())
    }

    fn tx(&self) -> Result<&TxId> {
        self.tx.as_ref().ok_or_else(|| Error::internal("a savepoint outside a transaction"))
    }

    /// Begins what [`keep`](Self::keep) or [`undo`](Self::undo) ends.
    pub(crate) async fn savepoint(&self) -> Result<()> {
        self.facet()?.begin(&self.tables.run, &self.tables.scope, Some(self.tx()?)).await.map(drop)
    }

    pub(crate) async fn keep(&self) -> Result<()> {
        self.facet()?.commit(&self.tables.run, &self.tables.scope, self.tx()?).await.map(drop)
    }

    pub(crate) async fn undo(&self) -> Result<()> {
        self.facet()?.rollback(&self.tables.run, &self.tables.scope, self.tx()?).await.map(drop)
    }

    /// Commits if the work succeeded, and rolls back if not.
    pub(crate) async fn end<T>(self, done: Result<T>) -> Result<T> {
        match done {
            Ok(value) => self.keep().await.map(|()| value),
            Err(error) => {
                if let Err(undone) = self.undo().await {
                    tracing::debug!(%undone, "a transaction ended by itself");
                }
                Err(error)
            }
        }
    }
}

/// The values of a row, taken in their order.
#[derive(Debug)]
pub(crate) struct Cells(std::vec::IntoIter<SqlValue>);

impl Cells {
    fn of(values: Vec<SqlValue>) -> Self {
        Self(values.into_iter())
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>> {
        match self.0.next() {
            Some(SqlValue::Text(text)) => Ok(Some(text)),
            Some(SqlValue::Null) => Ok(None),
            other => Err(strange(other.as_ref())),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String> {
        self.maybe_text()?.ok_or_else(|| strange(None))
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>> {
        match self.0.next() {
            Some(SqlValue::Int(number)) => Ok(Some(number)),
            Some(SqlValue::Null) => Ok(None),
            other => Err(strange(other.as_ref())),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64> {
        self.maybe_int()?.ok_or_else(|| strange(None))
    }

    /// A number that is never negative.
    pub(crate) fn count(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| strange(None))
    }

    pub(crate) fn maybe_real(&mut self) -> Result<Option<f64>> {
        match self.0.next() {
            Some(SqlValue::Real(number)) => Ok(Some(number)),
            Some(SqlValue::Null) => Ok(None),
            other => Err(strange(other.as_ref())),
        }
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp> {
        Timestamp::from_millis(self.int()?)
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>> {
        self.maybe_int()?.map(Timestamp::from_millis).transpose()
    }

    /// JSON, or an enumeration's name in quotes.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_str(&self.text()?).map_err(|error| strange(None).with_source(error))
    }

    /// A word of an enumeration.
    pub(crate) fn word<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_value(serde_json::Value::String(self.text()?))
            .map_err(|error| strange(None).with_source(error))
    }
}

fn strange(found: Option<&SqlValue>) -> Error {
    // The value may be somebody's words: only its kind is told.
    let kind = found.map_or("none", |value| match value {
        SqlValue::Null => "null",
        SqlValue::Text(_) => "text",
        SqlValue::Int(_) => "integer",
        _ => "other",
    });
    Error::new(ErrorKind::Corrupt, "a table of the shared space holds what nobody wrote there")
        .with_detail("found", kind)
}
