//! What the runtime does on an agent's database besides running statements: versions, checkpoints, dumps, restores.

use memory_core::Result;
use memory_validator::Mode;
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _};

use super::authorizer::Phase;
use super::connection::Sandbox;
use super::limits::interrupt::Interrupt;
use super::limits::settings;
use super::lock::lock;
use super::refusal;
use super::statement::Cancel;
use crate::error::engine;

impl Sandbox {
    /// The runtime's `user_version` of the database, which the agent cannot see; 0 on a new one.
    pub(crate) fn user_version(&self) -> Result<i32> {
        self.trusted(|conn| conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0)))
            .map_err(engine)
    }

    /// Sets `user_version` in the open transaction.
    pub(crate) fn set_user_version(&mut self, version: i32) -> Result<()> {
        self.command(&format!("PRAGMA user_version = {version}"))
    }

    /// Checkpoints the log without waiting for readers; returns whether the whole log was moved into the file.
    pub(crate) fn checkpoint(&mut self) -> Result<bool> {
        self.trusted(|conn| {
            conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                let (busy, log, moved): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(!busy && log == moved)
            })
        })
        .map_err(engine)
    }
}

/// A schema object that an agent created.
#[derive(Clone, Debug)]
pub(crate) struct SchemaObject {
    /// `table`, `index`, `view`, `trigger`.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// `None` if the engine created it for a constraint.
    pub(crate) sql: Option<String>,
}

/// The columns of a table, and its kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// `table`, `view`, `virtual`, `shadow`.
    pub(crate) kind: String,
    pub(crate) without_rowid: bool,
    /// Columns that store a value, in order.
    pub(crate) stored: Vec<String>,
    /// Every column, including generated and hidden ones.
    pub(crate) all: Vec<String>,
}

/// Needed by dumps and restores, and impossible in an agent's statement.
impl Sandbox {
    /// The objects of the schema in order of creation, without the engine's own.
    pub(crate) fn schema(&self) -> Result<Vec<SchemaObject>> {
        self.trusted(|conn| {
            let mut objects =
                conn.prepare("SELECT type, name, sql FROM main.sqlite_schema ORDER BY rowid")?;
            let made = |row: &rusqlite::Row<'_>| {
                Ok(SchemaObject { kind: row.get(0)?, name: row.get(1)?, sql: row.get(2)? })
            };
            objects.query_map([], made)?.collect()
        })
        .map(|made: Vec<SchemaObject>| {
            made.into_iter().filter(|made| !starts_with(&made.name, "sqlite_")).collect()
        })
        .map_err(engine)
    }

    pub(crate) fn layout(&self, table: &str) -> Result<Layout> {
        self.trusted(|conn| {
            let mut layout = Layout::default();
            let mut list = conn.prepare_cached(
                "SELECT type, wr FROM pragma_table_list(?1) WHERE schema = 'main' AND name = ?1",
            )?;
            let mut found = list.query([table])?;
            if let Some(row) = found.next()? {
                (layout.kind, layout.without_rowid) = (row.get(0)?, row.get(1)?);
            }
            let mut columns =
                conn.prepare_cached("SELECT name, hidden FROM pragma_table_xinfo(?1, 'main')")?;
            let mut found = columns.query([table])?;
            while let Some(row) = found.next()? {
                let (name, hidden): (String, i64) = (row.get(0)?, row.get(1)?);
                if hidden == 0 {
                    layout.stored.push(name.clone());
                }
                layout.all.push(name);
            }
            Ok(layout)
        })
        .map_err(engine)
    }

    /// The numbers from which AUTOINCREMENT continues.
    pub(crate) fn sequences(&self) -> Result<Vec<(String, i64)>> {
        self.trusted(|conn| {
            let there = "SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_sequence'";
            if !conn.prepare(there)?.exists([])? {
                return Ok(Vec::new());
            }
            // The engine writes integers; anything else, in a damaged file, counts as 0.
            let mut rows = conn.prepare(
                "SELECT name, CAST(seq AS INTEGER) FROM main.sqlite_sequence WHERE name IS NOT NULL",
            )?;
            rows.query_map([], |row| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0))))?.collect()
        })
        .map_err(engine)
    }

    /// Sets the number from which a table's AUTOINCREMENT continues; false if the table has none.
    pub(crate) fn set_sequence(&mut self, table: &str, value: i64) -> Result<bool> {
        self.trusted(|conn| {
            let there = "SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_sequence'";
            if !conn.prepare(there)?.exists([])? {
                return Ok(false);
            }
            conn.execute("DELETE FROM main.sqlite_sequence WHERE name = ?1", [table])?;
            conn.execute(
                "INSERT INTO main.sqlite_sequence (name, seq) VALUES (?1, ?2)",
                rusqlite::params![table, value],
            )?;
            Ok(true)
        })
        .map_err(engine)
    }

    /// The settings of a full-text index, without its format version; empty for any other table.
    pub(crate) fn full_text_settings(&self, table: &str) -> Result<Vec<(String, Value)>> {
        let shadow = format!("{table}_config");
        if self.layout(table)?.kind != "virtual" || self.layout(&shadow)?.kind != "shadow" {
            return Ok(Vec::new());
        }
        self.trusted(|conn| {
            let sql = format!(
                "SELECT k, v FROM main.\"{}\" WHERE k <> 'version' ORDER BY k",
                shadow.replace('"', "\"\"")
            );
            conn.prepare(&sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .map_err(engine)
    }

    /// Whether the planner's statistics exist.
    pub(crate) fn is_analyzed(&self) -> Result<bool> {
        let there = "SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_stat1'";
        self.trusted(|conn| conn.prepare(there)?.exists([])).map_err(engine)
    }

    /// Drops everything the agent created, in the open transaction. On failure, roll back.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.watch().begin(Phase::Clearing);
        // Dropping a table deletes its rows, which `ON DELETE RESTRICT` of another would forbid.
        self.enforce_foreign_keys(false)?;
        let cleared = self.defend(false).and_then(|()| drop_objects(&self.conn).map_err(engine));
        let restored = self.defend(self.layers.config).and(self.enforce_foreign_keys(true));
        self.watch().begin(Phase::Closed);
        cleared.and(restored)
    }

    /// Switches the protection of shadow tables; a table that a virtual table has claimed by name counts as one.
    fn defend(&self, on: bool) -> Result<()> {
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, on).map(drop).map_err(engine)
    }

    /// Switches the enforcement of foreign keys, also within an open transaction. It must be on when the connection
    /// goes back to the pool.
    pub(crate) fn enforce_foreign_keys(&mut self, on: bool) -> Result<()> {
        self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, on).map(drop).map_err(engine)
    }

    /// Calls `row` for each row of a query, run with an agent's rights, until it returns false.
    pub(crate) fn each(
        &mut self,
        sql: &str,
        cancel: &Cancel,
        mut row: impl FnMut(&rusqlite::Row<'_>) -> Result<bool>,
    ) -> Result<()> {
        *lock(&self.interrupt) = Interrupt { cancel: cancel.clone(), ..Interrupt::default() };
        // A row has its rowid in addition to the columns that a table may have.
        settings::limit_columns(&self.conn, self.layers, 1)?;
        let mut read = |conn: &rusqlite::Connection| -> std::result::Result<Result<()>, rusqlite::Error> {
            self.watch().begin(Phase::Compiling(Mode::Query));
            let mut statement = conn.prepare(sql)?;
            self.watch().enter(Phase::Running(Mode::Query));
            let mut rows = statement.raw_query();
            while let Some(found) = rows.next()? {
                match row(found) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(Ok(()))
        };
        let done = read(&self.conn);
        self.watch().enter(Phase::Closed);
        *lock(&self.interrupt) = Interrupt::default();
        settings::limit_columns(&self.conn, self.layers, 0)?;
        done.map_err(|error| refusal::statement(error, None))?
    }
}

/// Drops views, then virtual tables, whose shadow tables go with them, then whatever tables are left.
fn drop_objects(conn: &Connection) -> rusqlite::Result<()> {
    let next = "SELECT type, name FROM pragma_table_list WHERE schema = 'main' \
        AND substr(name, 1, 7) <> 'sqlite_' COLLATE NOCASE \
        ORDER BY CASE type WHEN 'view' THEN 0 WHEN 'virtual' THEN 1 ELSE 2 END LIMIT 1";
    loop {
        let found = conn.query_row(next, [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        let Some((kind, name)) = found.optional()? else { break };
        let word = if kind == "view" { "VIEW" } else { "TABLE" };
        conn.execute_batch(&format!("DROP {word} main.\"{}\"", name.replace('"', "\"\"")))?;
    }
    // The tables of the planner's statistics stay after the tables are dropped.
    let analyzed = "SELECT name FROM main.sqlite_schema WHERE name IN ('sqlite_stat1', 'sqlite_stat4')";
    let tables =
        conn.prepare(analyzed)?.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    tables.iter().try_for_each(|table| conn.execute_batch(&format!("DROP TABLE main.{table}")))
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}
