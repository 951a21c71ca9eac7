//! A scope's row within a write transaction.

use memory_core::{DriftToken, Scope, ScopeDigest};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::Unreadable;
use crate::file::column::{kind_number, signed, unsigned};
use crate::file::counts::{Counted, erased_version, vectors_of};
use crate::file::watch::Watch;

/// A scope and its digest.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) scope: Scope,
    pub(crate) digest: ScopeDigest,
}

impl Target {
    pub(crate) fn of(scope: &Scope) -> Self {
        Self { scope: scope.clone(), digest: scope.digest() }
    }
}

/// A row of `scope`: a scope's *space*, which identifies its current set of rows, and counters over it. Counters
/// include expired rows that still exist.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    /// 0 if the scope has no row yet.
    pub(crate) id: i64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) expiring: u64,
    /// Rows of `vector`; if 0, writes skip that table.
    pub(crate) vectors: u64,
    /// Rows of `text_segment`; if 0, writes skip that table.
    pub(crate) segments: u64,
    /// The highest assigned version.
    pub(crate) version: u64,
    /// No key that is absent now was ever assigned a version above this one.
    pub(crate) floor: u64,
    /// Counts every change visible to readers.
    pub(crate) changes: i64,
    /// Counts every change of an entry; 0 if there was none.
    pub(crate) generation: u64,
    /// Changes with every generation.
    pub(crate) nonce: i64,
    /// The stored time of the last use.
    pub(crate) used_at: i64,
    /// The number of the intent to remove its SQL database; 0 if there is none.
    pub(crate) intent: i64,
    /// Whether it must be written.
    pub(crate) dirty: bool,
}

impl Space {
    /// Reads the row of a scope. Without one, everything is zero except the versions assigned before an erasure.
    pub(crate) fn read(connection: &Connection, digest: &ScopeDigest) -> Result<Self, Unreadable> {
        let mut statement = connection.prepare_cached(
            "SELECT space, entries, bytes, expiring, version, floor, changes, vectors, generation, nonce, used_at, \
             leaving, recount, segments FROM scope WHERE digest = ?1",
        )?;
        let mut rows = statement.query([digest.as_bytes()])?;
        let Some(row) = rows.next()? else {
            // Versions from before an erasure are not reused.
            let version = unsigned(erased_version(connection, digest)?, "counter")?;
            return Ok(Self { version, floor: version, ..Self::default() });
        };
        let counter = |at| -> Result<u64, Unreadable> { Ok(unsigned(row.get(at)?, "counter")?) };
        let mut space = Self {
            id: row.get(0)?,
            entries: counter(1)?,
            bytes: counter(2)?,
            expiring: counter(3)?,
            version: counter(4)?,
            floor: counter(5)?,
            changes: row.get(6)?,
            vectors: counter(7)?,
            segments: counter(13)?,
            generation: counter(8)?,
            nonce: row.get(9)?,
            used_at: row.get(10)?,
            intent: row.get(11)?,
            dirty: false,
        };
        if row.get::<_, i64>(12)? != 0 {
            space.recount(connection)?;
        }
        Ok(space)
    }

    /// Recounts a scope that another program has changed, and removes its segments, which may hold words of what is gone.
    fn recount(&mut self, connection: &Connection) -> Result<(), Unreadable> {
        let counted = Counted::of(connection, self.id)?;
        let vectors = vectors_of(connection, self.id)?;
        (self.entries, self.bytes, self.expiring) = (counted.entries, counted.bytes, counted.expiring);
        self.vectors = vectors;
        connection.prepare_cached("DELETE FROM text_segment WHERE space = ?1")?.execute([self.id])?;
        self.segments = 0;
        self.version = self.version.max(counted.version);
        self.touch();
        Ok(())
    }

    /// Inserts the row of a scope; `id` was never used before.
    pub(crate) fn insert(connection: &Connection, target: &Target, id: i64) -> rusqlite::Result<()> {
        let Scope { tenant, kind, id: name } = &target.scope;
        connection
            .prepare_cached(
                "INSERT INTO scope (digest, space, tenant, kind, name, entries, bytes, expiring, version, floor, changes) \
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0, 0, 0)",
            )?
            .execute(params![
                target.digest.as_bytes(),
                id,
                tenant.as_str(),
                kind_number(*kind),
                name.as_str()
            ])
            .map(drop)
    }

    /// Writes the counters of a scope that has a row.
    pub(crate) fn write(&mut self, connection: &Connection, digest: &ScopeDigest) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "UPDATE scope SET entries = ?2, bytes = ?3, expiring = ?4, version = ?5, floor = ?6, changes = ?7, \
                 vectors = ?8, generation = ?9, nonce = ?10, used_at = ?11, segments = ?12, recount = 0 WHERE digest = ?1",
            )?
            .execute(params![
                digest.as_bytes(),
                signed(self.entries),
                signed(self.bytes),
                signed(self.expiring),
                signed(self.version),
                signed(self.floor),
                self.changes,
                signed(self.vectors),
                signed(self.generation),
                self.nonce,
                self.used_at,
                signed(self.segments)
            ])?;
        self.dirty = false;
        Ok(())
    }

    pub(crate) fn touch(&mut self) {
        self.dirty = true;
    }

    /// Moves the drift token on, as every change of an entry does.
    pub(crate) fn move_token(&mut self, watch: &Watch) {
        self.generation += 1;
        self.nonce = watch.nonce();
    }

    /// What readers compare to see whether an entry changed.
    pub(crate) fn token(&self, watch: &Watch) -> DriftToken {
        watch.token(self.generation, self.nonce)
    }
}

/// A run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedRun {
    pub(crate) at: i64,
    /// The number of the intent to remove its SQL database; 0: there is none.
    pub(crate) intent: i64,
}

impl EndedRun {
    /// Whether and when a run ended.
    pub(crate) fn read(connection: &Connection, digest: &ScopeDigest) -> Result<Option<Self>, Unreadable> {
        Ok(connection
            .prepare_cached("SELECT at, leaving FROM ended WHERE digest = ?1")?
            .query_row([digest.as_bytes()], |row| Ok(Self { at: row.get(0)?, intent: row.get(1)? }))
            .optional()?)
    }
}
