//! Repair of a file whose triggers, indexes or views another program changed.
//!
//! What that program wrote while our triggers were missing left no sign, so every scope counts as changed. A repair is one
//! transaction: a process killed in the middle leaves the file as it was.

use std::path::Path;
use std::sync::PoisonError;

use memory_core::{Error, ErrorKind, Result, Retry};
use rusqlite::{Connection, ErrorCode, params};
use serde::Serialize;

use super::column::signed;
use super::counts::{Counted, vectors_of};
use super::differences::{Differences, Object};
use super::location::judge;
use super::migrations::USER_VERSION;
use super::open::{OPENING, open_unverified};
use super::schema::{self, Identity};
use crate::config::SqliteConfig;
use crate::error::{self, Unreadable, engine, foreign};

/// How a file is repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Only tell what would be done.
    pub dry_run: bool,
    /// Keep the vectors of entries whose versions they stand for. A search by meaning is wrong for every entry that was
    /// changed without a trigger.
    pub keep_vectors: bool,
}

impl RepairOptions {
    /// Sets whether to only tell what would be done.
    #[must_use]
    pub const fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets whether vectors are kept.
    #[must_use]
    pub const fn with_keep_vectors(mut self, keep_vectors: bool) -> Self {
        self.keep_vectors = keep_vectors;
        self
    }
}

/// A trigger, index or view of another program, which was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SchemaObject {
    /// `trigger`, `index` or `view`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The statement that made it.
    pub sql: String,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repaired {
    /// Triggers and indexes of ours that were made anew, as `trigger entry_deleted`.
    pub made: Vec<String>,
    /// What was removed since it is not ours, or not as we make it.
    pub removed: Vec<SchemaObject>,
    /// The older format that the file had; `None`: it had the present one.
    pub updated_from: Option<i32>,
    /// Scopes that were counted.
    pub scopes: u64,
    /// Those that count as changed: their tokens moved, and their entries have new versions.
    pub changed: u64,
    /// Those whose counters were not what their rows add up to.
    pub miscounted: u64,
    /// Entries that got new versions.
    pub entries: u64,
    /// Vectors that were removed, since nobody knows whether they stand for what the entries say now.
    pub vectors: u64,
}

impl Repaired {
    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self { scopes: self.scopes, ..Self::default() }
    }
}

/// Makes the triggers and indexes of a file anew that are missing or changed, removes triggers, indexes and views that are
/// not ours, and counts every scope. Tables are left as they are.
///
/// Where triggers differed, every scope counts as changed: its token moves, its entries get versions that it never had, and
/// its vectors go ([`RepairOptions::keep_vectors`] keeps them). Else that happens to scopes alone whose rows were changed
/// without a sign. A file of an older format is brought up to date. Repairing again does nothing. Programs that have the
/// file open may go on; it waits for their writes as a writer does. Blocks for as long as reading the file twice takes.
///
/// # Errors
/// `not_found` where there is no file, or an empty one. `corrupt` for what is no database of ours, a newer version's, a
/// damaged one, and one whose tables are not ours; `invalid_argument`, `read_only`, `unavailable` as
/// [`SqliteProvider::open`](crate::SqliteProvider::open). The file is as it was then.
pub fn repair(path: impl AsRef<Path>, config: &SqliteConfig, options: RepairOptions) -> Result<Repaired> {
    config.check()?;
    crate::prepare_process();
    // Judging lets go of every lock that this process has on the file: nobody else may be at it before there is a log.
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = judge(path.as_ref())?.ok_or_else(nothing)?;
    let conn = open_unverified(&path, config)?;
    conn.execute_batch("PRAGMA synchronous = FULL; BEGIN IMMEDIATE").map_err(engine)?;
    let repaired = within(&conn, options);
    if repaired.is_ok() && !options.dry_run {
        conn.execute_batch("COMMIT").map_err(error::commit)?;
    } else if !conn.is_autocommit() {
        // Nothing of it is in the file; ending only tells that a little earlier.
        let _ = conn.execute_batch("ROLLBACK");
    }
    repaired
}

fn nothing() -> Error {
    Error::new(ErrorKind::NotFound, "there is no memory in that file, so nothing to repair; name another one")
        .with_retry(Retry::Never)
}

fn within(conn: &Connection, options: RepairOptions) -> Result<Repaired> {
    let Identity::Ours(version) = schema::read_identity(conn)? else { return Err(nothing()) };
    let differences = Differences::of(conn, version)?;
    differences.refuse_tables()?;
    sound(conn)?;
    let mut repaired = Repaired::default();
    for object in &differences.foreign {
        let (kind, name) = (object.kind.to_uppercase(), object.name.replace('"', "\"\""));
        conn.execute_batch(&format!("DROP {kind} main.\"{name}\"")).map_err(engine)?;
        repaired.removed.push(SchemaObject {
            kind: object.kind.clone(),
            name: object.name.clone(),
            sql: object.sql.clone().unwrap_or_default(),
        });
    }
    for object in &differences.missing {
        repaired.vectors += make(conn, object)?;
        repaired.made.push(object.title());
    }
    if version < USER_VERSION {
        schema::upgrade(conn, version)?;
        repaired.updated_from = Some(version);
    } else {
        schema::verify(conn)?;
    }
    for scope in ScopeRow::all(conn)? {
        scope.repair(conn, differences.is_about_triggers(), options, &mut repaired)?;
    }
    Ok(repaired)
}

/// What is damaged is not made better by this.
fn sound(conn: &Connection) -> Result<()> {
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(engine)?;
    if found == "ok" {
        return Ok(());
    }
    Err(foreign(
        "the database file is damaged and was not repaired; restore it from a copy, or recover it with SQLite's `.recover`",
    )
    .with_detail("found", found))
}

/// Makes an index or a trigger. How many vectors were in its way.
fn make(conn: &Connection, object: &Object) -> Result<u64> {
    let mut removed = 0;
    if object.name == "vector_key" {
        // Without it there may be two of one entry and model, of which nobody knows the right one.
        removed = conn
            .execute(
                "DELETE FROM vector WHERE (space, key, model) IN \
                 (SELECT space, key, model FROM vector GROUP BY space, key, model HAVING count(*) > 1)",
                [],
            )
            .map_err(engine)? as u64;
    }
    let sql = object.sql.as_deref().unwrap_or_default();
    conn.execute_batch(sql).map_err(|error| match error::code(&error) {
        Some(ErrorCode::ConstraintViolation) => foreign(
            "rows of the database contradict each other, and were not repaired; restore the file from a copy",
        )
        .with_detail("objects", vec![object.title()])
        .with_source(error),
        _ => engine(error),
    })?;
    Ok(removed)
}

/// What a scope's row says, as far as it matters here. Nothing in it can be relied upon.
struct ScopeRow {
    digest: Vec<u8>,
    space: i64,
    version: i64,
    generation: i64,
    recount: bool,
    /// Entries, bytes, those expiring.
    counters: [i64; 3],
    vectors: i64,
}

impl ScopeRow {
    fn all(conn: &Connection) -> Result<Vec<Self>> {
        let read = || -> rusqlite::Result<Vec<Self>> {
            let mut statement = conn.prepare(
                "SELECT digest, space, version, generation, recount <> 0, entries, bytes, expiring, vectors FROM scope",
            )?;
            let row = |row: &rusqlite::Row<'_>| {
                Ok(Self {
                    digest: row.get(0)?,
                    space: row.get(1)?,
                    version: row.get(2)?,
                    generation: row.get(3)?,
                    recount: row.get(4)?,
                    counters: [row.get(5)?, row.get(6)?, row.get(7)?],
                    vectors: row.get(8)?,
                })
            };
            statement.query_map([], row)?.collect()
        };
        read().map_err(engine)
    }

    /// Counts the scope, and gives it another state where it is not known to be in the one it says.
    fn repair(
        &self,
        conn: &Connection,
        unguarded: bool,
        options: RepairOptions,
        repaired: &mut Repaired,
    ) -> Result<()> {
        repaired.scopes += 1;
        let counted = Counted::of(conn, self.space)?;
        let counters = [counted.entries, counted.bytes, counted.expiring].map(signed);
        let vectors = vectors_of(conn, self.space)?;
        let miscounted = counters != self.counters || signed(vectors) != self.vectors;
        repaired.miscounted += u64::from(miscounted);
        let silent = !self.recount && (counters != self.counters || signed(counted.version) > self.version);
        let mut removed = 0;
        let written = self.generation > 0 || counted.entries > 0;
        if written && (unguarded || silent) {
            removed = self.change(conn, counted, options)?;
            repaired.changed += 1;
            repaired.entries += counted.entries;
            repaired.vectors += removed;
        }
        if miscounted || removed > 0 || self.recount {
            let [entries, bytes, expiring] = counters;
            conn.execute(
                "UPDATE scope SET entries = ?2, bytes = ?3, expiring = ?4, vectors = ?5, recount = 0, \
                 version = max(version, ?6) WHERE digest = ?1",
                params![
                    self.digest,
                    entries,
                    bytes,
                    expiring,
                    signed(vectors.saturating_sub(removed)),
                    signed(counted.version)
                ],
            )
            .map_err(engine)?;
        }
        Ok(())
    }

    /// Gives the scope a token, and its entries versions, that it never had. How many vectors it lost.
    fn change(&self, conn: &Connection, counted: Counted, options: RepairOptions) -> Result<u64, Unreadable> {
        let before = self.version.max(signed(counted.version));
        let Some(last) = before.checked_add(signed(counted.entries)) else {
            return Err(
                Error::internal("the scope has used up all versions; export it into a new one").into()
            );
        };
        let removed = if options.keep_vectors {
            conn.execute(
                "DELETE FROM vector WHERE space = ?1 AND NOT EXISTS (SELECT 1 FROM entry e \
                 WHERE e.space = vector.space AND e.key = vector.key AND e.version = vector.version)",
                [self.space],
            )?
        } else {
            conn.execute("DELETE FROM vector WHERE space = ?1", [self.space])?
        };
        // In the order that they had, each another one.
        conn.execute(
            "UPDATE entry SET version = n.version FROM (SELECT key, ?2 + row_number() OVER (ORDER BY version, key) AS version \
             FROM entry WHERE space = ?1) n WHERE entry.space = ?1 AND entry.key = n.key",
            params![self.space, before],
        )?;
        if options.keep_vectors {
            // An id names one vector for ever, its version too: what other processes hold in memory goes by it.
            conn.execute(
                "REPLACE INTO vector (space, model, key, version, expires_at, text, data) \
                 SELECT v.space, v.model, v.key, e.version, e.expires_at, v.text, v.data FROM vector v \
                 JOIN entry e ON e.space = v.space AND e.key = v.key WHERE v.space = ?1",
                [self.space],
            )?;
        }
        conn.execute(
            "UPDATE scope SET version = ?2, floor = ?3, generation = max(generation, 0) + 1, nonce = random(), \
             changes = changes + 1 WHERE digest = ?1",
            params![self.digest, last, before],
        )?;
        Ok(removed as u64)
    }
}
