//! The file format: identity, verification, migration. `docs/spec/sqlite-file.md` describes it.

use memory_core::Result;
use rusqlite::Connection;

use super::differences::{Differences, UNEXPECTED};
use super::migrations::{USER_VERSION, migrations_from};
use crate::error::{engine, foreign};

/// `MemA`, the `application_id` of our files.
pub(crate) const APPLICATION_ID: i32 = 0x4d65_6d41;

/// Whose file this is, according to its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// No tables and no identity.
    Empty,
    /// Ours, of this `user_version`.
    Ours(i32),
}

/// Checks the two identity fields of a file's header.
/// Fails with `corrupt` if it belongs to another application or a later version.
pub(crate) fn identify(application_id: i32, user_version: i32, empty: bool) -> Result<Identity> {
    match (application_id, user_version) {
        (0, 0) if empty => Ok(Identity::Empty),
        (APPLICATION_ID, 1..=USER_VERSION) => Ok(Identity::Ours(user_version)),
        (APPLICATION_ID, version) if version > USER_VERSION => Err(foreign(
            "the database was written by a newer version of this program; update the program. The file was not touched",
        )
        .with_detail("file_version", version)
        .with_detail("supported_version", USER_VERSION)),
        _ => Err(foreign(
            "the file is a SQLite database of another program; name another file. The file was not touched",
        )),
    }
}

/// Reads the identity through SQLite, which includes the write-ahead log. All in one snapshot: another process may
/// be creating the tables right now.
pub(crate) fn read_identity(conn: &Connection) -> Result<Identity> {
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i32>(0)).map_err(engine);
    let read = || -> Result<(i32, i32, i32)> {
        let application_id = number("PRAGMA application_id")?;
        let user_version = number("PRAGMA user_version")?;
        let tables = number("SELECT EXISTS (SELECT 1 FROM sqlite_schema)")?;
        Ok((application_id, user_version, tables))
    };
    let snapshot = conn.is_autocommit();
    if snapshot {
        conn.execute_batch("BEGIN").map_err(engine)?;
    }
    let marks = read();
    if snapshot {
        // Nothing was written; if this fails, reading has failed too.
        let _ = conn.execute_batch("ROLLBACK");
    }
    let (application_id, user_version, tables) = marks?;
    identify(application_id, user_version, tables == 0)
}

/// Migrates the file to [`USER_VERSION`] in one transaction; does nothing if it is current. Fails as [`identify`] does,
/// or with engine errors, which leave the file unchanged.
pub(crate) fn migrate(conn: &Connection) -> Result<()> {
    if read_identity(conn)? == Identity::Ours(USER_VERSION) {
        return Ok(());
    }
    conn.execute_batch("BEGIN IMMEDIATE").map_err(engine)?;
    let migrated = migrate_locked(conn).and_then(|()| conn.execute_batch("COMMIT").map_err(engine));
    if migrated.is_err() && !conn.is_autocommit() {
        let _ = conn.execute_batch("ROLLBACK");
    }
    migrated
}

fn migrate_locked(conn: &Connection) -> Result<()> {
    // Another process may have been faster.
    match read_identity(conn)? {
        Identity::Empty => upgrade(conn, 0),
        Identity::Ours(version) => {
            Differences::of(conn, version)?.refuse()?;
            upgrade(conn, version)
        }
    }
}

/// Migrates a file that matches its version to [`USER_VERSION`], within a transaction.
pub(crate) fn upgrade(conn: &Connection, from: i32) -> Result<()> {
    for sql in migrations_from(from) {
        conn.execute_batch(sql).map_err(|error| match error {
            // Our statements are right, so the file does not match its version.
            rusqlite::Error::SqlInputError { .. } => foreign(UNEXPECTED).with_source(error),
            error => engine(error),
        })?;
    }
    // Before the commit, so that a file that does not match stays unchanged.
    verify(conn)?;
    conn.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {USER_VERSION};"
    ))
    .map_err(engine)
}

/// Checks that the schema is exactly ours: an injected trigger or view would run inside our statements.
/// Fails with `corrupt` if it differs.
pub(crate) fn verify(conn: &Connection) -> Result<()> {
    Differences::of(conn, USER_VERSION)?.refuse()
}

/// The time since which uses are recorded: when the file was first opened by a version that records them.
pub(crate) fn tracked_since(conn: &Connection, now: memory_core::Timestamp) -> Result<i64> {
    let read = || conn.query_row("SELECT tracked_since FROM database", [], |row| row.get::<_, i64>(0));
    if read().map_err(engine)? == 0 && !conn.is_readonly("main").map_err(engine)? {
        conn.execute("UPDATE database SET tracked_since = ?1 WHERE tracked_since = 0", [now.as_millis()])
            .map_err(engine)?;
    }
    read().map_err(engine)
}
