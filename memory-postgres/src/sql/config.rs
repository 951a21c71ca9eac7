//! How agents' databases are kept: the section `sql` of the configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::config::ranges::{check_schema_name, in_range};
use crate::sql::names::Key;

/// Options of the SQL facet: the field `sql` of [`PostgresConfig`](crate::PostgresConfig). `Debug` leaves URL and key out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SqlConfig {
    /// The database for agents' SQL, as its administrator reaches it: a role with CREATEROLE that owns the database, or
    /// a superuser, with whom more is closed. It should be a database of its own, best a server of its own.
    pub url: String,
    /// The variable of the environment that holds the administrator's password, where the URL has none. Default:
    /// `PGPASSWORD`.
    pub password_env: Option<String>,
    /// The variable of the environment that holds the key of which the roles' passwords are made: at least 32 bytes.
    /// Default: `MEMORY_SQL_KEY`.
    pub key_env: Option<String>,
    /// A file that holds the key, in place of the variable; others may not read it.
    pub key_file: Option<PathBuf>,
    /// Connections to the database over all scopes, those at rest included: 2 to 10,000. Default 72.
    pub connections: usize,
    /// Statements of one scope that run at a time: 1 to 64. Default 4.
    pub connections_per_scope: usize,
    /// How long a statement may take where its call does not say, waiting included, in milliseconds: 1 to 3,600,000.
    /// Default 30,000.
    pub statement_timeout_ms: u64,
    /// A transaction that no call has used for so long is rolled back, in milliseconds of real time: 1 to 3,600,000.
    /// Default 30,000.
    pub tx_idle_ms: u64,
    /// Most transactions open at once: 1 to 1,024. Default 64. Each holds a connection: at most as many are open as leave
    /// an eighth of `connections` to others.
    pub max_transactions: usize,
    /// Most savepoints within a transaction: 0 to 1,000. Default 16.
    pub max_savepoints: u32,
    /// Most bytes of one scope's database where the call does not say; `None`: unlimited. At least 65,536.
    pub quota_bytes: Option<u64>,
    /// Longest argument, in bytes: 1,024 to 1,000,000,000. Default 4 MiB.
    pub value_bytes: usize,
    /// Memory that one sort or hash of a statement may take before it goes to the disk, in KiB: 64 to 1,048,576. Default
    /// 8,192.
    pub work_mem_kib: u32,
    /// Bytes of temporary files that one session may write, in MiB: 1 to 1,048,576. Default 64. Takes effect where the
    /// administrator is a superuser.
    pub temp_file_mib: u32,
    /// Memory for the decisions about texts of statements that come again. Default 4 MiB; 0: none.
    pub verdict_bytes: usize,
    /// Schemas of the operator's that every scope may read, at most 10. In a URL their names are joined by commas.
    #[serde(deserialize_with = "names")]
    pub shared: Vec<String>,
}

/// A list, or its names joined by commas.
fn names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        Joined(String),
        List(Vec<String>),
    }
    Ok(match Names::deserialize(deserializer)? {
        Names::Joined(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        Names::List(names) => names,
    })
}

impl Default for SqlConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            password_env: Some("PGPASSWORD".to_owned()),
            key_env: Some("MEMORY_SQL_KEY".to_owned()),
            key_file: None,
            connections: 72,
            connections_per_scope: 4,
            statement_timeout_ms: 30_000,
            tx_idle_ms: 30_000,
            max_transactions: 64,
            max_savepoints: 16,
            quota_bytes: None,
            value_bytes: 4 << 20,
            work_mem_kib: 8 << 10,
            temp_file_mib: 64,
            verdict_bytes: 4 << 20,
            shared: Vec::new(),
        }
    }
}

impl fmt::Debug for SqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlConfig")
            .field("url", &format_args!("…"))
            .field("connections", &self.connections)
            .field("statement_timeout_ms", &self.statement_timeout_ms)
            .field("tx_idle_ms", &self.tx_idle_ms)
            .field("quota_bytes", &self.quota_bytes)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl SqlConfig {
    /// The defaults, with this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Reads the key from this variable of the environment.
    #[must_use]
    pub fn with_key_env(mut self, variable: impl Into<String>) -> Self {
        self.key_env = Some(variable.into());
        self
    }

    /// Reads the key from this file.
    #[must_use]
    pub fn with_key_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.key_file = Some(file.into());
        self
    }

    /// Checks the ranges of the fields.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field and its range.
    pub fn check(&self) -> Result<()> {
        const HOUR_MS: u64 = 3_600_000;
        in_range("sql.connections", self.connections as u64, 2, 10_000)?;
        in_range("sql.connections_per_scope", self.connections_per_scope as u64, 1, 64)?;
        in_range("sql.statement_timeout_ms", self.statement_timeout_ms, 1, HOUR_MS)?;
        in_range("sql.tx_idle_ms", self.tx_idle_ms, 1, HOUR_MS)?;
        in_range("sql.max_transactions", self.max_transactions as u64, 1, 1_024)?;
        in_range("sql.max_savepoints", u64::from(self.max_savepoints), 0, 1_000)?;
        in_range("sql.value_bytes", self.value_bytes as u64, 1_024, 1_000_000_000)?;
        in_range("sql.work_mem_kib", u64::from(self.work_mem_kib), 64, 1 << 20)?;
        in_range("sql.temp_file_mib", u64::from(self.temp_file_mib), 1, 1 << 20)?;
        if let Some(quota) = self.quota_bytes {
            in_range("sql.quota_bytes", quota, 65_536, i64::MAX.unsigned_abs())?;
        }
        in_range("sql.shared (schemas)", self.shared.len() as u64, 0, 10)?;
        for (at, name) in self.shared.iter().enumerate() {
            check_schema_name("sql.shared", name)?;
            if name.starts_with("mem_") || matches!(name.as_str(), "public" | "information_schema") {
                return Err(Error::invalid(
                    "postgres.sql.shared names a schema that cannot be shared; neither `public` nor one that begins with \
                     `mem_` can",
                ));
            }
            if self.shared.iter().take(at).any(|other| other == name) {
                return Err(Error::invalid("postgres.sql.shared names a schema twice"));
            }
        }
        Ok(())
    }

    /// The key, from where the configuration says.
    ///
    /// # Errors
    /// `invalid_argument` where there is none, it is too short, or others may read its file.
    pub(crate) fn key(&self, base_dir: Option<&Path>) -> Result<Key> {
        if let Some(path) = &self.key_file {
            let path = &base_dir.map_or_else(|| path.clone(), |base| base.join(path));
            let unreadable = |error: std::io::Error| {
                Error::invalid("the file that postgres.sql.key_file names cannot be read; correct the path or its permissions")
                    .with_source(error)
            };
            let metadata = std::fs::metadata(path).map_err(unreadable)?;
            if !metadata.is_file() || metadata.len() > 1 << 16 {
                return Err(Error::invalid("postgres.sql.key_file must be a file of at most 64 KiB"));
            }
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                if metadata.permissions().mode() & 0o077 != 0 {
                    return Err(Error::invalid(
                        "the file that postgres.sql.key_file names may be read by others; set its mode to 0600",
                    ));
                }
            }
            let bytes = std::fs::read(path).map_err(unreadable)?;
            return Key::new(bytes.trim_ascii_end());
        }
        let found = self.key_env.as_deref().and_then(std::env::var_os);
        match found {
            Some(key) => Key::new(key.as_encoded_bytes()),
            None => Err(Error::invalid(
                "the SQL of agents needs a key that their roles' passwords are made of: set the variable that \
                 postgres.sql.key_env names (MEMORY_SQL_KEY) to 32 random bytes or more, or name a file in \
                 postgres.sql.key_file",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range_and_unknown_fields_are_refused() {
        SqlConfig::default().check().unwrap();
        assert!(serde_json::from_str::<SqlConfig>(r#"{"connection":1}"#).is_err());
    }

    #[test]
    fn a_shared_schema_is_an_operators_own() {
        for bad in ["public", "mem_sql", "mem_s_x", "pg_catalog", "information_schema", "A", "a b"] {
            let config = SqlConfig { shared: vec![bad.to_owned()], ..SqlConfig::default() };
            assert!(config.check().is_err(), "{bad}");
        }
        let twice = SqlConfig { shared: vec!["a".to_owned(), "a".to_owned()], ..SqlConfig::default() };
        assert!(twice.check().is_err());
    }

    #[test]
    fn debug_shows_no_url() {
        assert!(!format!("{:?}", SqlConfig::new("postgres://a:hunter2@b/c")).contains("hunter2"));
    }
}
