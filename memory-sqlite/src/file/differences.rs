//! Differences between a file's schema and ours: tables, indexes, triggers, views.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{Error, Result};
use rusqlite::Connection;

use super::migrations::statements;
use crate::error::{engine, foreign};

pub(crate) const UNEXPECTED: &str = "the tables of the database are not those this program creates; restore the file from a copy. \
     The file was not touched";

/// Most names listed in a refusal.
const NAMED: usize = 16;

/// A row of `sqlite_schema`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// `table`, `index`, `trigger` or `view`.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// `None` if it is created together with its table.
    pub(crate) sql: Option<String>,
}

impl Object {
    /// Whether it holds no data, so that it can be rebuilt.
    fn is_derived(&self) -> bool {
        self.kind != "table" && self.sql.is_some()
    }

    pub(crate) fn is_trigger(&self) -> bool {
        self.kind == "trigger"
    }

    /// `trigger entry_deleted`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

/// How a file differs from a newly created one of its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// Tables that hold entries and are missing, changed or foreign: repair cannot bring them back.
    pub(crate) tables: Vec<Object>,
    /// Expected objects that are missing.
    pub(crate) missing: Vec<Object>,
    /// Unexpected objects. A changed object is listed here, and in `missing` as it should be.
    pub(crate) foreign: Vec<Object>,
}

impl Differences {
    /// Compares a file with the schema of its `user_version`.
    pub(crate) fn of(conn: &Connection, version: i32) -> Result<Self> {
        let pristine = Connection::open_in_memory().map_err(engine)?;
        for sql in statements(version) {
            pristine.execute_batch(sql).map_err(engine)?;
        }
        let (mut found, wanted) = (objects(conn)?, objects(&pristine)?);
        let mut differences = Self::default();
        for (at, object) in wanted {
            match found.remove(&at) {
                Some(there) if there == object => {}
                there => {
                    differences.foreign.extend(there);
                    differences.missing.push(object);
                }
            }
        }
        differences.foreign.extend(found.into_values());
        for list in [&mut differences.missing, &mut differences.foreign] {
            let (derived, tables): (Vec<_>, Vec<_>) = list.drain(..).partition(Object::is_derived);
            *list = derived;
            differences.tables.extend(tables);
        }
        Ok(differences)
    }

    /// Whether triggers differ, so that writes of other programs may have gone unnoticed.
    pub(crate) fn is_about_triggers(&self) -> bool {
        self.missing.iter().chain(&self.foreign).any(Object::is_trigger)
    }

    /// Fails with `corrupt` if tables differ.
    pub(crate) fn refuse_tables(&self) -> Result<()> {
        if self.tables.is_empty() {
            return Ok(());
        }
        Err(named(foreign(UNEXPECTED), &self.tables))
    }

    /// Fails with `corrupt` if anything differs.
    pub(crate) fn refuse(&self) -> Result<()> {
        self.refuse_tables()?;
        if self.missing.is_empty() && self.foreign.is_empty() {
            return Ok(());
        }
        Err(named(
            foreign(
                "another program changed triggers, indexes or views of the database, so its writes may have gone \
                 unnoticed; run `memory drift repair` to restore them. The file was not touched",
            ),
            self.missing.iter().chain(&self.foreign),
        ))
    }
}

fn named<'a>(error: Error, objects: impl IntoIterator<Item = &'a Object>) -> Error {
    // A changed object is in both lists.
    let names: BTreeSet<String> = objects.into_iter().map(Object::title).collect();
    error.with_detail("objects", names.into_iter().take(NAMED).collect::<Vec<_>>())
}

fn objects(conn: &Connection) -> Result<BTreeMap<(String, String), Object>> {
    let read = || -> rusqlite::Result<BTreeMap<_, _>> {
        // ANALYZE's tables are harmless and allowed.
        let mut statement = conn.prepare(
            "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_stat%' ESCAPE '\\'",
        )?;
        let object = |row: &rusqlite::Row<'_>| {
            let object = Object { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? };
            Ok(((object.kind.clone(), object.name.clone()), object))
        };
        statement.query_map([], object)?.collect()
    };
    read().map_err(engine)
}
