//! Access beyond the facet, for the corpus runner and the tests of single layers.

use std::fmt::Write as _;
use std::sync::Arc;

use memory_core::sql::{Rows, SqlValue, StatementOptions};
use memory_core::{Result, RunContext, Scope};
use memory_validator::{Mode, Stages};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::connections::WRITTEN;
use super::engine::Engine;
use crate::error::engine;
use crate::provider::SqliteProvider;
use crate::sandbox::Layers;

/// The result of a statement, and its memory.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// Rows of a query, or of `RETURNING`.
    pub rows: Option<Rows>,
    /// Rows inserted, updated or deleted.
    pub rows_affected: u64,
    /// Peak memory of the engine for it, in bytes.
    pub peak_bytes: u64,
}

impl SqliteProvider {
    /// Switches some of the engine's layers off. Call before the first statement.
    #[must_use]
    pub fn with_layers(self, layers: Layers) -> Self {
        self.sql.set_layers(layers);
        self
    }

    /// Switches some of the validator's stages off. Call before the first statement.
    #[must_use]
    pub fn with_stages(self, stages: Stages) -> Self {
        self.sql.set_stages(stages);
        self
    }

    /// Runs a statement like `exec` and `query`, and measures its memory.
    ///
    /// # Errors
    /// As `exec` and `query`.
    pub async fn measured(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
        mode: Mode,
    ) -> Result<Measured> {
        let ran = self.statement(run, scope, sql, args, options, mode).await?;
        Ok(Measured { rows: ran.rows, rows_affected: ran.rows_affected, peak_bytes: ran.peak_bytes })
    }
}

/// Runs a script in a scope's database with the runtime's rights, without the validator.
///
/// # Errors
/// The engine's errors.
pub async fn load_script(provider: &SqliteProvider, scope: &Scope, sql: &str) -> Result<()> {
    let engine = Arc::clone(&provider.sql);
    engine.wake()?;
    let deadline = engine.deadline(None);
    let state = engine.pool.scope(scope);
    let guard = engine.lock(&state, deadline).await?;
    let (workers, sql) = (Arc::clone(&engine.workers), sql.to_owned());
    workers.run(deadline, move || load(&engine, &state, &sql, deadline, guard)).await?
}

fn load(
    engine: &Arc<Engine>,
    state: &Arc<super::connections::ScopeState>,
    sql: &str,
    deadline: std::time::Instant,
    guard: memory_sql::WriteLock,
) -> Result<()> {
    let mut conn = engine.pool.writer(state, engine.layers(&state.scope), deadline)?;
    let done = conn.sandbox.with_runtime_rights(|raw| raw.execute_batch(sql).map_err(crate::error::engine));
    conn.sandbox.rollback()?;
    conn.sandbox.set_user_version(WRITTEN)?;
    engine.pool.rest(conn);
    drop(guard);
    done
}

/// The contents of a scope's database as text to compare: the schema and every row of every table, including shadow
/// tables.
///
/// # Errors
/// The engine's errors.
pub async fn dump_text(provider: &SqliteProvider, scope: &Scope) -> Result<String> {
    let read = |conn: &mut super::connections::Conn| conn.sandbox.with_runtime_rights(everything);
    Ok(provider.sql.look(scope, read).await?.unwrap_or_default())
}

fn everything(conn: &Connection) -> Result<String> {
    let read = || -> rusqlite::Result<String> {
        let mut out = String::new();
        rows(conn, "SELECT type, name, tbl_name, sql FROM main.sqlite_schema ORDER BY type, name", &mut out)?;
        let mut names = conn.prepare(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY name",
        )?;
        let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        for name in names {
            let _ = writeln!(out, "{name:?}");
            rows(conn, &format!("SELECT * FROM main.\"{}\"", name.replace('"', "\"\"")), &mut out)?;
        }
        Ok(out)
    };
    read().map_err(engine)
}

fn rows(conn: &Connection, sql: &str, out: &mut String) -> rusqlite::Result<()> {
    let mut statement = conn.prepare(sql)?;
    let width = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for at in 0..width {
            let _ = match row.get_ref(at)? {
                ValueRef::Null => write!(out, "null,"),
                ValueRef::Integer(value) => write!(out, "{value},"),
                ValueRef::Real(value) => write!(out, "{:016x}r,", value.to_bits()),
                ValueRef::Text(bytes) => write!(out, "{:?},", String::from_utf8_lossy(bytes)),
                ValueRef::Blob(bytes) => write!(out, "{bytes:02x?},"),
            };
        }
        out.push('\n');
    }
    Ok(())
}

/// Peak memory of this process's last statement, even if it failed, in bytes.
#[must_use]
pub fn last_peak_bytes() -> u64 {
    crate::sandbox::LAST_PEAK.load(std::sync::atomic::Ordering::Acquire)
}

/// SQLite's current memory in this process, in bytes.
#[must_use]
pub fn engine_bytes() -> u64 {
    crate::sandbox::heap::process_bytes()
}

/// Resets the peak memory of the last statement.
pub fn forget_peak() {
    crate::sandbox::LAST_PEAK.store(0, std::sync::atomic::Ordering::Release);
}

/// Number of idle connections.
#[must_use]
pub fn resting_connections(provider: &SqliteProvider) -> usize {
    provider.sql.pool.resting()
}

/// The path of a scope's database file, which need not exist.
#[must_use]
pub fn database_file(provider: &SqliteProvider, scope: &Scope) -> std::path::PathBuf {
    provider.sql.pool.scope(scope).place.database().to_owned()
}
