//! One open database and its threads.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use memory_core::{Clock, Error, ErrorKind, Result};
use rusqlite::Connection;

use crate::background::{Schedule, Signal};
use crate::batch::Context;
use crate::checkpoint::{self, Checkpointer};
use crate::config::SqliteConfig;
use crate::drift::Watch;
use crate::error::{engine, overloaded};
use crate::file::{self, FileId, Location, Role};
use crate::leave;
use crate::readers::{Desk, Readers, Workers};
use crate::schema;
use crate::search::cache::IndexCache;
use crate::sweep;
use crate::uses::{self, Uses};
use crate::vector::cache::MatrixCache;
use crate::writer::{Cost, Writer};
use memory_core::access::AccessCounts;

/// One file is judged, created and brought to the write-ahead log at a time. Judging closes a descriptor of the file, and
/// with it the system takes every lock of this process on it: another handle could be creating the same file. Once the
/// log is in use, SQLite relies on the locks of its index, which nobody else opens.
pub(crate) static OPENING: Mutex<()> = Mutex::new(());

/// An open database.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: SqliteConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Readers,
    pub(crate) workers: Workers,
    pub(crate) accesses: Arc<AccessCounts>,
    pub(crate) indexes: Arc<IndexCache>,
    pub(crate) matrices: Arc<MatrixCache>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) uses: Uses,
    location: Location,
    file_id: Option<FileId>,
    exports: AtomicUsize,
    closed: AtomicBool,
    /// One write of access counts, or sweep, at a time.
    flushing: Mutex<()>,
    /// One erasure at a time.
    pub(crate) erasing: Mutex<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    pub(crate) fn open(
        path: Option<&Path>,
        config: SqliteConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>> {
        config.check()?;
        crate::sandbox::heap::install();
        let opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let location = match path {
            Some(path) => Location::File(file::prepare(path)?),
            None => Location::Memory,
        };
        let connection = file::open(&location, &config)?;
        drop(opening);
        let accesses = Arc::new(AccessCounts::new(config.access_entries));
        let indexes = Arc::new(IndexCache::new(config.search_index_bytes));
        let matrices = Arc::new(MatrixCache::new(config.vector_index_bytes));
        let signal = Arc::new(Signal::new(config.checkpoint_pages));
        let file_id = match &location {
            Location::Memory => None,
            Location::File(path) => FileId::of(path),
        };
        let watch = Arc::new(Watch::new(&connection, location.path().map(Path::to_path_buf).zip(file_id))?);
        let uses = Uses::new(&config, schema::tracked_since(&connection, clock.now())?);
        let context = Context {
            clock: Arc::clone(&clock),
            config: config.clone(),
            indexes: Arc::clone(&indexes),
            matrices: Arc::clone(&matrices),
            accesses: Arc::clone(&accesses),
            signal: Arc::clone(&signal),
            watch: Arc::clone(&watch),
        };
        let in_memory = matches!(location, Location::Memory);
        let writer = Arc::new(Writer::new(connection, in_memory, context)?);

        let mut desks = Vec::new();
        let mut background = None;
        let readers = match &location {
            Location::Memory => {
                desks.extend((0..config.workers).map(|_| Desk::Shared(Arc::clone(&writer))));
                Readers::Shared(Arc::clone(&writer))
            }
            Location::File(path) => {
                let mut pool = Vec::new();
                for _ in 0..config.readers {
                    let reader = file::connect(path, file_id, &config, Role::Reader)?;
                    // A caller's thread does not wait for locks; a worker does.
                    reader.busy_timeout(Duration::ZERO).map_err(engine)?;
                    pool.push(reader);
                }
                for _ in 0..config.workers {
                    desks.push(Desk::Own(file::connect(path, file_id, &config, Role::Reader)?));
                }
                let connection = file::connect(path, file_id, &config, Role::Writer)?;
                background = Some(Checkpointer::new(connection, path, config.checkpoint_pages));
                Readers::Pool(Mutex::new(pool))
            }
        };
        let store = Arc::new(Self {
            config,
            clock,
            writer,
            readers,
            workers: Workers::new(),
            accesses,
            indexes,
            matrices,
            signal,
            watch,
            uses,
            location,
            file_id,
            exports: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            flushing: Mutex::new(()),
            erasing: Mutex::new(()),
            threads: Mutex::default(),
        });
        let started = store.start(desks, background);
        if started.is_err() {
            store.close();
        }
        started.map(|()| store)
    }

    fn start(self: &Arc<Self>, desks: Vec<Desk>, mut background: Option<Checkpointer>) -> Result<()> {
        self.spawn("writer", |store| store.writer.work())?;
        for desk in desks {
            self.spawn("reader", move |store| store.workers.work(&desk))?;
        }
        self.spawn("background", move |store| store.look_after(background.as_mut()))
    }

    fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce(&Self) + Send + 'static) -> Result<()> {
        let store = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(format!("memory-sqlite-{name}"))
            .spawn(move || work(&store))
            .map_err(|error| {
                Error::new(ErrorKind::Unavailable, "no thread can be started for the database")
                    .with_source(error)
            })?;
        self.threads().push(thread);
        Ok(())
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The background thread.
    fn look_after(&self, mut checkpointer: Option<&mut Checkpointer>) {
        let mut schedule = Schedule::new(&self.config);
        let report = |what: &'static str, done: Result<()>| {
            // What is cut short by closing is done by whoever opens the database next.
            if let Err(error) = done
                && !self.is_closed()
            {
                tracing::warn!(%error, what, "background work failed and will be tried again");
            }
        };
        loop {
            let due = self.signal.wait(&mut schedule);
            if due.closed {
                return;
            }
            if let (true, Some(checkpointer)) = (due.checkpoint, &mut checkpointer) {
                let done = match self.is_displaced() {
                    true => checkpointer.empty(&self.writer),
                    false => checkpointer.run(&self.writer),
                };
                report("checkpoint", done.map_err(engine));
            }
            if due.accesses {
                report("writing access counts", self.flush());
            }
            if due.sweep {
                report("reclaiming expired entries", self.sweep().map(drop));
            } else if due.garbage {
                report("reclaiming dropped scopes", self.reclaim());
            }
        }
    }

    /// Writes the access counts held.
    pub(crate) fn flush(&self) -> Result<()> {
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        sweep::accesses(&self.writer, &self.accesses).and(uses::flush(&self.writer, &self.uses))
    }

    /// Reclaims what has expired and what was dropped. Returns how many expired entries there were.
    pub(crate) fn sweep(&self) -> Result<u64> {
        let now = self.clock.now();
        let targets = match self.connect()? {
            Some(connection) => sweep::targets(&connection, now)?,
            None => {
                let connection = self.writer.connection();
                let targets = sweep::targets(&connection, now);
                self.writer.release(connection);
                targets?
            }
        };
        let removed = sweep::expired(&self.writer, targets, now)?;
        self.fences_over()?;
        self.reclaim()?;
        Ok(removed)
    }

    /// Forgets runs whose fence is over. How many.
    pub(crate) fn fences_over(&self) -> Result<u64> {
        let mut all = 0;
        loop {
            let gone = self.writer.submit_blocking(Cost::slow(0), leave::fences)?;
            all += gone;
            if gone == 0 {
                return Ok(all);
            }
        }
    }

    /// Whether the fence of a run that ended then still stands.
    pub(crate) fn fences(&self, ended: i64) -> bool {
        let fence = i64::try_from(self.config.run_fence_ms).unwrap_or(i64::MAX);
        fence > 0 && ended.saturating_add(fence) > self.clock.now().as_millis()
    }

    fn reclaim(&self) -> Result<()> {
        sweep::garbage(&self.writer)?;
        sweep::vacuum(&self.writer, sweep::KEPT_PAGES)
    }

    /// GC-12, but for what other files hold.
    pub(crate) fn reclaim_all(&self) -> Result<memory_core::Reclaimed> {
        let pages = || {
            self.writer.submit_blocking(Cost::slow(0), |batch| {
                let number = |sql: &str| batch.connection().query_row(sql, [], |row| row.get::<_, i64>(0));
                Ok(number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?))
            })
        };
        let before = pages()?;
        let mut reclaimed = memory_core::Reclaimed::default();
        reclaimed.fences = self.fences_over()?;
        reclaimed.expired = self.sweep()?;
        reclaimed.vectors = sweep::dead_vectors(&self.writer)?;
        sweep::vacuum(&self.writer, 0)?;
        reclaimed.bytes = u64::try_from(before.saturating_sub(pages()?)).unwrap_or_default();
        self.signal.checkpoint();
        Ok(reclaimed)
    }

    /// The database's file; `None` for one in memory.
    pub(crate) fn database(&self) -> Option<&Path> {
        self.location.path()
    }

    /// One more connection for reading; `None` for a database in memory, which has but one.
    ///
    /// # Errors
    /// `unavailable` also where another file took the name.
    pub(crate) fn connect(&self) -> Result<Option<Connection>> {
        self.connect_as(Role::Reader)
    }

    /// As [`connect`](Self::connect), for this role.
    pub(crate) fn connect_as(&self, role: Role) -> Result<Option<Connection>> {
        let connect = |path| file::connect(path, self.file_id, &self.config, role);
        self.database().map(connect).transpose()
    }

    /// Whether the file has another name now, or none, so that what is written is lost with this process.
    pub(crate) fn is_displaced(&self) -> bool {
        self.watch.is_displaced()
    }

    /// Whether there is a file, of which others may read while one writes.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.location, Location::File(_))
    }

    pub(crate) fn export_begins(&self) -> Result<()> {
        let begun = self.exports.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |under_way| {
            (under_way < self.config.exports).then_some(under_way + 1)
        });
        begun.map(drop).map_err(|_| overloaded("exports"))
    }

    pub(crate) fn export_ended(&self) {
        self.exports.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Writes what is held, ends the threads. What comes later is refused.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "access counts were lost as the database closed");
        }
        self.signal.close();
        self.writer.close();
        self.workers.close();
        let threads = std::mem::take(&mut *self.threads());
        let this = std::thread::current().id();
        for thread in threads {
            if thread.thread().id() != this && thread.join().is_err() {
                tracing::error!("a thread of the database panicked");
            }
        }
        if self.is_displaced() {
            // SQLite leaves the log as it is then, and whoever opens the file in place next would put it into that.
            match checkpoint::empty(&self.writer.connection(), Duration::ZERO) {
                Ok(log) if !log.busy => {}
                _ => tracing::warn!(
                    "the database file was moved, deleted or replaced, and its log could not be put into it: remove the \
                     log's file before another takes the database's name"
                ),
            }
        }
    }
}
