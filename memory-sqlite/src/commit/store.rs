//! An open database: its connections, its queues, and the threads that serve them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use memory_core::access::AccessCounts;
use memory_core::{Clock, Error, ErrorKind, Result, ScopeDigest};
use rusqlite::Connection;

use super::background::Signal;
use super::batch::Context;
use super::checkpoint::{self, Checkpointer};
use super::feed::{Follower, TextChange, VectorChange};
use super::readers::{Desk, Readers, Step, Workers};
use super::uses::{Noted, Uses};
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
    /// One erasure at a time.
    pub(crate) erasing: Mutex<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Store {
    /// Opens the database of this path, or one in memory, and starts the threads that read and write. Committed changes
    /// are told to `texts` and `vectors`. The checkpointer is for a thread that the caller starts; a database in memory
    /// has none.
    pub(crate) fn open(
        path: Option<&Path>,
        config: SqliteConfig,
        clock: Arc<dyn Clock>,
        texts: Arc<dyn Follower<TextChange>>,
        vectors: Arc<dyn Follower<VectorChange>>,
    ) -> Result<(Arc<Self>, Option<Checkpointer>)> {
        let opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let location = match path {
            Some(path) => Location::File(location::prepare(path)?),
            None => Location::Memory,
        };
        let connection = open::open(&location, &config)?;
        drop(opening);
        let accesses = Arc::new(AccessCounts::new(config.access_entries));
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
            texts,
            vectors,
            accesses: Arc::clone(&accesses),
            signal: Arc::clone(&signal),
            watch: Arc::clone(&watch),
        };
        let in_memory = matches!(location, Location::Memory);
        let writer = Arc::new(Writer::new(connection, in_memory, context)?);

        let mut desks = Vec::new();
        let mut checkpointer = None;
        let readers = match &location {
            Location::Memory => {
                desks.extend((0..config.workers).map(|_| Desk::Shared(Arc::clone(&writer))));
                Readers::Shared(Arc::clone(&writer))
            }
            Location::File(path) => {
                let mut pool = Vec::new();
                for _ in 0..config.readers {
                    let reader = open::connect(path, file_id, &config, Role::Reader)?;
                    // A caller's thread does not wait for locks; a worker does.
                    reader.busy_timeout(Duration::ZERO).map_err(engine)?;
                    pool.push(reader);
                }
                for _ in 0..config.workers {
                    desks.push(Desk::Own(open::connect(path, file_id, &config, Role::Reader)?));
                }
                let connection = open::connect(path, file_id, &config, Role::Writer)?;
                checkpointer = Some(Checkpointer::new(connection, path, config.checkpoint_pages));
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
            erasing: Mutex::new(()),
            threads: Mutex::default(),
        });
        let started = store.start(desks);
        if started.is_err() {
            store.close();
        }
        started.map(|()| (store, checkpointer))
    }

    fn start(self: &Arc<Self>, desks: Vec<Desk>) -> Result<()> {
        self.spawn("writer", |store| store.writer.work())?;
        for desk in desks {
            self.spawn("reader", move |store| store.workers.work(&desk))?;
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
                Error::new(ErrorKind::Unavailable, "no thread can be started for the database")
                    .with_source(error)
            })?;
        self.threads().push(thread);
        Ok(())
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the fence of a run that ended then still stands.
    pub(crate) fn fences(&self, ended: i64) -> bool {
        let fence = i64::try_from(self.config.run_fence_ms).unwrap_or(i64::MAX);
        fence > 0 && ended.saturating_add(fence) > self.clock.now().as_millis()
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
        let connect = |path| open::connect(path, self.file_id, &self.config, role);
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

    /// Reads on this thread; `None`: it takes a worker.
    pub(crate) fn inline<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<Step<T>, Unreadable>,
    ) -> Result<Option<T>> {
        if self.is_closed() {
            return Err(closed());
        }
        match self.readers.inline(read) {
            Some(Ok(Step::Done(value))) => Ok(Some(value)),
            Some(Ok(Step::TooMuch)) | None => Ok(None),
            Some(Err(error)) => Err(error),
        }
    }

    /// Reads on a worker what [`inline`](Self::inline) could not.
    pub(crate) async fn worker<T, F>(&self, read: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<Step<T>, Unreadable> + Send + 'static,
    {
        match self.read_on_worker(read).await? {
            Step::Done(value) => Ok(value),
            Step::TooMuch => Err(Error::internal("a read without limits met one")),
        }
    }

    /// Reads on this thread where a connection is free, else on a worker.
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
        self.workers.run(move |connection| read(connection).map_err(Error::from)).await
    }

    /// Notes a use where that needs nothing written now.
    pub(crate) fn noted(&self, digest: &ScopeDigest) -> bool {
        match self.uses.note(digest, self.clock.now().as_millis()) {
            Noted::Done => true,
            Noted::Full => {
                self.signal.accesses();
                true
            }
            Noted::Ask => false,
        }
    }

    /// Refuses what comes from now on.
    pub(crate) fn refuse(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Ends the threads. Writes that wait are still done; what comes later is refused.
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
            // SQLite leaves the log as it is then, and whoever opens the file in place next would put it into that.
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
