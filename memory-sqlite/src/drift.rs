//! The drift guard: the database's id, nonces, and what is looked at where another connection has committed.
//!
//! Our own writes move a scope's token with the rest of its row; triggers do it for other programs. What those cannot
//! see shows in `data_version`, and only then is anything compared that costs more than a number.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use memory_core::drift::{ContentDigest, DriftChange, DriftReason};
use memory_core::{DriftCheck, DriftState, DriftToken, Key, Result, ScopeDigest, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::batch::{Batch, Fault, Old, Space};
use crate::error::{displaced, engine, malformed};
use crate::file::FileId;
use crate::row::{Unreadable, unsigned};
use crate::schema;

/// Scopes whose last count is remembered.
const COUNTED: usize = 1_024;

/// What the store knows of its file for as long as it is open.
#[derive(Debug)]
pub(crate) struct Watch {
    database: u128,
    /// Nonces are this number, mixed with how many there were.
    seed: u64,
    nonces: AtomicU64,
    /// `data_version` of the writing connection when it was opened; as long as it is the same, nobody else committed.
    opened: i64,
    /// `schema_version` at which the triggers were last found as they are to be.
    schema: AtomicI64,
    /// `data_version` at which a scope was last counted and found right.
    counted: Mutex<HashMap<ScopeDigest, i64>>,
    /// `None`: in memory, where there is nobody else.
    file: Option<(PathBuf, FileId)>,
}

impl Watch {
    /// Of the writing connection, just opened and its schema verified.
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

    /// A nonce that no other handle gives, but by an accident of 64 bits.
    fn nonce(&self) -> i64 {
        let count = self.nonces.fetch_add(1, Ordering::Relaxed);
        // SplitMix64: a bijection, so that one handle repeats none.
        let mut mixed = self.seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).cast_signed()
    }

    fn token(&self, space: &Space) -> DriftToken {
        DriftToken::new(self.database, space.generation, space.nonce.cast_unsigned())
    }

    /// The state of a scope, for a reader.
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
            None => (0, 0, crate::erase::version_of(connection, digest)?),
        };
        let token = DriftToken::new(self.database, unsigned(generation, "counter")?, nonce.cast_unsigned());
        Ok(DriftState::new(token, unsigned(version, "counter")?))
    }

    /// Whether the file has another name now, or none, so that what is written is lost with this process.
    pub(crate) fn is_displaced(&self) -> bool {
        self.file.as_ref().is_some_and(|(path, id)| id.has_left(path))
    }
}

/// The id that the file was given when it was made.
fn database_id(connection: &Connection) -> Result<u128> {
    let id: Vec<u8> = connection
        .query_row("SELECT id FROM database", [], |row| row.get(0))
        .optional()
        .map_err(engine)?
        .ok_or_else(|| malformed("database id"))?;
    Ok(u128::from_be_bytes(id.try_into().map_err(|_| malformed("database id"))?))
}

impl Space {
    /// Counts a change of an entry.
    pub(crate) fn drift(&mut self, watch: &Watch) {
        self.generation += 1;
        self.nonce = watch.nonce();
    }
}

impl Batch<'_> {
    /// The token of a scope as this transaction has it.
    pub(crate) fn token(&self, space: &Space) -> DriftToken {
        self.context().watch.token(space)
    }

    /// What a write did to the token, where it is to be told.
    pub(crate) fn told(
        &self,
        check: &DriftCheck,
        before: DriftToken,
        space: &Space,
        digest: impl FnOnce() -> Option<ContentDigest>,
    ) -> Option<DriftChange> {
        check.tells().then(|| DriftChange::new(before, self.token(space), digest()))
    }

    /// Refuses where the file is another now, whatever is compared.
    pub(crate) fn in_place(&self, check: &DriftCheck, token: DriftToken) -> Result<(), Fault> {
        match (self.is_displaced(), check.tells()) {
            (false, _) => Ok(()),
            (true, true) => Err(DriftReason::FileReplaced.refusal(token).into()),
            (true, false) => Err(displaced().into()),
        }
    }

    /// Compares what the caller saw with what is stored. `Ok(Some)`: that has drifted.
    pub(crate) fn drifted(
        &self,
        digest: &ScopeDigest,
        space: &Space,
        key: Option<&Key>,
        live: Option<&Old>,
        check: &DriftCheck,
        now: Timestamp,
    ) -> Result<Option<DriftReason>, Fault> {
        if !check.compares() {
            return Ok(None);
        }
        let watch = &self.context().watch;
        if let Err(reason) = check.compare(self.token(space), live.map(|live| live.version), now) {
            return Ok(Some(reason));
        }
        if watch.file.is_none() {
            return Ok(None);
        }
        let commits: i64 = self.statement("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if commits == watch.opened {
            return Ok(None);
        }
        if !self.triggers_stand()? {
            return Ok(Some(DriftReason::Triggers));
        }
        if let (Some(key), Some(_), Some(memory_core::drift::Seen::Entry { digest: Some(seen), .. })) =
            (key, live, check.seen())
        {
            let stored = self.entry(space, key)?;
            if stored.is_none_or(|stored| ContentDigest::of_entry(&stored.entry) != seen) {
                return Ok(Some(DriftReason::Changed));
            }
        }
        if matches!(check, DriftCheck::Strict(..)) && !self.counts_hold(digest, space, commits)? {
            return Ok(Some(DriftReason::Silent));
        }
        Ok(None)
    }

    /// Whether the triggers are as they were made. Asked anew only where the schema has moved.
    fn triggers_stand(&self) -> Result<bool, Fault> {
        let watch = &self.context().watch;
        let version: i64 = self.statement("PRAGMA schema_version")?.query_row([], |row| row.get(0))?;
        if version == watch.schema.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let stand = schema::has_triggers(self.connection())?;
        if stand {
            watch.schema.store(version, Ordering::Relaxed);
        }
        Ok(stand)
    }

    /// Whether the rows of a scope are what its counters say, counted once for each commit of somebody else.
    fn counts_hold(&self, digest: &ScopeDigest, space: &Space, commits: i64) -> Result<bool, Fault> {
        let watch = &self.context().watch;
        let remembered = || watch.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if space.id == 0 || remembered().get(digest) == Some(&commits) {
            return Ok(true);
        }
        let counted = Counted::of(self.connection(), space.id)?;
        let holds = counted.entries == space.entries
            && counted.bytes == space.bytes
            && counted.expiring == space.expiring
            && counted.version <= space.version;
        if holds {
            let mut remembered = remembered();
            if remembered.len() >= COUNTED {
                remembered.clear();
            }
            remembered.insert(*digest, commits);
        }
        Ok(holds)
    }

    /// Counts a scope anew that another program has changed.
    pub(crate) fn recount(&self, space: &mut Space) -> Result<(), Fault> {
        let counted = Counted::of(self.connection(), space.id)?;
        let vectors = vectors_of(self.connection(), space.id)?;
        (space.entries, space.bytes, space.expiring) = (counted.entries, counted.bytes, counted.expiring);
        space.vectors = vectors;
        space.version = space.version.max(counted.version);
        space.touch();
        Ok(())
    }
}

/// What the rows of a scope add up to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) expiring: u64,
    /// The highest there is; 0: none, or none that a write ever gave.
    pub(crate) version: u64,
}

impl Counted {
    pub(crate) fn of(connection: &Connection, space: i64) -> Result<Self, Unreadable> {
        let numbers = connection
            .prepare_cached(
                "SELECT count(*), coalesce(sum(size), 0), count(expires_at), max(coalesce(max(version), 0), 0) FROM entry \
                 WHERE space = ?1",
            )?
            .query_row(params![space], |row| {
                Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get(3)?])
            })?;
        let [entries, bytes, expiring, version] = numbers;
        Ok(Self {
            entries: unsigned(entries, "count")?,
            bytes: unsigned(bytes, "size")?,
            expiring: unsigned(expiring, "count")?,
            version: unsigned(version, "version")?,
        })
    }
}

/// Vectors of a scope's entries.
pub(crate) fn vectors_of(connection: &Connection, space: i64) -> Result<u64, Unreadable> {
    let vectors = connection
        .prepare_cached("SELECT count(*) FROM vector WHERE space = ?1")?
        .query_row([space], |row| row.get(0))?;
    Ok(unsigned(vectors, "count")?)
}

#[cfg(test)]
mod tests;
