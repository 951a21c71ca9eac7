//! Options of agents' databases.

use std::path::{Path, PathBuf};

use memory_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::range::in_range;

/// Options of the SQL facet: the field `sql` of [`SqliteConfig`](crate::SqliteConfig).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SqlConfig {
    /// The folder of the scopes' databases. Default: next to the key/value file, as `<path>.sql`; for an in-memory
    /// database, a private folder that is removed with the provider.
    pub root: Option<PathBuf>,
    /// Threads that run statements: 1 to 64. Default 4. An open transaction holds none.
    pub workers: usize,
    /// Connections that stay open between statements: 0 to 100,000. Default 1,024. They also stay within
    /// `max_descriptors`.
    pub handles: usize,
    /// File descriptors for idle connections, three each. Default: half of the process's soft limit, or 256 if that
    /// cannot be read.
    pub max_descriptors: Option<usize>,
    /// Connections reading one scope at a time: 1 to 64. Default 4.
    pub readers_per_scope: usize,
    /// Default timeout of a statement, including waiting, in milliseconds: 1 to 3,600,000. Default 30,000.
    pub statement_timeout_ms: u64,
    /// A transaction unused for this long is rolled back, in milliseconds of real time: 1 to 3,600,000. Default 30,000.
    pub tx_idle_ms: u64,
    /// Most transactions open at once: 1 to 1,024. Default 64.
    pub max_transactions: usize,
    /// Most savepoints within a transaction: 0 to 1,000. Default 16.
    pub max_savepoints: u32,
    /// Default quota of one scope's database in bytes; `None` for unlimited. At least 65,536.
    pub quota_bytes: Option<u64>,
    /// Longest text or blob, and longest row, in bytes: 1,024 to 1,000,000,000. Default 4 MiB.
    pub value_bytes: usize,
    /// Memory of the engine for one statement, in bytes: 4 MiB to 16 GiB. Default 128 MiB.
    pub heap_bytes: usize,
    /// Memory of SQLite in the whole process, in bytes: 16 MiB to 1 TiB. Applies only if the process used SQLite before
    /// [`prepare_process`](crate::prepare_process), so that the memory of single statements cannot be limited. Then one
    /// statement may take what others need, but not what the host needs. Default: none, and no SQL in such a process.
    pub process_heap_bytes: Option<u64>,
    /// Bytes of write-ahead log that one statement or transaction may write: 1 MiB to 1 TiB. Default 1 GiB.
    pub wal_bytes: u64,
    /// Page cache of each connection, in KiB: 16 to 1,048,576. Default 256.
    pub cache_kib: u32,
    /// Length of a write-ahead log, in pages, at which it is checkpointed in the background: 16 to 1,000,000. Default
    /// 256.
    pub checkpoint_pages: u32,
    /// Memory for cached verdicts about statements. Default 4 MiB; 0: none.
    pub verdict_bytes: usize,
    /// Whether a query may run on the caller's thread, for at most about a millisecond. That applies to a repeated
    /// query that is prepared and took at most a few hundred steps before, and to a new one of at most 512 bytes and 48
    /// tokens over tables that were read before. Default true.
    pub inline: bool,
    /// Most concurrent dumps: 1 to 64. Default 4.
    pub dumps: usize,
    /// The operator's databases that every scope may read, at most 10.
    pub shared: Vec<SharedDatabase>,
}

/// A SQLite file that every scope may read and none may write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SharedDatabase {
    /// Its schema name: a letter, then letters, digits and `_`, at most 64 characters, in lower case.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

impl SharedDatabase {
    /// A file and the schema's name.
    #[must_use]
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), path: path.into() }
    }
}

impl Default for SqlConfig {
    fn default() -> Self {
        Self {
            root: None,
            workers: 4,
            handles: 1_024,
            max_descriptors: None,
            readers_per_scope: 4,
            statement_timeout_ms: 30_000,
            tx_idle_ms: 30_000,
            max_transactions: 64,
            max_savepoints: 16,
            quota_bytes: None,
            value_bytes: 4 << 20,
            heap_bytes: 128 << 20,
            process_heap_bytes: None,
            wal_bytes: 1 << 30,
            cache_kib: 256,
            checkpoint_pages: 256,
            verdict_bytes: 4 << 20,
            inline: true,
            dumps: 4,
            shared: Vec::new(),
        }
    }
}

impl SqlConfig {
    /// Where databases are unless `root` says otherwise.
    pub(crate) fn folder_beside(database: &Path) -> PathBuf {
        let mut root = database.as_os_str().to_owned();
        root.push(".sql");
        root.into()
    }

    /// Checks the ranges of the fields.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field and its range.
    pub fn check(&self) -> Result<()> {
        const HOUR_MS: u64 = 3_600_000;
        in_range("sql.workers", self.workers as u64, 1, 64)?;
        in_range("sql.handles", self.handles as u64, 0, 100_000)?;
        in_range("sql.readers_per_scope", self.readers_per_scope as u64, 1, 64)?;
        in_range("sql.statement_timeout_ms", self.statement_timeout_ms, 1, HOUR_MS)?;
        in_range("sql.tx_idle_ms", self.tx_idle_ms, 1, HOUR_MS)?;
        in_range("sql.max_transactions", self.max_transactions as u64, 1, 1_024)?;
        in_range("sql.max_savepoints", u64::from(self.max_savepoints), 0, 1_000)?;
        in_range("sql.value_bytes", self.value_bytes as u64, 1_024, 1_000_000_000)?;
        in_range("sql.heap_bytes", self.heap_bytes as u64, 4 << 20, 16 << 30)?;
        if let Some(bytes) = self.process_heap_bytes {
            in_range("sql.process_heap_bytes", bytes, 16 << 20, 1 << 40)?;
        }
        in_range("sql.wal_bytes", self.wal_bytes, 1 << 20, 1 << 40)?;
        in_range("sql.cache_kib", u64::from(self.cache_kib), 16, 1 << 20)?;
        in_range("sql.checkpoint_pages", u64::from(self.checkpoint_pages), 16, 1_000_000)?;
        in_range("sql.dumps", self.dumps as u64, 1, 64)?;
        if let Some(quota) = self.quota_bytes {
            in_range("sql.quota_bytes", quota, 65_536, i64::MAX.unsigned_abs())?;
        }
        in_range("sql.shared (files)", self.shared.len() as u64, 0, 10)?;
        for (at, shared) in self.shared.iter().enumerate() {
            check_name(&shared.name)?;
            if self.shared.iter().take(at).any(|other| other.name == shared.name) {
                return Err(Error::invalid("sqlite.sql.shared names a schema twice; give each its own name"));
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<()> {
    let plain = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    let taken = matches!(name, "main" | "temp") || name.starts_with("sqlite_");
    if plain && !taken {
        Ok(())
    } else {
        Err(Error::invalid(
            "a name in sqlite.sql.shared is not a valid schema name; use a lower case letter, then letters, digits and `_`, at most 64, \
             neither `main` nor `temp` nor beginning with `sqlite_`",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range_and_unknown_fields_are_refused() {
        SqlConfig::default().check().unwrap();
        assert!(serde_json::from_str::<SqlConfig>(r#"{"worker":1}"#).is_err());
    }

    #[test]
    fn a_field_out_of_range_is_named() {
        let config = SqlConfig { max_transactions: 0, ..SqlConfig::default() };
        assert!(config.check().unwrap_err().message().contains("sql.max_transactions"));
    }

    #[test]
    fn a_shared_database_needs_a_plain_name_of_its_own() {
        for bad in ["", "main", "temp", "sqlite_x", "A", "a b", "a\"", "1a", &"a".repeat(65)] {
            let config = SqlConfig { shared: vec![SharedDatabase::new(bad, "x.db")], ..SqlConfig::default() };
            assert!(config.check().is_err(), "{bad}");
        }
        let twice = vec![SharedDatabase::new("facts", "x.db"), SharedDatabase::new("facts", "y.db")];
        assert!(SqlConfig { shared: twice, ..SqlConfig::default() }.check().is_err());
    }
}
