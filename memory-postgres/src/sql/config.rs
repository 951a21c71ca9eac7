//! Options of agents' databases: the section `sql` of the configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::config::ranges::{check_schema_name, in_range};
use crate::sql::names::Key;

/// Options of the SQL facet: the field `sql` of [`PostgresConfig`](crate::PostgresConfig). `Debug` omits URL and key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SqlConfig {
    /// The database for agents' SQL, with its administrator's login: a role with CREATEROLE that owns the database, or
    /// a superuser, which can close more catalogs. It should be a separate database, ideally on a separate server.
    pub url: String,
    /// The environment variable with the administrator's password, if the URL has none. Default: `PGPASSWORD`.
    pub password_env: Option<String>,
    /// The environment variable with the key from which the roles' passwords are derived: at least 32 bytes. Default:
    /// `MEMORY_SQL_KEY`.
    pub key_env: Option<String>,
    /// A file with the key, instead of the variable; others must not be able to read it.
    pub key_file: Option<PathBuf>,
    /// Connections to the database for all scopes, including idle ones: 2 to 10,000. Default 72.
    pub connections: usize,
    /// Concurrent statements of one scope: 1 to 64. Default 4.
    pub connections_per_scope: usize,
    /// Default timeout of a statement, including waiting, in milliseconds: 1 to 3,600,000. Default 30,000.
    pub statement_timeout_ms: u64,
    /// A transaction that no call has used for this long is rolled back, in milliseconds of real time: 1 to 3,600,000.
    /// Default 30,000.
    pub tx_idle_ms: u64,
    /// Most transactions open at once: 1 to 1,024. Default 64. Each holds a connection; an eighth of `connections`
    /// always stays available to others.
    pub max_transactions: usize,
    /// Most savepoints within a transaction: 0 to 1,000. Default 16.
    pub max_savepoints: u32,
    /// Default quota of one scope's database in bytes; `None` for unlimited. At least 65,536.
    pub quota_bytes: Option<u64>,
    /// Longest argument, in bytes: 1,024 to 1,000,000,000. Default 4 MiB.
    pub value_bytes: usize,
    /// Memory for one sort or hash before it spills to disk, in KiB: 64 to 1,048,576. Default 8,192.
    pub work_mem_kib: u32,
    /// Temporary files per session, in MiB: 1 to 1,048,576. Default 64. Takes effect only if the administrator is a
    /// superuser.
    pub temp_file_mib: u32,
    /// Memory for cached verdicts about statements. Default 4 MiB; 0: none.
    pub verdict_bytes: usize,
    /// The operator's schemas that every scope may read, at most 10. In a URL, names separated by commas.
    #[serde(deserialize_with = "names")]
    pub shared: Vec<String>,
}

/// Parses a list, or names separated by commas.
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

    /// The configured key.
    /// Fails with `invalid_argument` if there is none, it is too short, or others may read its file.
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
                "agents' SQL needs a key from which their roles' passwords are derived: set the variable named by \
                 postgres.sql.key_env (MEMORY_SQL_KEY) to 32 random bytes or more, or name a file in \
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
    fn a_shared_schema_has_a_name_of_the_operators() {
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
