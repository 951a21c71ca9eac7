//! One connection on which an agent's SQL runs.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use memory_core::sql::TableInfo;
use memory_core::{Error, Result};
use rusqlite::{Connection, OpenFlags};

use super::authorizer::{self, Phase, Watch};
use super::entries::{self, EntrySource};
use super::inline::history::{InlineState, Seen};
use super::limits::interrupt::{Interrupt, Log};
use super::limits::{Layers, SandboxConfig, SharedFile, handle, heap, settings};
use super::lock::lock;
use super::{describe, functions};
use crate::error::engine;
use crate::file::location::Still;
use crate::file::open::Role;

/// Where the database lives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// An existing file (an empty one becomes a database), in a folder whose path has no symbolic link.
    File(&'a Path),
    /// The same, in a file that this process may not write. Only for a reader.
    ReadOnly(&'a Path, Still),
    /// In memory: no tables, and writes are useless.
    Empty,
}

/// One sandboxed connection.
pub(crate) struct Sandbox {
    pub(super) conn: Connection,
    pub(super) role: Role,
    pub(super) layers: Layers,
    pub(super) config: SandboxConfig,
    pub(super) watch: Arc<Mutex<Watch>>,
    pub(super) interrupt: Arc<Mutex<Interrupt>>,
    pub(super) quota: Option<u64>,
    pub(super) log: Option<Log>,
    pub(super) page_bytes: Cell<Option<u64>>,
    /// The current `max_page_count`.
    pub(super) max_pages: u64,
    /// The schema's version, and whether the schema contained the word ROLLBACK then.
    pub(super) rollback_words: Cell<Option<(i64, bool)>>,
    pub(super) peak_bytes: u64,
    /// How many statements of its callers it keeps prepared.
    pub(super) kept: usize,
    /// Statements seen once; they are kept prepared when they come again.
    pub(super) seen: HashMap<Box<str>, Seen>,
    /// State for running new short queries inline.
    pub(super) inline: InlineState,
    /// Number of calls of [`Sandbox::trim_caches`].
    pub(super) trims: u8,
    /// Databases attached.
    shared: usize,
    /// The version of the scope's own schema that names were last resolved with.
    resolved: Option<i64>,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("role", &self.role).finish_non_exhaustive()
    }
}

/// Modules of virtual tables that an agent's schema may use.
const MODULES: [&str; 7] =
    ["fts5", "rtree", "rtree_i32", "json_each", "json_tree", "jsonb_each", "jsonb_tree"];
/// A connection's lookaside memory: bytes per slot, and slots.
const LOOKASIDE: (i32, i32) = (512, 16);
/// Virtual machine instructions between two clock checks.
pub(super) const STEPS: i32 = 1_000;
/// The page limit of a database without quota: SQLite's own limit.
pub(super) const MAX_PAGES: u64 = 4_294_967_294;
/// [`Sandbox::trim_caches`] measures the connection's memory only once in this many calls.
const COUNT_EVERY: u8 = 16;
/// Statements of an agent that a connection keeps prepared.
const KEPT: usize = 8;
/// For the host, which runs the same few dozen again and again.
const KEPT_OF_HOST: usize = 64;
/// What a connection keeps in addition: it begins and ends transactions and savepoints, and measures the file.
const KEPT_ITSELF: usize = 12;
/// Longest statement that is kept prepared.
pub(super) const KEPT_BYTES: usize = 4 << 10;

impl Sandbox {
    /// Opens a connection; see [`Place`]. A reader's file must be a database already.
    pub(crate) fn open(
        place: Place<'_>,
        role: Role,
        config: &SandboxConfig,
        shared: &[SharedFile],
        entries: Option<Arc<dyn EntrySource>>,
        layers: Layers,
    ) -> Result<Self> {
        heap::install();
        let conn = connect(place, role, layers)?;
        handle::set_lookaside(&conn, LOOKASIDE.0, LOOKASIDE.1);
        conn.busy_timeout(config.busy_timeout).map_err(engine)?;
        settings::configure(&conn, layers)?;
        if let (Place::File(_), Role::Writer) = (place, role) {
            crate::file::open::write_ahead(&conn, config.busy_timeout)?;
        }
        settings::pragmas(&conn, config, role, layers)?;
        attach(&conn, shared)?;
        functions::register(&conn, layers)?;
        if layers.config {
            handle::keep_modules(&conn, &MODULES)?;
        }
        let interrupt: Arc<Mutex<Interrupt>> = Arc::default();
        if let Some(entries) = entries {
            entries::table::register(&conn, entries, Arc::clone(&interrupt))?;
        }
        let kept = if layers.authorizer { KEPT } else { KEPT_OF_HOST };
        conn.set_prepared_statement_cache_capacity(kept + KEPT_ITSELF);
        let names: BTreeSet<String> = shared.iter().map(|file| file.name.clone()).collect();
        let mut sandbox = Self {
            conn,
            role,
            layers,
            config: config.clone(),
            watch: Arc::new(Mutex::new(Watch::new(layers.authorizer, names))),
            interrupt,
            quota: None,
            log: log(place, role, config, layers),
            page_bytes: Cell::new(None),
            max_pages: MAX_PAGES,
            rollback_words: Cell::new(None),
            peak_bytes: 0,
            kept,
            seen: HashMap::new(),
            inline: InlineState::default(),
            trims: 0,
            shared: shared.len(),
            resolved: None,
        };
        let modules = modules(&sandbox.conn, layers)?;
        sandbox.watch().set_modules(modules);
        settings::limit(&sandbox.conn, config, shared.len(), layers)?;
        sandbox.arm()?;
        Ok(sandbox)
    }

    /// From here on the authorizer sees every statement.
    fn arm(&mut self) -> Result<()> {
        self.watch().begin(Phase::Closed);
        authorizer::install(&self.conn, &self.watch).map_err(engine)?;
        let interrupt = Arc::clone(&self.interrupt);
        let handler = move || lock(&interrupt).is_due();
        // Also without a deadline, so that the statement can be cancelled.
        self.conn.progress_handler(STEPS, Some(handler)).map_err(engine)
    }

    pub(super) fn watch(&self) -> MutexGuard<'_, Watch> {
        lock(&self.watch)
    }

    /// Runs one of the runtime's own statements. Its text must contain nothing written by an agent.
    pub(super) fn trusted<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.watch().begin(Phase::Trusted);
        let done = work(&self.conn);
        self.watch().begin(Phase::Closed);
        done
    }

    /// Begins or ends a transaction or a savepoint.
    pub(super) fn bracket(&self, sql: &str) -> rusqlite::Result<()> {
        self.watch().begin(Phase::Bracketing);
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]).map(drop));
        self.watch().begin(Phase::Closed);
        done
    }

    pub(super) fn command(&self, sql: &str) -> Result<()> {
        self.bracket(sql).map_err(engine)
    }

    /// The agent's own tables and views, without shadow tables and the tables of the engine and the runtime.
    pub(crate) fn tables(&self) -> Result<Vec<TableInfo>> {
        self.trusted(describe::tables).map_err(engine)
    }

    /// Whether the agent has a virtual table of this name. A full-text table may be called as a function; the
    /// engine refuses other kinds.
    pub(crate) fn is_virtual(&self, name: &str) -> Result<bool> {
        let name = name.to_ascii_lowercase();
        self.trusted(|conn| describe::has_virtual_table(conn, &name)).map_err(engine)
    }

    /// Peak memory of the last statement in bytes, even if it failed.
    #[cfg(test)]
    pub(crate) fn last_peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Frees caches until about `bytes` are left: first pages, which are soon read again, then prepared statements.
    /// Returns false if the schema alone needs more.
    pub(crate) fn trim_caches(&mut self, bytes: usize) -> bool {
        if handle::page_bytes(&self.conn) > bytes / 2 {
            let _ = self.conn.release_memory();
        }
        // Measuring takes a few microseconds, and the figures change slowly.
        self.trims = self.trims.wrapping_add(1);
        if self.trims % COUNT_EVERY != 1 || handle::kept_bytes(&self.conn) <= bytes / 2 {
            return true;
        }
        self.forget();
        handle::kept_bytes(&self.conn) <= bytes / 2
    }

    /// Resolves names again if the scope's own schema has changed. If true, no earlier prepared statement may run.
    ///
    /// A statement that reads only shared tables does not check the scope's schema, so it would keep reading a shared table
    /// after another process has created the scope's own table with that name.
    pub(super) fn resolve_anew(&mut self) -> rusqlite::Result<bool> {
        if self.shared == 0 {
            return Ok(false);
        }
        let version = self.schema_version();
        if version.is_some() && version == self.resolved {
            return Ok(false);
        }
        self.forget();
        // A statement that does check it makes the engine reread it.
        self.trusted(|conn| conn.prepare("SELECT 1 FROM main.sqlite_schema LIMIT 1")?.exists([]))?;
        self.resolved = version;
        Ok(true)
    }

    /// Drops every prepared statement.
    fn forget(&mut self) {
        self.conn.flush_prepared_statement_cache();
        self.seen.clear();
        self.forget_tables();
    }

    /// Runs `work` with the runtime's rights. Except in the lab, nothing written by an agent may run with them.
    #[cfg(any(test, feature = "lab"))]
    pub(crate) fn with_runtime_rights<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        let none = None::<fn(rusqlite::hooks::AuthContext<'_>) -> rusqlite::hooks::Authorization>;
        self.conn.authorizer(none).map_err(engine)?;
        settings::lift(&self.conn)?;
        let done = work(&self.conn);
        settings::configure(&self.conn, self.layers)?;
        settings::limit(&self.conn, &self.config, self.shared, self.layers)?;
        self.forget();
        self.arm().and(done)
    }
}

/// Modules whose tables need no CREATE. They are read once; anything else that a host registers for every
/// connection is removed from this one.
fn modules(conn: &Connection, layers: Layers) -> Result<Arc<BTreeSet<String>>> {
    static KEPT: OnceLock<Arc<BTreeSet<String>>> = OnceLock::new();
    if layers.config
        && let Some(known) = KEPT.get()
    {
        return Ok(Arc::clone(known));
    }
    let read = || -> rusqlite::Result<BTreeSet<String>> {
        let mut statement = conn.prepare("SELECT lower(name) FROM pragma_module_list")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let mut modules = read().map_err(engine)?;
    for known in ["fts5", "rtree", "rtree_i32"] {
        modules.remove(known);
    }
    let modules = Arc::new(modules);
    Ok(if layers.config { Arc::clone(KEPT.get_or_init(|| modules)) } else { modules })
}

fn log(place: Place<'_>, role: Role, config: &SandboxConfig, layers: Layers) -> Option<Log> {
    let (Place::File(path), Role::Writer, true) = (place, role, layers.quota) else { return None };
    let mut file = path.as_os_str().to_owned();
    file.push("-wal");
    Some(Log { file: file.into(), most_bytes: config.wal_bytes, checked: Instant::now() })
}

fn connect(place: Place<'_>, role: Role, layers: Layers) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_EXRESCODE;
    match place {
        Place::Empty => Connection::open_in_memory_with_flags(
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | flags,
        ),
        Place::ReadOnly(path, still) => return crate::file::open::raw_read_only(path, still),
        Place::File(path) if role == Role::Reader && layers.readonly => {
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | flags)
        }
        Place::File(path) => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | flags),
    }
    .map_err(engine)
}

/// Attaches the operator's files. They are read-only, since ENABLE_ATTACH_WRITE is off.
fn attach(conn: &Connection, shared: &[SharedFile]) -> Result<()> {
    for file in shared {
        let plain = file.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if file.name.is_empty() || !plain || matches!(file.name.as_str(), "main" | "temp") {
            return Err(Error::invalid("a shared database's name must be letters, digits and `_`"));
        }
        let path =
            file.path.to_str().ok_or_else(|| Error::invalid("a shared database's path is not UTF-8"))?;
        conn.execute(&format!("ATTACH ?1 AS \"{}\"", file.name), [path]).map_err(engine)?;
    }
    Ok(())
}
