//! One connection on which an agent's SQL runs.
//!
//! The agent writes what it likes; what must hold is that no statement sees or changes anything outside the scope's
//! database, and that each ends within its time, its memory and its room. The authorizer is the boundary, everything else
//! is depth: `docs/sql.md`, "Layers".

mod authorizer;
mod auxiliary;
mod callback;
mod describe;
mod entries;
mod entries_table;
mod functions;
pub(crate) mod heap;
mod hook;
#[cfg_attr(not(feature = "lab"), allow(dead_code, unreachable_pub))]
mod layers;
mod refusal;
mod remembered;
mod run;
mod runtime;
mod settings;
mod short;
mod small;
#[cfg(feature = "lab")]
mod trial;
mod value;

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use memory_core::sql::{Rows, SqlValue, TableInfo};
use memory_core::{Error, ErrorKind, Result};
use memory_validator::Mode;
use rusqlite::{Connection, OpenFlags};

pub(crate) use entries::EntrySource;
#[cfg_attr(not(feature = "lab"), allow(unreachable_pub))]
pub use layers::Layers;
pub(crate) use remembered::EntryPool;
pub(crate) use runtime::{Layout, Made};
pub(crate) use settings::{SandboxConfig, SharedFile};
#[cfg(feature = "lab")]
pub use trial::Trial;

use crate::error::engine;
pub(crate) use crate::file::Role;
use authorizer::{Phase, Watch};
use short::Short;
use small::Seen;

/// Where the database lives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// In a file that exists (an empty one becomes a database), in a folder whose path has no symbolic link in it.
    File(&'a Path),
    /// In memory: no tables, and no writes are of use.
    Empty,
}

/// Ends a statement before its deadline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// The statement is to end.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An agent's statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement<'a> {
    pub(crate) sql: &'a str,
    /// By position; texts to embed are embedded already.
    pub(crate) args: &'a [SqlValue],
    pub(crate) mode: Mode,
    pub(crate) deadline: Instant,
    /// Cap of the result, in rows.
    pub(crate) max_rows: usize,
    /// Cap of the result, in bytes.
    pub(crate) max_bytes: usize,
    /// Whether its purpose is to give room back: it gets some above the quota to do so.
    pub(crate) frees: bool,
    pub(crate) cancel: &'a Cancel,
}

/// What a statement did.
#[derive(Debug)]
pub(crate) struct Ran {
    /// `None`: the statement has no columns.
    pub(crate) rows: Option<Rows>,
    pub(crate) rows_affected: u64,
    /// Most memory that the engine held for it, in bytes.
    #[cfg_attr(not(feature = "lab"), allow(dead_code))]
    pub(crate) peak_bytes: u64,
}

/// What ends a statement from within the engine; shared with the progress handler.
#[derive(Debug, Default)]
struct Alarm {
    deadline: Option<Instant>,
    cancel: Cancel,
    /// The write-ahead log of a connection that writes.
    log: Option<Log>,
    rang: Option<Rang>,
}

/// A write-ahead log, which cannot shrink while a statement runs.
#[derive(Clone, Debug)]
struct Log {
    file: PathBuf,
    most_bytes: u64,
    looked: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rang {
    Deadline,
    Cancelled,
    LogFull,
}

/// One sandboxed connection.
pub(crate) struct Sandbox {
    conn: Connection,
    role: Role,
    layers: Layers,
    config: SandboxConfig,
    watch: Arc<Mutex<Watch>>,
    alarm: Arc<Mutex<Alarm>>,
    quota: Option<u64>,
    log: Option<Log>,
    page_bytes: Cell<Option<u64>>,
    /// `max_page_count` as it is set now.
    max_pages: u64,
    /// The schema's version, and whether the word ROLLBACK was in it then.
    rollback_words: Cell<Option<(i64, bool)>>,
    peak_bytes: u64,
    /// Statements seen once that may be kept when they come again.
    seen: HashMap<Box<str>, Seen>,
    /// What is known for running short queries that are new.
    short: Short,
    /// How often it was relaxed.
    relaxed: u8,
    /// Databases attached.
    #[cfg(any(test, feature = "lab"))]
    shared: usize,
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("role", &self.role).finish_non_exhaustive()
    }
}

/// Modules of virtual tables that an agent's schema may rest on.
const MODULES: [&str; 7] =
    ["fts5", "rtree", "rtree_i32", "json_each", "json_tree", "jsonb_each", "jsonb_tree"];
/// A connection's memory for small objects: bytes of each, and how many.
const LOOKASIDE: (i32, i32) = (512, 16);
/// Virtual machine instructions between two looks at the clock.
const STEPS: i32 = 1_000;
/// How often a log's length is looked at while a statement runs.
const LOOK_AT_LOG: Duration = Duration::from_millis(10);
/// Memory that the last statement of this process took, however it ended.
#[cfg(feature = "lab")]
pub(crate) static LAST_PEAK: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
/// Most pages of a database without quota: SQLite's own bound.
const MOST_PAGES: u64 = 4_294_967_294;
/// Of how many times that a connection is laid aside what it keeps is counted once.
const COUNT_EVERY: u8 = 16;
/// Statements that a connection keeps prepared.
const KEPT: usize = 8;
/// Longest statement that is kept prepared.
const KEPT_BYTES: usize = 4 << 10;

impl Sandbox {
    /// Opens a connection; see [`Place`]. A reader's file must be a database already.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`, as the file system and the file have it.
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
        callback::set_lookaside(&conn, LOOKASIDE.0, LOOKASIDE.1);
        conn.busy_timeout(config.busy_timeout).map_err(engine)?;
        settings::configure(&conn, layers)?;
        if let (Place::File(_), Role::Writer) = (place, role) {
            crate::file::write_ahead(&conn, config.busy_timeout)?;
        }
        settings::pragmas(&conn, config, role, layers)?;
        attach(&conn, shared)?;
        functions::register(&conn, layers)?;
        if layers.config {
            callback::keep_modules(&conn, &MODULES)?;
        }
        let alarm: Arc<Mutex<Alarm>> = Arc::default();
        if let Some(entries) = entries {
            entries_table::register(&conn, entries, Arc::clone(&alarm))?;
        }
        conn.set_prepared_statement_cache_capacity(KEPT);
        let names: BTreeSet<String> = shared.iter().map(|file| file.name.clone()).collect();
        let mut sandbox = Self {
            conn,
            role,
            layers,
            config: config.clone(),
            watch: Arc::new(Mutex::new(Watch::new(layers.authorizer, names))),
            alarm,
            quota: None,
            log: log(place, role, config, layers),
            page_bytes: Cell::new(None),
            max_pages: MOST_PAGES,
            rollback_words: Cell::new(None),
            peak_bytes: 0,
            seen: HashMap::new(),
            short: Short::default(),
            relaxed: 0,
            #[cfg(any(test, feature = "lab"))]
            shared: shared.len(),
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
        hook::install(&self.conn, &self.watch).map_err(engine)?;
        let alarm = Arc::clone(&self.alarm);
        let handler = move || lock(&alarm).rings();
        // Where there is no deadline, who gave the statement up still ends it.
        self.conn.progress_handler(STEPS, Some(handler)).map_err(engine)
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        lock(&self.watch)
    }

    /// Runs a statement of the runtime's own: its text holds nothing of an agent's.
    fn trusted<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.watch().begin(Phase::Trusted);
        let done = work(&self.conn);
        self.watch().begin(Phase::Closed);
        done
    }

    /// Begins or ends a transaction or a savepoint.
    fn bracket(&self, sql: &str) -> rusqlite::Result<()> {
        self.watch().begin(Phase::Bracketing);
        let done = self.conn.prepare_cached(sql).and_then(|mut statement| statement.execute([]).map(drop));
        self.watch().begin(Phase::Closed);
        done
    }

    fn command(&self, sql: &str) -> Result<()> {
        self.bracket(sql).map_err(engine)
    }

    /// Begins a transaction that may write, waiting for another's end until the deadline.
    ///
    /// # Errors
    /// `unavailable` where the lock was not to be had.
    pub(crate) fn begin_immediate(&mut self) -> Result<()> {
        self.command("BEGIN IMMEDIATE")
    }

    /// Begins a transaction that reads one moment.
    pub(crate) fn begin_snapshot(&mut self) -> Result<()> {
        self.command("BEGIN")
    }

    /// Commits. A deferred constraint that does not hold leaves the transaction open.
    ///
    /// # Errors
    /// `invalid_argument` with `details.constraint`; `outcome_unknown` where the disk failed in the midst of it.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.bracket("COMMIT").map_err(|error| {
            match crate::error::code(&error) {
                Some(rusqlite::ErrorCode::SystemIoFailure) => Error::new(
                    ErrorKind::OutcomeUnknown,
                    "the disk failed while the transaction was made permanent; read what it wrote to see whether it was",
                )
                .with_source(error),
                _ => refusal::statement(error, self.quota),
            }
        })
    }

    /// Rolls everything back; no-op where nothing is open.
    pub(crate) fn rollback(&mut self) -> Result<()> {
        if self.in_transaction() { self.command("ROLLBACK") } else { Ok(()) }
    }

    /// Opens a savepoint of this number.
    pub(crate) fn savepoint(&mut self, number: u32) -> Result<()> {
        self.command(&format!("SAVEPOINT mem_{number}"))
    }

    /// Ends a savepoint and keeps what it did.
    pub(crate) fn release(&mut self, number: u32) -> Result<()> {
        self.command(&format!("RELEASE mem_{number}"))
    }

    /// Undoes what was done since the savepoint, which stays open.
    pub(crate) fn rollback_to(&mut self, number: u32) -> Result<()> {
        self.command(&format!("ROLLBACK TO mem_{number}"))
    }

    /// Whether a transaction is open, as the engine has it.
    pub(crate) fn in_transaction(&self) -> bool {
        !self.conn.is_autocommit()
    }

    /// Sets how many bytes the database may hold; `None`: any number. What it holds already stays.
    pub(crate) fn set_quota(&mut self, bytes: Option<u64>) {
        self.quota = bytes;
    }

    /// Bytes of the pages in use.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    pub(crate) fn usage(&self) -> Result<u64> {
        let free = self.count("PRAGMA freelist_count")?.saturating_mul(self.page_bytes()?);
        Ok(self.file_bytes()?.saturating_sub(free))
    }

    /// The bytes of the database, free pages included.
    fn file_bytes(&self) -> Result<u64> {
        Ok(self.count("PRAGMA page_count")?.saturating_mul(self.page_bytes()?))
    }

    fn page_bytes(&self) -> Result<u64> {
        if let Some(known) = self.page_bytes.get() {
            return Ok(known);
        }
        let bytes = self.count("PRAGMA page_size")?;
        self.page_bytes.set(Some(bytes));
        Ok(bytes)
    }

    fn count(&self, pragma: &str) -> Result<u64> {
        let count = self
            .trusted(|conn| conn.prepare_cached(pragma)?.query_row([], |row| row.get::<_, i64>(0)))
            .map_err(engine)?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// The agent's own tables and views: none of the engine's, of a virtual table's, or of the runtime's.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    pub(crate) fn tables(&self) -> Result<Vec<TableInfo>> {
        self.trusted(describe::tables).map_err(engine)
    }

    /// Whether the agent has a virtual table so called. A full-text one may be called as a function; the engine refuses the
    /// others.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    pub(crate) fn is_virtual(&self, name: &str) -> Result<bool> {
        let name = name.to_ascii_lowercase();
        self.trusted(|conn| describe::has_virtual_table(conn, &name)).map_err(engine)
    }

    /// Most memory that the engine held for the last statement, also where it failed; in bytes.
    #[cfg(test)]
    pub(crate) fn last_peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Gives back what is only kept to be faster the next time, until about so many bytes are left: first pages, which are
    /// soon read again, then statements. False: what is left is more, the schema.
    pub(crate) fn relax(&mut self, bytes: usize) -> bool {
        if callback::page_bytes(&self.conn) > bytes / 2 {
            let _ = self.conn.release_memory();
        }
        // These take some microseconds to count, and change slowly.
        self.relaxed = self.relaxed.wrapping_add(1);
        if self.relaxed % COUNT_EVERY != 1 || callback::kept_bytes(&self.conn) <= bytes / 2 {
            return true;
        }
        self.forget();
        callback::kept_bytes(&self.conn) <= bytes / 2
    }

    /// Forgets every statement.
    fn forget(&mut self) {
        self.conn.flush_prepared_statement_cache();
        self.seen.clear();
        self.forget_tables();
    }

    /// Works with the runtime's rights: nothing that an agent wrote may be run so, save by the lab.
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

impl Alarm {
    fn rings(&mut self) -> bool {
        let now = Instant::now();
        if self.cancel.is_cancelled() {
            self.rang.get_or_insert(Rang::Cancelled);
        } else if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.rang.get_or_insert(Rang::Deadline);
        } else if self.log.as_mut().is_some_and(|log| log.is_full(now)) {
            self.rang.get_or_insert(Rang::LogFull);
        }
        self.rang.is_some()
    }
}

impl Log {
    fn is_full(&mut self, now: Instant) -> bool {
        if now.saturating_duration_since(self.looked) < LOOK_AT_LOG {
            return false;
        }
        self.looked = now;
        std::fs::metadata(&self.file).is_ok_and(|found| found.len() > self.most_bytes)
    }
}

/// Modules whose tables nobody has to make. They are asked for once: whatever else a host registers for every connection
/// is taken away again from this one.
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
    Some(Log { file: file.into(), most_bytes: config.wal_bytes, looked: Instant::now() })
}

fn connect(place: Place<'_>, role: Role, layers: Layers) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_EXRESCODE;
    match place {
        Place::Empty => Connection::open_in_memory_with_flags(
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | flags,
        ),
        Place::File(path) if role == Role::Reader && layers.readonly => {
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | flags)
        }
        Place::File(path) => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | flags),
    }
    .map_err(engine)
}

/// Attaches the operator's files. Attached databases are read-only: the switch for writing them is off.
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
