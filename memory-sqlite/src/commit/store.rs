//! An open database: its connections, its queues, and the threads that serve them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use memory_core::access::AccessCounts;
use memory_core::{Clock, Error, Result, ScopeDigest};
use rusqlite::Connection;

use super::background::Signal;
use super::batch::Context;
use super::checkpoint::{self, Checkpointer};
use super::feed::{Follower, TextChange, VectorChange};
use super::readers::{Readers, Step, WorkerConnection, Workers};
use super::uses::{Recorded, Uses};
use super::writer::Writer;
use crate::config::SqliteConfig;
use crate::error::{Unreadable, closed, engine, overloaded};
use crate::file::location::{self, FileId, Location};
use crate::file::open::{self, OPENING, Role};
use crate::file::schema;
use crate::file::watch::Watch;

/// An open database.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: SqliteConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Readers,
    pub(crate) workers: Workers,
    pub(crate) accesses: Arc<AccessCounts>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) watch: Arc<Watch>,
    pub(crate) uses: Uses,
    location: Location,
    file_id: Option<FileId>,
    exports: AtomicUsize,
    closed: AtomicBool,
    /// Whether it was logged that entries were embedded by a model other than the current one.
    pub(crate) told_stale: AtomicBool,
    /// One erasure at a time.
    pub(crate) erasing: Mutex<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Opens the database at this path, or one in memory, and starts the threads that read and write. Committed changes
    /// are published to `texts` and `vectors`. `reads` means that this process may not write the file. The caller runs
    /// the checkpointer on a separate thread; a database in memory or opened for reading has none.
    pub(crate) fn open(
        path: Option<&Path>,
        reads: bool,
        config: SqliteConfig,
        clock: Arc<dyn Clock>,
        texts: Arc<dyn Follower<TextChange>>,
        vectors: Arc<dyn Follower<VectorChange>>,
    ) -> Result<(Arc<Self>, Option<Checkpointer>)> {
        let opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let location = match path {
            Some(path) if reads => location::read_only(path)?,
            Some(path) => Location::File(location::prepare(path)?),
            None => Location::Memory,
        };
        let connection = open::open(&location, &config)?;
        drop(opening);
        let accesses = Arc::new(AccessCounts::new(config.access_entries));
        let signal = Arc::new(Signal::new(config.checkpoint_pages));
        let file_id = match &location {
            Location::Memory => None,
            Location::File(path) | Location::ReadOnly(path, _) => FileId::of(path),
        };
        let watch = Arc::new(Watch::new(&connection, location.path().map(Path::to_path_buf).zip(file_id))?);
        let uses = Uses::new(&config, schema::tracked_since(&connection, clock.now())?);
        let context = Context {
            clock: Arc::clone(&clock),
            config: config.clone(),
            texts,
            vectors,
            accesses: Arc::clone(&accesses),
            signal: Arc::clone(&signal),
            watch: Arc::clone(&watch),
        };
        let in_memory = matches!(location, Location::Memory);
        let writer = Arc::new(Writer::new(connection, in_memory, context)?);

        let mut workers = Vec::new();
        let mut checkpointer = None;
        let readers = match &location {
            Location::Memory => {
                workers.extend((0..config.workers).map(|_| WorkerConnection::Shared(Arc::clone(&writer))));
                Readers::Shared(Arc::clone(&writer))
            }
            Location::File(path) | Location::ReadOnly(path, _) => {
                let mut pool = Vec::new();
                for _ in 0..config.readers {
                    let reader = open::connect(&location, path, file_id, &config, Role::Reader)?;
                    // A caller's thread does not wait for locks; a worker does.
                    reader.busy_timeout(Duration::ZERO).map_err(engine)?;
                    pool.push(reader);
                }
                for _ in 0..config.workers {
                    workers.push(WorkerConnection::Own(open::connect(
                        &location,
                        path,
                        file_id,
                        &config,
                        Role::Reader,
                    )?));
                }
                if !reads {
                    let connection = open::connect(&location, path, file_id, &config, Role::Writer)?;
                    checkpointer = Some(Checkpointer::new(connection, path, config.checkpoint_pages));
                }
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
            signal,
            watch,
            uses,
            location,
            file_id,
            exports: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            told_stale: AtomicBool::new(false),
            erasing: Mutex::new(()),
            threads: Mutex::default(),
        });
        let started = store.start(workers);
        if started.is_err() {
            store.close();
        }
        started.map(|()| (store, checkpointer))
    }

    fn start(self: &Arc<Self>, workers: Vec<WorkerConnection>) -> Result<()> {
        self.spawn("writer", |store| store.writer.work())?;
        for connection in workers {
            self.spawn("reader", move |store| store.workers.work(&connection))?;
        }
        Ok(())
    }

    /// Starts a thread that [`close`](Self::close) waits for.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&Self) + Send + 'static,
    ) -> Result<()> {
        let store = Arc::clone(self);
        let thread = std::thread::Builder::new()
            .name(format!("memory-sqlite-{name}"))
            .spawn(move || work(&store))
            .map_err(|error| {
                Error::unavailable("no thread can be started for the database").with_source(error)
            })?;
        self.threads().push(thread);
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether writes to a run that ended at this time are still refused.
    pub(crate) fn fences(&self, ended: i64) -> bool {
        let fence = i64::try_from(self.config.run_fence_ms).unwrap_or(i64::MAX);
        fence > 0 && ended.saturating_add(fence) > self.clock.now().as_millis()
    }

    /// Path of the database; `None` for one in memory.
    pub(crate) fn database(&self) -> Option<&Path> {
        self.location.path()
    }

    /// Another reading connection; `None` for a database in memory, which has only one.
    ///
    /// # Errors
    /// `unavailable`, including when another file has taken the database's name.
    pub(crate) fn connect(&self) -> Result<Option<Connection>> {
        self.connect_as(Role::Reader)
    }

    /// As [`connect`](Self::connect), with this role.
    pub(crate) fn connect_as(&self, role: Role) -> Result<Option<Connection>> {
        let connect = |path| open::connect(&self.location, path, self.file_id, &self.config, role);
        self.database().map(connect).transpose()
    }

    /// Whether the file was renamed or deleted, so that writes are lost when this process ends.
    pub(crate) fn is_displaced(&self) -> bool {
        self.watch.is_displaced()
    }

    /// Whether the database is a file, which can be read while it is written.
    pub(crate) fn is_file(&self) -> bool {
        !matches!(self.location, Location::Memory)
    }

    /// Whether this process may not write the file.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.location, Location::ReadOnly(..))
    }

    /// If the file is read without locks, checks that it did not change while it was read.
    ///
    /// # Errors
    /// As [`Still::check`](location::Still::check).
    pub(crate) fn check_read(&self) -> Result<()> {
        self.location.check()
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

    /// Reads on this thread; `None` if it needs a worker.
    pub(crate) fn inline<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<Step<T>, Unreadable>,
    ) -> Result<Option<T>> {
        if self.is_closed() {
            return Err(closed());
        }
        match self.readers.inline(read) {
            Some(Ok(Step::Done(value))) => self.check_read().map(|()| Some(value)),
            Some(Ok(Step::TooMuch)) | None => Ok(None),
            Some(Err(error)) => Err(error),
        }
    }

    /// Reads on a worker, after [`inline`](Self::inline) returned `None`.
    pub(crate) async fn worker<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<Step<T>, Unreadable> + Send + 'static,
    {
        match self.read_on_worker(read).await? {
            Step::Done(value) => Ok(value),
            Step::TooMuch => Err(Error::internal("a read without limits reached a limit")),
        }
    }

    /// Reads on this thread if a connection is free, else on a worker.
    pub(crate) async fn read<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Unreadable> + Send + 'static,
    {
        match self.inline(|connection| read(connection).map(Step::Done))? {
            Some(value) => Ok(value),
            None => self.read_on_worker(read).await,
        }
    }

    /// Reads on a worker.
    pub(crate) async fn read_on_worker<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Unreadable> + Send + 'static,
    {
        let value = self.workers.run(move |connection| read(connection).map_err(Error::from)).await?;
        self.check_read().map(|()| value)
    }

    /// Records a use in memory; false if it must be written now.
    pub(crate) fn record_use(&self, digest: &ScopeDigest) -> bool {
        match self.uses.note(digest, self.clock.now().as_millis()) {
            Recorded::Held => true,
            Recorded::FlushDue => {
                self.signal.accesses();
                true
            }
            Recorded::MustWrite => false,
        }
    }

    /// Refuses all calls from now on.
    pub(crate) fn refuse(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Ends the threads. Queued writes still run; later ones are refused.
    pub(crate) fn close(&self) {
        self.refuse();
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
            // SQLite does not empty the log in this case, and would apply it to the file that took the database's place.
            match checkpoint::empty(&self.writer.connection("emptying the log"), Duration::ZERO) {
                Ok(log) if !log.busy => {}
                _ => tracing::warn!(
                    "the database file was moved, deleted or replaced, and its log could not be put into it: remove the \
                     log's file before another takes the database's name"
                ),
            }
        }
    }
}
