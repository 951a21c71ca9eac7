//! Options of a database.

pub(crate) mod ranges;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory_core::limits::DEFAULT_MAX_VALUE_BYTES;
use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::connect::{self, Address};

use self::ranges::{check_schema_name, in_range};

/// Whether statements are prepared once for each connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prepared {
    /// Yes: the server plans a statement once. Needs a connection to the server, or a pooler in session mode.
    #[default]
    On,
    /// No, and nothing else relies on session state: for poolers in transaction mode.
    Off,
}

/// Options of [`PostgresProvider`](crate::PostgresProvider). All but the URL have a default; unknown names are refused.
/// `Debug` omits the URL.
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
    /// The database, as a libpq URL: `postgres://user@host1:5432,host2/database?sslmode=verify-full`.
    pub url: String,
    /// The environment variable with the password, if the URL has none. Default: `PGPASSWORD`.
    pub password_env: Option<String>,
    /// The schema of the tables: 1 to 63 of a-z, 0-9 and `_`, not beginning with a digit or `pg_`. Default: `memory`.
    pub schema: String,
    /// Whether statements are prepared. Default: `on`.
    pub prepared: Prepared,
    /// Whether opening creates and updates the tables; if not, run `memory postgres provision`. Default: true.
    pub migrate: bool,
    /// Whether opening creates missing tables; otherwise that is `not_found`. Default: true.
    pub create: bool,
    /// Connections for writes and long operations: 1 to 1,000. Default 16.
    pub pool_size: usize,
    /// Connections for short reads, each serving many at once: 1 to 64. Default 4; opened when needed.
    pub readers: usize,
    /// How long one attempt to reach one host may take, in milliseconds: 1 to 600,000. Default 5,000.
    pub connect_timeout_ms: u64,
    /// How long an operation waits for a connection, including failover, in milliseconds: 1 to 600,000. Default 10,000.
    pub wait_timeout_ms: u64,
    /// How long one statement may take, in milliseconds: 1 to 3,600,000. Default 30,000.
    pub statement_timeout_ms: u64,
    /// Idle time after which the network is probed, in milliseconds: 1,000 to 7,200,000. Default 30,000.
    pub keepalive_ms: u64,
    /// Longest value, in bytes of JSON text: 1 to 64 MiB. Default 1 MiB.
    pub max_value_bytes: usize,
    /// The base of relative paths in the URL (`sslrootcert`, `passfile`, …); `None` for the working directory.
    #[serde(skip)]
    pub base_dir: Option<PathBuf>,
    /// The database for agents' SQL; without it the provider serves no SQL. Default: none.
    pub sql: Option<crate::sql::SqlConfig>,
    /// Number of vectors of one model from which a scope gets its own index: at least 1,000. Default 50,000.
    pub index_vectors_from: usize,
    /// Uses of a scope closer together than this count as one, in milliseconds: 1 to 360,000. The stored last use lags
    /// less than ten times this behind. Must be the same in every process of a database. Default 60,000.
    pub use_granularity_ms: u64,
    /// How long writes to the scope of an ended run are refused, in milliseconds: 0 (not at all) to 30 days. Default
    /// one day.
    pub run_fence_ms: u64,
}

impl Default for PostgresConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            password_env: Some("PGPASSWORD".to_owned()),
            schema: "memory".to_owned(),
            prepared: Prepared::On,
            migrate: true,
            create: true,
            pool_size: 16,
            readers: 4,
            connect_timeout_ms: 5_000,
            wait_timeout_ms: 10_000,
            statement_timeout_ms: 30_000,
            keepalive_ms: 30_000,
            max_value_bytes: DEFAULT_MAX_VALUE_BYTES,
            base_dir: None,
            sql: None,
            index_vectors_from: 50_000,
            use_granularity_ms: 60_000,
            run_fence_ms: 86_400_000,
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
            .field("create", &self.create)
            .field("pool_size", &self.pool_size)
            .field("readers", &self.readers)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("wait_timeout_ms", &self.wait_timeout_ms)
            .field("statement_timeout_ms", &self.statement_timeout_ms)
            .field("keepalive_ms", &self.keepalive_ms)
            .field("max_value_bytes", &self.max_value_bytes)
            .field("sql", &self.sql)
            .field("index_vectors_from", &self.index_vectors_from)
            .field("use_granularity_ms", &self.use_granularity_ms)
            .field("run_fence_ms", &self.run_fence_ms)
            .finish_non_exhaustive()
    }
}

impl PostgresConfig {
    /// The defaults, with this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Reads a URL whose parameters are libpq's and the names of these options, such as
    /// `postgres://app@db/memory?sslmode=verify-full&pool_size=32`; `NAME.OPTION` is an option of the section NAME.
    ///
    /// # Errors
    /// `invalid_argument` for a URL that cannot be parsed, or a parameter that is unknown, invalid or repeated, naming
    /// it. Values that may be secret are not quoted.
    pub fn from_url(url: &str) -> Result<Self> {
        Self::from_url_in(url, None)
    }

    /// As [`from_url`](Self::from_url), with relative paths relative to a folder.
    ///
    /// # Errors
    /// As [`from_url`](Self::from_url).
    pub fn from_url_in(url: &str, base_dir: Option<&Path>) -> Result<Self> {
        let (place, query) = connect::split_query(url);
        let mut kept = String::from(place);
        let mut fields = Map::new();
        let mut seen = std::collections::BTreeSet::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Error::invalid("a parameter of the postgres URL has no `=`; write `?name=value&name=value`")
            })?;
            if !seen.insert(name) {
                return Err(Error::invalid("a parameter of the postgres URL is repeated; keep one"));
            }
            if connect::is_connection_parameter(name) {
                kept.push(if kept.len() == place.len() { '?' } else { '&' });
                kept.push_str(pair);
                continue;
            }
            let value = connect::percent_decoded(value).ok_or_else(|| {
                Error::invalid("a parameter of the postgres URL has an invalid percent-escape")
            })?;
            let mut alone = Map::new();
            insert(&mut alone, name, &value)?;
            // Parsed alone first, so that the error names it, and never its value.
            serde_json::from_value::<Self>(Value::Object(alone)).map_err(|error| {
                let why = error.to_string();
                let wanted = why.rsplit_once("expected ").filter(|_| !why.starts_with("unknown field"));
                let why = wanted.map_or(why.clone(), |(_, wanted)| format!("expected {wanted}"));
                Error::invalid(format!("the parameter `{name}` of the postgres URL is not accepted: {why}"))
            })?;
            insert(&mut fields, name, &value)?;
        }
        fields.insert("url".to_owned(), Value::String(kept));
        let mut config: Self = serde_json::from_value(Value::Object(fields)).map_err(|error| {
            Error::invalid("the parameters of the postgres URL are not accepted").with_source(error)
        })?;
        config.base_dir = base_dir.map(Path::to_path_buf);
        config.check().map(|()| config)
    }

    memory_core::setters! {
        with_schema(schema: impl Into<String> => schema.into());
        with_prepared(prepared: Prepared);
        with_migrate(migrate: bool);
        with_pool_size(pool_size: usize);
        with_max_value_bytes(max_value_bytes: usize);
        with_sql(sql: crate::sql::SqlConfig => Some(sql));
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

    /// Sets the time within which uses of a scope count as one.
    #[must_use]
    pub fn with_use_granularity(mut self, granularity: Duration) -> Self {
        self.use_granularity_ms = millis(granularity);
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
        in_range("index_vectors_from", self.index_vectors_from as u64, 1_000, u64::MAX)?;
        in_range("use_granularity_ms", self.use_granularity_ms, 1, 360_000)?;
        in_range("run_fence_ms", self.run_fence_ms, 0, 30 * 86_400_000)?;
        in_range("max_value_bytes", self.max_value_bytes as u64, 1, 64 << 20)?;
        if let Some(sql) = &self.sql {
            sql.check()?;
        }
        self.address().map(drop)
    }

    /// The parsed URL.
    /// Fails with `invalid_argument` for a URL that cannot be parsed.
    pub(crate) fn address(&self) -> Result<Address> {
        Address::parse(&self.url, self.password_env.as_deref(), self.base_dir.as_deref())
    }

    pub(crate) fn wait_timeout(&self) -> Duration {
        Duration::from_millis(self.wait_timeout_ms)
    }

    pub(crate) fn statement_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms)
    }
}

/// Stores an option in the section that its name indicates.
fn insert(fields: &mut Map<String, Value>, name: &str, text: &str) -> Result<()> {
    let value = match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<u64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    };
    match name.split_once('.') {
        Some((section, inner)) => {
            let section = fields.entry(section).or_insert_with(|| Value::Object(Map::new()));
            match section.as_object_mut() {
                Some(section) => insert(section, inner, text)?,
                None => {
                    return Err(Error::invalid(
                        "a group of parameters of the postgres URL is used as one; write `GROUP.NAME=value`",
                    ));
                }
            }
        }
        None => drop(fields.insert(name.to_owned(), value)),
    }
    Ok(())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
    fn a_url_has_options_besides_libpqs_parameters() {
        let config = PostgresConfig::from_url(
            "postgres://app:p%3Fw?x@db1,db2:6/memory?sslmode=require&pool_size=3&prepared=off&migrate=false&application_name=a",
        )
        .unwrap();
        assert_eq!((config.pool_size, config.prepared, config.migrate), (3, Prepared::Off, false));
        assert_eq!(config.url, "postgres://app:p%3Fw?x@db1,db2:6/memory?sslmode=require&application_name=a");
        for (bad, named) in [
            ("postgres://app:hunter2@db/m?pool_sise=3", "pool_sise"),
            ("postgres://app:hunter2@db/m?pool_size=hunter2x", "pool_size"),
            ("postgres://app:hunter2@db/m?pool_size=0", "pool_size"),
            ("postgres://app:hunter2@db/m?pool_size=1&pool_size=2", "repeated"),
            ("postgres://app:hunter2@db/m?prepared=maybe", "prepared"),
            ("postgres://app:hunter2@db/m?base_dir=x", "base_dir"),
        ] {
            let error = PostgresConfig::from_url(bad).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2@"), "{error:?}");
            assert!(
                error.message().contains(named) || named == "prepared" || named == "pool_size",
                "{bad}: {error}"
            );
        }
    }

    #[test]
    fn debug_shows_no_url() {
        assert!(!format!("{:?}", local()).contains("hunter2"));
    }
}
