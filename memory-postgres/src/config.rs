//! How a database is opened.

use std::fmt;
use std::time::Duration;

use memory_core::limits::DEFAULT_MAX_VALUE_BYTES;
use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// Whether statements are prepared once for each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prepared {
    /// Yes: the server plans a statement once. Needs a connection to the server, or a pooler in session mode.
    #[default]
    On,
    /// No, and nothing else relies on the state of a session: for poolers in transaction mode.
    Off,
}

/// Options of [`PostgresProvider`](crate::PostgresProvider). Every one has a default but the URL; unknown names are
/// refused. `Debug` leaves the URL out.
///
/// ```
/// use memory_postgres::{PostgresConfig, Prepared};
/// let config = PostgresConfig::new("postgres://app@db1,db2/memory?sslmode=verify-full").with_prepared(Prepared::Off);
/// config.check()?;
/// assert!(!format!("{config:?}").contains("app@"));
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PostgresConfig {
    /// Where the database is, as libpq writes it: `postgres://user@host1:5432,host2/database?sslmode=verify-full`.
    pub url: String,
    /// The variable of the environment that holds the password, where the URL has none. Default: `PGPASSWORD`.
    pub password_env: Option<String>,
    /// The schema of the tables: 1 to 63 of a-z, 0-9 and `_`, not beginning with a digit or `pg_`. Default: `memory`.
    pub schema: String,
    /// Whether statements are prepared. Default: `on`.
    pub prepared: Prepared,
    /// Whether opening creates and updates the tables. Where not, `memory postgres provision` does. Default: true.
    pub migrate: bool,
    /// Connections for writes and for what takes its time: 1 to 1,000. Default 16.
    pub pool_size: usize,
    /// Connections that short reads share, each serving many of them at once: 1 to 64. Default 2.
    pub readers: usize,
    /// How long one attempt to reach one host may take, in milliseconds: 1 to 600,000. Default 5,000.
    pub connect_timeout_ms: u64,
    /// How long an operation waits for a connection, failing over included, in milliseconds: 1 to 600,000. Default
    /// 10,000.
    pub wait_timeout_ms: u64,
    /// How long one statement may take, in milliseconds: 1 to 3,600,000. Default 30,000.
    pub statement_timeout_ms: u64,
    /// How long a connection is silent before the network is probed, in milliseconds: 1,000 to 7,200,000. Default
    /// 30,000.
    pub keepalive_ms: u64,
    /// Longest value, in bytes of JSON text: 1 to 64 MiB. Default 1 MiB.
    pub max_value_bytes: usize,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            password_env: Some("PGPASSWORD".to_owned()),
            schema: "memory".to_owned(),
            prepared: Prepared::On,
            migrate: true,
            pool_size: 16,
            readers: 2,
            connect_timeout_ms: 5_000,
            wait_timeout_ms: 10_000,
            statement_timeout_ms: 30_000,
            keepalive_ms: 30_000,
            max_value_bytes: DEFAULT_MAX_VALUE_BYTES,
        }
    }
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("url", &format_args!("…"))
            .field("schema", &self.schema)
            .field("prepared", &self.prepared)
            .field("migrate", &self.migrate)
            .field("pool_size", &self.pool_size)
            .field("readers", &self.readers)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("wait_timeout_ms", &self.wait_timeout_ms)
            .field("statement_timeout_ms", &self.statement_timeout_ms)
            .field("keepalive_ms", &self.keepalive_ms)
            .field("max_value_bytes", &self.max_value_bytes)
            .finish_non_exhaustive()
    }
}

impl PostgresConfig {
    /// The defaults, with this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Sets the schema of the tables.
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets whether statements are prepared.
    #[must_use]
    pub fn with_prepared(mut self, prepared: Prepared) -> Self {
        self.prepared = prepared;
        self
    }

    /// Sets whether opening creates and updates the tables.
    #[must_use]
    pub fn with_migrate(mut self, migrate: bool) -> Self {
        self.migrate = migrate;
        self
    }

    /// Sets the connections for writes.
    #[must_use]
    pub fn with_pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// Sets how long an operation waits for a connection.
    #[must_use]
    pub fn with_wait_timeout(mut self, timeout: Duration) -> Self {
        self.wait_timeout_ms = millis(timeout);
        self
    }

    /// Sets how long one statement may take.
    #[must_use]
    pub fn with_statement_timeout(mut self, timeout: Duration) -> Self {
        self.statement_timeout_ms = millis(timeout);
        self
    }

    /// Sets the longest value.
    #[must_use]
    pub fn with_max_value_bytes(mut self, bytes: usize) -> Self {
        self.max_value_bytes = bytes;
        self
    }

    /// Checks the ranges of the fields and the URL.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field and its range; the URL is never quoted.
    pub fn check(&self) -> Result<()> {
        check_schema_name("schema", &self.schema)?;
        in_range("pool_size", self.pool_size as u64, 1, 1_000)?;
        in_range("readers", self.readers as u64, 1, 64)?;
        in_range("connect_timeout_ms", self.connect_timeout_ms, 1, 600_000)?;
        in_range("wait_timeout_ms", self.wait_timeout_ms, 1, 600_000)?;
        in_range("statement_timeout_ms", self.statement_timeout_ms, 1, 3_600_000)?;
        in_range("keepalive_ms", self.keepalive_ms, 1_000, 7_200_000)?;
        in_range("max_value_bytes", self.max_value_bytes as u64, 1, 64 << 20)?;
        crate::connect::Address::parse(&self.url, self.password_env.as_deref()).map(drop)
    }

    pub(crate) fn wait_timeout(&self) -> Duration {
        Duration::from_millis(self.wait_timeout_ms)
    }

    pub(crate) fn statement_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn in_range(field: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(format!("postgres.{field} is {value}; it must be {low} to {high}")))
    }
}

/// Names that need no quotes in SQL: they reach the text of statements.
pub(crate) fn check_schema_name(field: &str, name: &str) -> Result<()> {
    let fits = (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_");
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "postgres.{field} must be 1 to 63 of a-z, 0-9 and `_`, and not begin with a digit or `pg_`"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local() -> PostgresConfig {
        PostgresConfig::new("postgres://app:hunter2@localhost/memory")
    }

    #[test]
    fn the_defaults_are_in_range_and_unknown_fields_are_refused() {
        local().check().unwrap();
        let config: PostgresConfig = serde_json::from_str(r#"{"prepared":"off"}"#).unwrap();
        assert_eq!(config.prepared, Prepared::Off);
        assert!(serde_json::from_str::<PostgresConfig>(r#"{"preparde":"off"}"#).is_err());
    }

    #[test]
    fn a_field_out_of_range_is_named_and_a_schema_is_a_plain_name() {
        let config = PostgresConfig { readers: 0, ..local() };
        assert!(config.check().unwrap_err().message().contains("readers"));
        for bad in ["", "Memory", "a\"b", "pg_memory", "1a", "a b", &"x".repeat(64)] {
            assert!(local().with_schema(bad).check().is_err(), "{bad}");
        }
    }

    #[test]
    fn debug_shows_no_url() {
        assert!(!format!("{:?}", local()).contains("hunter2"));
    }
}
