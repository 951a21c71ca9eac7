//! The limits of a sandbox, and the engine's settings.

use std::path::PathBuf;
use std::time::Duration;

use memory_core::Result;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

use super::layers::Layers;
use crate::config::Durability;
use crate::error::engine;
use crate::file::open::Role;

/// Limits of a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct SandboxConfig {
    /// Page cache, in KiB.
    pub(crate) cache_kib: u32,
    /// Longest value, in bytes.
    pub(crate) value_bytes: usize,
    /// Peak memory of one statement, in bytes.
    pub(crate) heap_bytes: usize,
    /// A statement ends once the write-ahead log has this many bytes: the log cannot shrink while it runs.
    pub(crate) wal_bytes: u64,
    /// What a commit survives.
    pub(crate) durability: Durability,
    /// Longest wait for another process's lock; a statement's deadline may be earlier.
    pub(crate) busy_timeout: Duration,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self {
            cache_kib: 256,
            value_bytes: 4 << 20,
            heap_bytes: 64 << 20,
            wal_bytes: 1 << 30,
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(5),
        }
    }
}

/// A database of the operator that every scope may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedFile {
    /// The schema's name: letters, digits, `_`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Longest pattern of LIKE and GLOB, in bytes.
pub(crate) const PATTERN_BYTES: i32 = 5_000;
/// Most steps of the engine's program for one statement.
pub(in crate::sandbox) const PROGRAM_STEPS: i32 = 1_000_000;

/// Sets the engine's switches. Call it before a database is attached.
pub(in crate::sandbox) fn configure(conn: &Connection, layers: Layers) -> Result<()> {
    let set = |option, value| conn.set_db_config(option, value).map(drop).map_err(engine);
    // An agent's own schema needs this, whatever the layers.
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, true)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    set(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Without it a statement with `LIMIT ?` is compiled again for every run, because the planner looks at the argument.
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if !layers.config {
        return Ok(());
    }
    set(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    set(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    set(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false)?;
    set(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    set(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false)?;
    set(DbConfig::SQLITE_DBCONFIG_LEGACY_ALTER_TABLE, false)?;
    set(DbConfig::SQLITE_DBCONFIG_LEGACY_FILE_FORMAT, false)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false)?;
    set(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false)
}

/// Sets the pragmas, before any statement of an agent.
pub(in crate::sandbox) fn pragmas(
    conn: &Connection,
    config: &SandboxConfig,
    role: Role,
    layers: Layers,
) -> Result<()> {
    conn.execute_batch(&format!(
        "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON; PRAGMA cache_size = -{}; \
         PRAGMA recursive_triggers = OFF; PRAGMA mmap_size = 0;",
        config.cache_kib
    ))
    .map_err(engine)?;
    // Opening dominates the cost of a statement on a scope without a pooled connection: only writers set what
    // concerns writing.
    if role == Role::Writer || !layers.readonly {
        let synchronous = match config.durability {
            Durability::Full => "FULL",
            Durability::Normal => "NORMAL",
        };
        conn.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 0;"
        ))
        .map_err(engine)?;
    } else {
        conn.execute_batch("PRAGMA query_only = ON").map_err(engine)?;
    }
    Ok(())
}

/// Applies `sqlite3_limit`. Call it once the shared databases are attached.
pub(in crate::sandbox) fn limit(
    conn: &Connection,
    config: &SandboxConfig,
    shared: usize,
    layers: Layers,
) -> Result<()> {
    // The number of arguments is limited whatever the layers.
    if !layers.limits {
        return Ok(());
    }
    let bytes = i32::try_from(config.value_bytes).unwrap_or(i32::MAX);
    let attached = i32::try_from(shared).unwrap_or(0);
    let limits = [
        (Limit::SQLITE_LIMIT_LENGTH, bytes),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 1_000),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 500),
        (Limit::SQLITE_LIMIT_VDBE_OP, PROGRAM_STEPS),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 127),
        (Limit::SQLITE_LIMIT_ATTACHED, attached),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN_BYTES),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 32_766),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 8),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        (Limit::SQLITE_LIMIT_PARSER_DEPTH, 1_000),
    ];
    for (limit, value) in limits {
        conn.set_limit(limit, value).map_err(engine)?;
    }
    limit_columns(conn, layers, 0)
}

/// Limits the columns of tables and results to 500, and `more` for what the runtime reads.
pub(in crate::sandbox) fn limit_columns(conn: &Connection, layers: Layers, more: i32) -> Result<()> {
    if layers.limits {
        conn.set_limit(Limit::SQLITE_LIMIT_COLUMN, 500 + more).map_err(engine)?;
    }
    Ok(())
}

/// Lifts the limits of [`configure`] and [`limit`], for what the operator loads.
#[cfg(any(test, feature = "lab"))]
pub(in crate::sandbox) fn lift(conn: &Connection) -> Result<()> {
    for (option, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, true),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, true),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, true),
    ] {
        conn.set_db_config(option, value).map_err(engine)?;
    }
    for limit in [
        Limit::SQLITE_LIMIT_LENGTH,
        Limit::SQLITE_LIMIT_SQL_LENGTH,
        Limit::SQLITE_LIMIT_COLUMN,
        Limit::SQLITE_LIMIT_COMPOUND_SELECT,
        Limit::SQLITE_LIMIT_VDBE_OP,
        Limit::SQLITE_LIMIT_TRIGGER_DEPTH,
    ] {
        // The engine caps this at its compile-time maximum.
        conn.set_limit(limit, i32::MAX).map_err(engine)?;
    }
    Ok(())
}
