//! The floor: what a good programmer writes by hand on the same engine. One connection, cached prepared
//! statements, and one table WITHOUT ROWID with the columns of an entry. It keeps the promises that cost something: the TTL
//! predicate in every statement, and a growing version.

use std::path::Path;
use std::sync::Arc;

use memory::system::SystemClock;
use memory_core::{Clock as _, Error, Result};
use rusqlite::{Connection, Row, params};

use super::workload::{BATCH, GROUP, Random, Work, Workload};

const SCHEMA: &str = "
    CREATE TABLE entries(
        scope INTEGER NOT NULL, key TEXT NOT NULL,
        value TEXT NOT NULL, metadata TEXT, source TEXT, text TEXT,
        version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
        expires_at INTEGER, access_count INTEGER NOT NULL,
        PRIMARY KEY(scope, key)
    ) STRICT, WITHOUT ROWID";

const GET: &str = "
    SELECT value, metadata, source, text, version, created_at, updated_at, expires_at, access_count
    FROM entries WHERE scope = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)";

const LIST: &str = "
    SELECT value, metadata, source, text, version, created_at, updated_at, expires_at, access_count, key
    FROM entries WHERE scope = ?1 AND key >= ?2 AND key < ?3 AND (expires_at IS NULL OR expires_at > ?4)
    ORDER BY key LIMIT ?5";

const SET: &str = "
    INSERT INTO entries VALUES(?1, ?2, ?3, NULL, NULL, NULL, 1, ?4, ?4, NULL, 0)
    ON CONFLICT DO UPDATE SET value = excluded.value, version = version + 1, updated_at = excluded.updated_at,
        created_at = iif(expires_at <= ?4, ?4, created_at),
        expires_at = iif(expires_at <= ?4, NULL, expires_at),
        access_count = iif(expires_at <= ?4, 0, access_count)
    RETURNING version";

const INCREMENT: &str = "
    INSERT INTO entries VALUES(?1, ?2, ?3, NULL, NULL, NULL, 1, ?4, ?4, NULL, 0)
    ON CONFLICT DO UPDATE SET value = iif(expires_at <= ?4, 0, value) + excluded.value, version = version + 1,
        updated_at = excluded.updated_at,
        expires_at = iif(expires_at <= ?4, NULL, expires_at)
    RETURNING value, version";

const SCOPE: i64 = 1;
/// Bulk inserts go to a scope that is emptied between slices, so that the store stays the same size.
const BULK_SCOPE: i64 = 2;

/// One entry with all its columns.
#[expect(dead_code, reason = "reading it is the work")]
struct Entry {
    value: String,
    metadata: Option<String>,
    source: Option<String>,
    text: Option<String>,
    version: i64,
    created_at: i64,
    updated_at: i64,
    expires_at: Option<i64>,
    access_count: i64,
}

impl Entry {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            value: row.get(0)?,
            metadata: row.get(1)?,
            source: row.get(2)?,
            text: row.get(3)?,
            version: row.get(4)?,
            created_at: row.get(5)?,
            updated_at: row.get(6)?,
            expires_at: row.get(7)?,
            access_count: row.get(8)?,
        })
    }
}

pub(super) struct Floor {
    connection: Connection,
    workload: Arc<Workload>,
    random: Random,
    inserted: usize,
}

fn failed(error: rusqlite::Error) -> Error {
    Error::internal(format!("the raw SQLite floor failed: {error}")).with_source(error)
}

impl Floor {
    /// Creates the file and stores every key.
    pub(super) fn create(path: &Path, workload: Arc<Workload>) -> Result<Self> {
        memory_sqlite::prepare_process();
        let connection = Connection::open(path).map_err(failed)?;
        let mut floor = Self { connection, workload, random: Random::new(1), inserted: 0 };
        floor.load().map_err(failed)?;
        Ok(floor)
    }

    fn load(&mut self) -> rusqlite::Result<()> {
        self.connection.execute_batch(
            // As the product opens its file, except for checkpoints: these run where SQLite runs them by default, in the
            // commit that fills the log.
            "PRAGMA busy_timeout = 5000; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;
             PRAGMA cache_size = -8192;",
        )?;
        self.connection.set_prepared_statement_cache_capacity(64);
        self.connection.execute_batch(SCHEMA)?;
        let workload = Arc::clone(&self.workload);
        let now = SystemClock.now().as_millis();
        for keys in workload.keys.chunks(BATCH) {
            let transaction = self.connection.transaction()?;
            {
                let mut set = transaction.prepare_cached(SET)?;
                for key in keys {
                    let value = self.random.pick(&workload.values);
                    set.query_row(params![SCOPE, key, value, now], |row| row.get::<_, i64>(0))?;
                }
            }
            transaction.commit()?;
        }
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    /// Syncs each commit before it is acknowledged, or leaves that to checkpoints.
    pub(super) fn set_durable(&self, durable: bool) -> Result<()> {
        self.connection
            .pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })
            .map_err(failed)
    }

    /// Runs `work` once; returns how many operations that counts as.
    pub(super) fn run(&mut self, work: Work) -> Result<u64> {
        let entries = self.once(work).map_err(failed)?;
        let expected = work.entries();
        if entries != expected {
            return Err(Error::internal(format!(
                "the floor's {work:?} found {entries} entries, not {expected}"
            )));
        }
        Ok(super::ours::operations(work))
    }

    fn once(&mut self, work: Work) -> rusqlite::Result<usize> {
        let Self { connection, workload, random, inserted } = self;
        let now = SystemClock.now().as_millis();
        match work {
            Work::Get => {
                let mut get = connection.prepare_cached(GET)?;
                let entry = get.query_row(params![SCOPE, random.pick(&workload.keys), now], Entry::read)?;
                std::hint::black_box(entry);
                Ok(1)
            }
            Work::GetMany => {
                let transaction = connection.transaction()?;
                let mut entries = Vec::with_capacity(GROUP);
                {
                    let mut get = transaction.prepare_cached(GET)?;
                    for _ in 0..GROUP {
                        entries.push(
                            get.query_row(params![SCOPE, random.pick(&workload.keys), now], Entry::read)?,
                        );
                    }
                }
                transaction.commit()?;
                Ok(entries.len())
            }
            Work::List => {
                let prefix = random.pick(&workload.prefixes);
                // '0' follows '/', so this is the least text above every key with the prefix.
                let end = format!("{}0", prefix.trim_end_matches('/'));
                let mut list = connection.prepare_cached(LIST)?;
                // One more row shows whether there is another page.
                let limit = i64::try_from(GROUP + 1).unwrap_or(i64::MAX);
                let rows = list.query_map(params![SCOPE, prefix, end, now, limit], |row| {
                    Ok((Entry::read(row)?, row.get::<_, String>(9)?))
                })?;
                Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?.len())
            }
            Work::Increment => {
                let mut increment = connection.prepare_cached(INCREMENT)?;
                let key = random.pick(&workload.counters);
                increment.query_row(params![SCOPE, key, 1, now], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
                })?;
                Ok(1)
            }
            Work::Set => {
                let mut set = connection.prepare_cached(SET)?;
                let (key, value) = (random.pick(&workload.keys), random.pick(&workload.values));
                set.query_row(params![SCOPE, key, value, now], |row| row.get::<_, i64>(0))?;
                Ok(1)
            }
            Work::Bulk => {
                let transaction = connection.transaction()?;
                let mut versions = Vec::with_capacity(BATCH);
                {
                    let mut set = transaction.prepare_cached(SET)?;
                    for n in 0..BATCH {
                        let key = format!("batch/{:09}", *inserted + n);
                        let value = random.pick(&workload.values);
                        versions.push(
                            set.query_row(params![BULK_SCOPE, key, value, now], |row| row.get::<_, i64>(0))?,
                        );
                    }
                }
                transaction.commit()?;
                *inserted += BATCH;
                Ok(versions.len())
            }
        }
    }

    /// Empties the scope of bulk inserts.
    pub(super) fn clear_bulk(&mut self) -> Result<()> {
        self.inserted = 0;
        self.connection
            .execute("DELETE FROM entries WHERE scope = ?1", [BULK_SCOPE])
            .map(drop)
            .map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_meets_the_entries_it_should() {
        let dir = tempfile::tempdir().unwrap();
        let mut floor = Floor::create(&dir.path().join("floor.db"), Arc::new(Workload::new(1_000))).unwrap();
        floor.set_durable(true).unwrap();
        for (work, operations) in [
            (Work::Get, 1),
            (Work::GetMany, 100),
            (Work::List, 1),
            (Work::Increment, 1),
            (Work::Set, 1),
            (Work::Bulk, 1_000),
            (Work::Bulk, 1_000),
        ] {
            assert_eq!(floor.run(work).unwrap(), operations, "{work:?}");
        }
        let count = |sql: &str| floor.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM entries WHERE scope = 2"), 2_000);
        assert_eq!(count("SELECT count(*) FROM entries WHERE scope = 1"), 1_001);
        assert_eq!(count("SELECT sum(version) FROM entries WHERE scope = 1"), 1_002);
        floor.clear_bulk().unwrap();
        let left = floor.connection.query_row("SELECT count(*) FROM entries", [], |row| row.get::<_, i64>(0));
        assert_eq!(left.unwrap(), 1_001);
    }
}
