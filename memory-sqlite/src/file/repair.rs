//! Repairs a file whose triggers, indexes or views another program changed.
//!
//! Writes made while our triggers were missing left no trace, so every scope counts as changed. A repair is one
//! transaction: if the process is killed, the file stays as it was.

use std::path::Path;
use std::sync::PoisonError;

use memory_core::{Error, ErrorKind, Result, Retry};
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use serde::Serialize;

use super::column::signed;
use super::counts::{Counted, vectors_of};
use super::differences::{Differences, Object};
use super::location::{Still, judge};
use super::migrations::USER_VERSION;
use super::open::{OPENING, open_unverified, raw_read_only};
use super::schema::{self, Identity};
use crate::config::SqliteConfig;
use crate::error::{self, Unreadable, engine, foreign};

/// Options of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Only report what would be done.
    pub dry_run: bool,
    /// Keep the vectors of entries whose version is unchanged. Vector search will be wrong for every entry that was
    /// changed without a trigger.
    pub keep_vectors: bool,
}

impl RepairOptions {
    memory_core::setters! {
        with_dry_run(dry_run: bool);
        with_keep_vectors(keep_vectors: bool);
    }
}

/// A trigger, index or view that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SchemaObject {
    /// `trigger`, `index` or `view`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The statement that created it.
    pub sql: String,
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repaired {
    /// Our triggers and indexes that were recreated, such as `trigger entry_deleted`.
    pub made: Vec<String>,
    /// Objects that were removed because they are foreign or were changed.
    pub removed: Vec<SchemaObject>,
    /// The file's older format; `None` if it had the current one.
    pub updated_from: Option<i32>,
    /// Scopes counted.
    pub scopes: u64,
    /// Scopes that count as changed: they have new tokens, and their entries new versions.
    pub changed: u64,
    /// Scopes whose counters were wrong.
    pub miscounted: u64,
    /// Entries that got new versions.
    pub entries: u64,
    /// Vectors removed because they may no longer match their entries.
    pub vectors: u64,
}

impl Repaired {
    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self { scopes: self.scopes, ..Self::default() }
    }
}

/// Recreates missing or changed triggers and indexes, removes triggers, indexes and views that are not ours, and
/// counts every scope. Tables are left alone.
///
/// If triggers differed, every scope counts as changed: its token moves, its entries get versions they never had, and
/// its vectors are removed (unless [`RepairOptions::keep_vectors`]). Otherwise this applies only to scopes whose rows
/// were changed without a trace. A file in an older format is migrated. Repairing again does nothing. Other programs
/// may keep the file open; the repair waits for their writes like any writer. Blocks for about as long as it takes to
/// read the file twice.
///
/// # Errors
/// `not_found` if there is no file, or an empty one. `corrupt` if the file is not ours, is damaged, was written by a
/// newer version, or has different tables; `invalid_argument`, `read_only` and `unavailable` as for
/// [`SqliteProvider::open`](crate::SqliteProvider::open). The file is then unchanged.
pub fn repair(path: impl AsRef<Path>, config: &SqliteConfig, options: RepairOptions) -> Result<Repaired> {
    config.check()?;
    crate::prepare_process();
    // Checking releases every lock of this process on the file, so nothing else may open it before there is a log.
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let path = judge(path.as_ref())?.ok_or_else(nothing)?;
    let conn = open_unverified(&path, config)?;
    conn.execute_batch("PRAGMA synchronous = FULL; BEGIN IMMEDIATE").map_err(engine)?;
    let repaired = within(&conn, options);
    if repaired.is_ok() && !options.dry_run {
        conn.execute_batch("COMMIT").map_err(error::commit)?;
    } else if !conn.is_autocommit() {
        // Nothing was written; this only ends the transaction a little earlier.
        let _ = conn.execute_batch("ROLLBACK");
    }
    repaired
}

/// Reads every page of a file and checks that it is a well-formed database. Blocks for about as long as it takes to
/// read the file, but blocks nobody else.
///
/// # Errors
/// `corrupt` if it is not; those of opening a file.
pub fn quick_check(path: impl AsRef<Path>) -> Result<()> {
    crate::prepare_process();
    let path = path.as_ref();
    // A file that this process may not write is read without leaving anything next to it.
    if std::fs::OpenOptions::new().write(true).open(path).is_err() {
        return checked_where_it_lies(path);
    }
    let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(engine);
    match opened.and_then(|conn| sound(&conn)) {
        // In a folder that this process may not write, SQLite has no place for a log's index.
        Err(error) if error.kind() != ErrorKind::Corrupt => checked_where_it_lies(path),
        checked => checked,
    }
}

fn checked_where_it_lies(path: &Path) -> Result<()> {
    let path = std::fs::canonicalize(path).map_err(error::file)?;
    sound(&raw_read_only(&path, Still::of(&path)?)?)
}

fn nothing() -> Error {
    Error::not_found("there is no memory in that file and nothing to repair; name another one")
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

/// Refuses a damaged file, which a repair would not improve.
fn sound(conn: &Connection) -> Result<()> {
    let found: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(engine)?;
    if found == "ok" {
        return Ok(());
    }
    Err(foreign(
        "the database file is damaged; restore it from a copy, or recover it with SQLite's `.recover`",
    )
    .with_detail("found", found))
}

/// Creates an index or trigger. Returns how many vectors had to be removed for it.
fn make(conn: &Connection, object: &Object) -> Result<u64> {
    let mut removed = 0;
    if object.name == "vector_key" {
        // Without the index, there may be two for one entry and model, with no way to tell which is right.
        removed = conn
            .execute(
                "DELETE FROM vector WHERE (space, key, model) IN \
                 (SELECT space, key, model FROM vector GROUP BY space, key, model HAVING count(*) > 1)",
                [],
            )
            .map_err(engine)? as u64;
    }
    if object.name == "text_segment_first" {
        // Searches make them anew.
        conn.execute("DELETE FROM text_segment", []).map_err(engine)?;
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

/// The relevant columns of a scope's row. None of them can be trusted.
struct ScopeRow {
    digest: Vec<u8>,
    space: i64,
    version: i64,
    generation: i64,
    recount: bool,
    /// Entries, bytes, entries with an expiry.
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

    /// Counts the scope, and marks it as changed unless it is known to be as its row says.
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
        if unguarded || silent || miscounted || self.recount {
            // They may contain words and versions of what is gone.
            conn.execute("DELETE FROM text_segment WHERE space = ?1", [self.space]).map_err(engine)?;
            conn.execute("UPDATE scope SET segments = 0 WHERE digest = ?1", [&self.digest])
                .map_err(engine)?;
        }
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

    /// Gives the scope a token, and its entries versions, that they never had. Returns how many vectors were
    /// removed.
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
        // New versions in the old order, all different.
        conn.execute(
            "UPDATE entry SET version = n.version FROM (SELECT key, ?2 + row_number() OVER (ORDER BY version, key) AS version \
             FROM entry WHERE space = ?1) n WHERE entry.space = ?1 AND entry.key = n.key",
            params![self.space, before],
        )?;
        if options.keep_vectors {
            // A vector's id stands for one version: other processes' caches rely on it.
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
