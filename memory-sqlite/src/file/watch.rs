//! What an open database knows about its file: its id, whether it still has its name, and whether other programs
//! wrote.
//!
//! Our own writes change a scope's token together with its row; triggers do it for other programs. What triggers
//! cannot see shows in `data_version`, and only then is anything expensive compared.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{DriftState, DriftToken, Result, ScopeDigest};
use rusqlite::{Connection, OptionalExtension as _};

use super::column::unsigned;
use super::counts::erased_version;
use super::location::FileId;
use super::migrations::has_triggers;
use crate::error::{Unreadable, engine, malformed};

/// Scopes whose last count is cached.
const COUNTED: usize = 1_024;

/// What an open store knows about its file.
#[derive(Debug)]
pub(crate) struct Watch {
    database: u128,
    /// Nonces are this number mixed with a counter.
    seed: u64,
    nonces: AtomicU64,
    /// The writing connection's `data_version` when it was opened; while it is unchanged, nobody else has
    /// committed.
    opened: i64,
    /// The `schema_version` at which the triggers were last verified.
    schema: AtomicI64,
    /// The `data_version` at which a scope's counters were last verified.
    counted: Mutex<HashMap<ScopeDigest, i64>>,
    /// `None` in memory, where there are no other programs.
    file: Option<(PathBuf, FileId)>,
}

impl Watch {
    /// For the writing connection, just opened and with its schema verified.
    pub(crate) fn new(connection: &Connection, file: Option<(PathBuf, FileId)>) -> Result<Self> {
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(engine);
        Ok(Self {
            database: database_id(connection)?,
            seed: number("SELECT random()")?.cast_unsigned(),
            nonces: AtomicU64::new(0),
            opened: number("PRAGMA data_version")?,
            schema: AtomicI64::new(number("PRAGMA schema_version")?),
            counted: Mutex::default(),
            file,
        })
    }

    /// A nonce that no other handle uses, barring a 64-bit collision.
    pub(crate) fn nonce(&self) -> i64 {
        let count = self.nonces.fetch_add(1, Ordering::Relaxed);
        // SplitMix64: a bijection, so that one handle never repeats a nonce.
        let mut mixed = self.seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).cast_signed()
    }

    pub(crate) fn token(&self, generation: u64, nonce: i64) -> DriftToken {
        DriftToken::new(self.database, generation, nonce.cast_unsigned())
    }

    /// `data_version`, if another connection has committed since the database was opened.
    pub(crate) fn foreign_commits(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        if self.file.is_none() {
            return Ok(None);
        }
        let commits: i64 =
            connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        Ok((commits != self.opened).then_some(commits))
    }

    /// Whether the triggers are intact. They are checked again only after the schema changed.
    pub(crate) fn triggers_are_intact(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let version: i64 =
            connection.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))?;
        if version == self.schema.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let stand = has_triggers(connection)?;
        if stand {
            self.schema.store(version, Ordering::Relaxed);
        }
        Ok(stand)
    }

    /// Whether a scope's counters were verified at this `data_version`.
    pub(crate) fn was_counted(&self, digest: &ScopeDigest, commits: i64) -> bool {
        self.counted().get(digest) == Some(&commits)
    }

    /// Records that a scope's counters were verified.
    pub(crate) fn note_counted(&self, digest: &ScopeDigest, commits: i64) {
        let mut counted = self.counted();
        if counted.len() >= COUNTED {
            counted.clear();
        }
        counted.insert(*digest, commits);
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<ScopeDigest, i64>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a scope for a reader.
    pub(crate) fn state(
        &self,
        connection: &Connection,
        digest: &ScopeDigest,
    ) -> Result<DriftState, Unreadable> {
        let found = connection
            .prepare_cached("SELECT generation, nonce, version FROM scope WHERE digest = ?1")?
            .query_row([digest.as_bytes()], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
            })
            .optional()?;
        let (generation, nonce, version) = match found {
            Some(found) => found,
            None => (0, 0, erased_version(connection, digest)?),
        };
        let token = self.token(unsigned(generation, "counter")?, nonce);
        Ok(DriftState::new(token, unsigned(version, "counter")?))
    }

    /// Whether the file was renamed or deleted, so that writes to it are lost when this process ends.
    pub(crate) fn is_displaced(&self) -> bool {
        self.file.as_ref().is_some_and(|(path, id)| id.has_left(path))
    }
}

/// The id that the file was given on creation.
fn database_id(connection: &Connection) -> Result<u128> {
    let id: Vec<u8> = connection
        .query_row("SELECT id FROM database", [], |row| row.get(0))
        .optional()
        .map_err(engine)?
        .ok_or_else(|| malformed("database id"))?;
    Ok(u128::from_be_bytes(id.try_into().map_err(|_| malformed("database id"))?))
}
