//! Options of a database.

mod range;
mod sql;

use std::time::Duration;

use memory_core::Result;
use memory_core::limits::DEFAULT_MAX_VALUE_BYTES;
use serde::{Deserialize, Serialize};

use range::in_range;
pub use sql::{SharedDatabase, SqlConfig};

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Power loss: the write-ahead log is synced before the acknowledgement. Concurrent writes share one sync.
    #[default]
    Full,
    /// The end of the process, including kill -9. Power loss may take the last writes, but never the file's integrity.
    Normal,
}

/// Options of [`SqliteProvider`](crate::SqliteProvider). Each has a default; unknown names are refused.
///
/// ```
/// use memory_sqlite::{Durability, SqliteConfig};
/// let config = SqliteConfig::default().with_durability(Durability::Normal);
/// assert_eq!(config.busy_timeout_ms, 5_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// What an acknowledged write survives. Default: `full`.
    pub durability: Durability,
    /// Longest value, in bytes of JSON text: 1 to 64 MiB. Default 1 MiB.
    pub max_value_bytes: usize,
    /// Read connections for short reads on the caller's thread: 1 to 64. Default 4.
    pub readers: usize,
    /// Threads for searches, long lists and other slow operations: 1 to 64. Default 2.
    pub workers: usize,
    /// How long an operation waits for another process's lock, in milliseconds: 1 to 600,000. Default 5,000.
    pub busy_timeout_ms: u64,
    /// Most operations waiting for the writer; further ones are `unavailable`. 1 to 1,000,000. Default 16,384.
    pub queue_operations: usize,
    /// Most bytes waiting for the writer; a single operation may exceed it. Default 128 MiB.
    pub queue_bytes: usize,
    /// Memory for the text indexes of recently searched scopes. A scope whose index does not fit is read for each
    /// search, with the same results. Default 256 MiB.
    pub search_index_bytes: usize,
    /// Memory for the vectors of recently searched scopes: some 450 bytes each at 384 dimensions. A scope whose vectors
    /// do not fit is read for each search, with the same results. Default 512 MiB.
    pub vector_index_bytes: usize,
    /// How long a write or a search waits for the embedder, in milliseconds of real time: 1 to 3,600,000. The write
    /// succeeds even if the embedder does not answer. Default 120,000.
    pub embed_timeout_ms: u64,
    /// How often expired entries are reclaimed, in milliseconds of real time; 0 for only by
    /// [`sweep`](crate::SqliteProvider::sweep). Default 60,000.
    pub sweep_interval_ms: u64,
    /// How often access counts are written, in milliseconds of real time: 1 to 86,400,000. Default 30,000.
    pub access_flush_ms: u64,
    /// Most entries whose unwritten access counts are kept in memory, about 100 bytes each plus the key; with more they
    /// are written earlier. 1 to 10,000,000. Default 200,000.
    pub access_entries: usize,
    /// How far the stored last use of a scope may lag behind before it is written in the background, in milliseconds: 1
    /// to 360,000. At ten times that, the *slack*, a use is written before the call returns. Default 60,000.
    pub use_granularity_ms: u64,
    /// How long writes to the scope of an ended run are refused, in milliseconds, at most 30 days; 0 to allow them.
    /// Default one day.
    pub run_fence_ms: u64,
    /// Length of the write-ahead log, in pages, at which it is checkpointed in the background: 16 to 1,000,000. Default
    /// 1,000.
    pub checkpoint_pages: u32,
    /// Page cache of each connection, in KiB: 64 to 1,048,576. Default 8,192.
    pub cache_kib: u32,
    /// Largest size of the database file, in bytes; a write that would exceed it is `unavailable`, as on a full disk.
    /// The write-ahead log and scopes' SQL databases are not counted. At least 1 MiB, or 0 for as large as the disk.
    /// Default 0.
    pub max_file_bytes: u64,
    /// Most concurrent exports: 1 to 64. Default 4.
    pub exports: usize,
    /// How long an export waits for its reader to take the next record before it gives up, in milliseconds: its
    /// snapshot keeps the write-ahead log from shrinking. 1 to 86,400,000. Default 60,000.
    pub export_idle_ms: u64,
    /// Options of agents' SQL databases.
    pub sql: SqlConfig,
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            max_value_bytes: DEFAULT_MAX_VALUE_BYTES,
            readers: 4,
            workers: 2,
            busy_timeout_ms: 5_000,
            queue_operations: 16_384,
            queue_bytes: 128 << 20,
            search_index_bytes: 256 << 20,
            vector_index_bytes: 512 << 20,
            embed_timeout_ms: 120_000,
            sweep_interval_ms: 60_000,
            access_flush_ms: 30_000,
            access_entries: 200_000,
            use_granularity_ms: 60_000,
            run_fence_ms: 86_400_000,
            checkpoint_pages: 1_000,
            cache_kib: 8_192,
            max_file_bytes: 0,
            exports: 4,
            export_idle_ms: 60_000,
            sql: SqlConfig::default(),
        }
    }
}

impl SqliteConfig {
    memory_core::setters! {
        with_durability(durability: Durability);
        with_max_value_bytes(max_value_bytes: usize);
        with_search_index_bytes(search_index_bytes: usize);
        with_vector_index_bytes(vector_index_bytes: usize);
        with_max_file_bytes(max_file_bytes: u64);
        with_sql(sql: SqlConfig);
    }

    /// Sets how long an operation waits for another process's lock.
    #[must_use]
    pub fn with_busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Sets how long a write or a search waits for the embedder.
    #[must_use]
    pub fn with_embed_timeout(mut self, timeout: Duration) -> Self {
        self.embed_timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self
    }

    /// Checks the ranges of the fields.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field and its range.
    pub fn check(&self) -> Result<()> {
        const DAY_MS: u64 = 86_400_000;
        in_range("max_value_bytes", self.max_value_bytes as u64, 1, 64 << 20)?;
        in_range("readers", self.readers as u64, 1, 64)?;
        in_range("workers", self.workers as u64, 1, 64)?;
        in_range("busy_timeout_ms", self.busy_timeout_ms, 1, 600_000)?;
        in_range("queue_operations", self.queue_operations as u64, 1, 1_000_000)?;
        in_range("embed_timeout_ms", self.embed_timeout_ms, 1, 3_600_000)?;
        in_range("sweep_interval_ms", self.sweep_interval_ms, 0, DAY_MS)?;
        in_range("access_flush_ms", self.access_flush_ms, 1, DAY_MS)?;
        in_range("access_entries", self.access_entries as u64, 1, 10_000_000)?;
        in_range("use_granularity_ms", self.use_granularity_ms, 1, 360_000)?;
        in_range("run_fence_ms", self.run_fence_ms, 0, 30 * DAY_MS)?;
        in_range("checkpoint_pages", u64::from(self.checkpoint_pages), 16, 1_000_000)?;
        in_range("cache_kib", u64::from(self.cache_kib), 64, 1 << 20)?;
        if self.max_file_bytes != 0 {
            in_range("max_file_bytes", self.max_file_bytes, 1 << 20, u64::MAX)?;
        }
        in_range("exports", self.exports as u64, 1, 64)?;
        in_range("export_idle_ms", self.export_idle_ms, 1, DAY_MS)?;
        self.sql.check()
    }

    pub(crate) fn busy_timeout(&self) -> Duration {
        Duration::from_millis(self.busy_timeout_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range_and_unknown_fields_are_refused() {
        SqliteConfig::default().check().unwrap();
        let config: SqliteConfig = serde_json::from_str(r#"{"durability":"normal"}"#).unwrap();
        assert_eq!(config.durability, Durability::Normal);
        assert!(serde_json::from_str::<SqliteConfig>(r#"{"durablity":"normal"}"#).is_err());
    }

    #[test]
    fn a_field_out_of_range_is_named() {
        let config = SqliteConfig { readers: 0, ..SqliteConfig::default() };
        assert!(config.check().unwrap_err().message().contains("readers"));
    }
}
