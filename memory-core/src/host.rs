//! The runtime's own tables, in the database of a [`Scope::host`]: single statements, transactions and rows. Code built
//! on them is the same for every store; [`HostTables::dialect`] covers the differences.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::sql::{SqlValue, StatementOptions, TxId};
use crate::{
    Error, ErrorKind, Provider, Result, RunContext, Scope, ScopeId, SqlDialect, SqlFacet, TenantId, Timestamp,
};

/// Most bytes of one page of rows.
const MAX_BYTES: usize = 64 << 20;

/// The database with the tables of one space of a tenant.
#[derive(Debug)]
pub struct HostTables {
    provider: Arc<dyn Provider>,
    scope: Scope,
    run: RunContext,
    dialect: SqlDialect,
    timeout: Option<Duration>,
}

impl HostTables {
    /// The tables of a space. The first statement that writes creates it.
    ///
    /// # Errors
    /// `capability_unsupported` for a provider without [`host_tables`](crate::Capabilities::host_tables);
    /// `invalid_argument` for a malformed name.
    pub fn new(provider: Arc<dyn Provider>, tenant: &TenantId, space: &str) -> Result<Self> {
        let capabilities = provider.capabilities();
        let Some(dialect) = capabilities.sql_dialect.filter(|_| capabilities.host_tables) else {
            let name = provider.name();
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "provider `{name}` has no tables for graphs and shared state; they need SQLite, or PostgreSQL with `sql.url` in \
                     its URL or its section of memory.toml"
                ),
            )
            .with_detail("operation", "host_tables")
            .with_detail("provider", name));
        };
        let scope = Scope::host(tenant.as_str(), space)?;
        let run = RunContext::new(tenant.clone(), ScopeId::new("host")?, ScopeId::new("host")?);
        Ok(Self { provider, scope, run, dialect, timeout: None })
    }

    /// Allows each statement this long, including waiting; without it, the provider's default applies.
    /// [`begin`](Self::begin) always uses the provider's default.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The scope whose database holds them.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The SQL dialect they use.
    #[must_use]
    pub const fn dialect(&self) -> SqlDialect {
        self.dialect
    }

    /// Whether a table of this name exists, or all of several separated by commas. Creates nothing.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn has(&self, table: &str) -> Result<bool> {
        match self.plain().query(&format!("SELECT 1 FROM {table} LIMIT 0"), &[]).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::InvalidArgument => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether everything these `CREATE` statements would create exists, as far as the scope can see: PostgreSQL hides
    /// triggers from it, so with a trigger the answer is no. Creates nothing.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn has_all(&self, statements: &[String]) -> Result<bool> {
        const WORDS: [&str; 9] = ["CREATE", "OR", "REPLACE", "TABLE", "VIEW", "INDEX", "IF", "NOT", "EXISTS"];
        let name = |statement: &String| {
            let name = statement.split_whitespace().find(|word| *word != "TRIGGER" && !WORDS.contains(word));
            name.unwrap_or_default().to_owned()
        };
        if self.dialect != SqlDialect::Postgres {
            let rows = self.plain().query("SELECT name FROM sqlite_schema", &[]).await?;
            let there = rows.into_iter().map(|mut row| row.text()).collect::<Result<BTreeSet<_>>>()?;
            return Ok(statements.iter().all(|statement| there.contains(&name(statement))));
        }
        if statements.iter().any(|statement| statement.contains(" TRIGGER ")) {
            return Ok(false);
        }
        let tables = statements.iter().filter(|statement| statement.starts_with("CREATE TABLE")).map(name);
        self.has(&tables.collect::<Vec<_>>().join(", ")).await
    }

    /// Each statement by itself.
    #[must_use]
    pub const fn plain(&self) -> Session<'_> {
        Session { tables: self, tx: None }
    }

    /// Begins a transaction, which has its space to itself until it ends.
    ///
    /// # Errors
    /// `timeout` while another transaction is open; the store's errors.
    pub async fn begin(&self) -> Result<Session<'_>> {
        let state = self.sql()?.begin(&self.run, &self.scope, None).await?;
        Ok(Session { tables: self, tx: Some(state.tx) })
    }

    fn sql(&self) -> Result<&dyn SqlFacet> {
        self.provider
            .sql()
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "the provider has lost its SQL facet"))
    }
}

/// Statements on a space's tables, in a transaction or each on its own. They fail as those of [`SqlFacet`] do.
#[derive(Debug)]
pub struct Session<'a> {
    tables: &'a HostTables,
    tx: Option<TxId>,
}

/// A text as an argument.
pub fn text(text: impl Into<String>) -> SqlValue {
    SqlValue::Text(text.into())
}

/// An integer as an argument, capped at the largest that fits.
pub fn int(number: impl TryInto<i64>) -> SqlValue {
    SqlValue::Int(number.try_into().unwrap_or(i64::MAX))
}

/// The value, or null.
#[must_use]
pub fn maybe(value: Option<SqlValue>) -> SqlValue {
    value.unwrap_or(SqlValue::Null)
}

#[allow(clippy::missing_errors_doc, reason = "said once, on the type")]
impl<'a> Session<'a> {
    fn facet(&self) -> Result<&'a dyn SqlFacet> {
        self.tables.sql()
    }

    fn options(&self) -> StatementOptions {
        let mut options = StatementOptions::default();
        options.tx.clone_from(&self.tx);
        options.timeout = self.tables.timeout;
        options.max_bytes = MAX_BYTES;
        options.max_rows = 1_000_000;
        options
    }

    /// Runs a statement; returns the number of rows written.
    pub async fn exec(&self, sql: &str, args: &[SqlValue]) -> Result<u64> {
        let (run, scope) = (&self.tables.run, &self.tables.scope);
        Ok(self.facet()?.exec(run, scope, sql, args, self.options()).await?.rows_affected)
    }

    /// Runs a statement with `RETURNING`.
    pub async fn exec_returning(&self, sql: &str, args: &[SqlValue]) -> Result<Vec<Cells>> {
        let (run, scope) = (&self.tables.run, &self.tables.scope);
        let outcome = self.facet()?.exec(run, scope, sql, args, self.options()).await?;
        Ok(outcome.returning.unwrap_or_default().rows.into_iter().map(Cells::of).collect())
    }

    /// Reads rows.
    pub async fn query(&self, sql: &str, args: &[SqlValue]) -> Result<Vec<Cells>> {
        let (run, scope) = (&self.tables.run, &self.tables.scope);
        let rows = self.facet()?.query(run, scope, sql, args, self.options()).await?;
        if rows.truncated {
            return Err(Error::result_too_large("this space holds more than one read may take"));
        }
        Ok(rows.rows.into_iter().map(Cells::of).collect())
    }

    /// The only row of a query, if any.
    pub async fn one(&self, sql: &str, args: &[SqlValue]) -> Result<Option<Cells>> {
        Ok(self.query(sql, args).await?.into_iter().next())
    }

    fn tx(&self) -> Result<&TxId> {
        self.tx.as_ref().ok_or_else(|| Error::internal("a savepoint outside a transaction"))
    }

    /// Begins a nested level, ended by [`keep`](Self::keep) or [`undo`](Self::undo).
    pub async fn savepoint(&self) -> Result<()> {
        self.facet()?.begin(&self.tables.run, &self.tables.scope, Some(self.tx()?)).await.map(drop)
    }

    /// Commits the innermost level.
    pub async fn keep(&self) -> Result<()> {
        self.facet()?.commit(&self.tables.run, &self.tables.scope, self.tx()?).await.map(drop)
    }

    /// Rolls the innermost level back.
    pub async fn undo(&self) -> Result<()> {
        self.facet()?.rollback(&self.tables.run, &self.tables.scope, self.tx()?).await.map(drop)
    }

    /// Commits if the work succeeded, otherwise rolls back.
    pub async fn end<T>(self, done: Result<T>) -> Result<T> {
        match done {
            Ok(value) => self.keep().await.map(|()| value),
            Err(error) => {
                // If undoing fails, the transaction has already ended on its own.
                drop(self.undo().await);
                Err(error)
            }
        }
    }
}

/// The values of a row, taken in order. Each read is `corrupt` if the row holds something else.
#[derive(Debug)]
pub struct Cells(std::vec::IntoIter<SqlValue>);

#[allow(clippy::missing_errors_doc, reason = "said once, on the type")]
impl Cells {
    fn of(values: Vec<SqlValue>) -> Self {
        Self(values.into_iter())
    }

    /// A text or null.
    pub fn maybe_text(&mut self) -> Result<Option<String>> {
        match self.0.next() {
            Some(SqlValue::Text(text)) => Ok(Some(text)),
            Some(SqlValue::Null) => Ok(None),
            other => Err(strange(other.as_ref())),
        }
    }

    /// A text.
    pub fn text(&mut self) -> Result<String> {
        self.maybe_text()?.ok_or_else(|| strange(None))
    }

    /// An integer or null.
    pub fn maybe_int(&mut self) -> Result<Option<i64>> {
        match self.0.next() {
            Some(SqlValue::Int(number)) => Ok(Some(number)),
            Some(SqlValue::Null) => Ok(None),
            other => Err(strange(other.as_ref())),
        }
    }

    /// An integer.
    pub fn int(&mut self) -> Result<i64> {
        self.maybe_int()?.ok_or_else(|| strange(None))
    }

    /// A number that cannot be negative.
    pub fn count(&mut self) -> Result<u64> {
        u64::try_from(self.int()?).map_err(|_| strange(None))
    }

    /// A real number or null.
    pub fn maybe_real(&mut self) -> Result<Option<f64>> {
        match self.0.next() {
            Some(SqlValue::Real(number)) => Ok(Some(number)),
            Some(SqlValue::Null) => Ok(None),
            other => Err(strange(other.as_ref())),
        }
    }

    /// A real number.
    pub fn real(&mut self) -> Result<f64> {
        self.maybe_real()?.ok_or_else(|| strange(None))
    }

    /// A time.
    pub fn time(&mut self) -> Result<Timestamp> {
        Timestamp::from_millis(self.int()?)
    }

    /// A time or null.
    pub fn maybe_time(&mut self) -> Result<Option<Timestamp>> {
        self.maybe_int()?.map(Timestamp::from_millis).transpose()
    }

    /// JSON, or the quoted name of an enum variant.
    pub fn json<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_str(&self.text()?).map_err(|error| strange(None).with_source(error))
    }

    /// The name of an enum variant, without quotes.
    pub fn word<T: serde::de::DeserializeOwned>(&mut self) -> Result<T> {
        serde_json::from_value(serde_json::Value::String(self.text()?))
            .map_err(|error| strange(None).with_source(error))
    }
}

fn strange(found: Option<&SqlValue>) -> Error {
    // The value may be a user's text, so only its kind is shown.
    let kind = found.map_or("none", |value| match value {
        SqlValue::Null => "null",
        SqlValue::Text(_) => "text",
        SqlValue::Int(_) => "integer",
        _ => "other",
    });
    Error::corrupt("a table of the runtime holds what it did not write").with_detail("found", kind)
}
