//! An open file of the engine, on a thread of its own: the engine blocks, and its connections borrow the database.
//!
//! A file is open at most once in a process. The engine's lock on it keeps other processes away, but would not keep this one
//! from opening it again, and two openings would damage it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lbug::{Connection, Database, SystemConfig, Value};
use memory_core::{Error, ErrorKind, Result};
use memory_hierarchical::rows::Cells as _;
use memory_hierarchical::transfer::PrivateFolder;
use tokio::sync::{OwnedMutexGuard, oneshot};

use crate::cypher::{AGENTS, SCHEMA};
use crate::error::{ended, failed, is_locked, locked, undecided, unopened, unread_log};
use crate::files;
use crate::lock::{self, Opening};
use crate::log::{self, Records};
use crate::rows::Cells;

/// The engine's pages in memory.
const BUFFER_BYTES: u64 = 512 << 20;
/// The largest file. The engine reserves this much address space for each open one.
const MAX_FILE_BYTES: u64 = 64 << 30;
/// How long a statement may take.
const STATEMENT_MILLIS: u64 = 600_000;
/// How long to wait for another process to close the file, and how often to look.
const OPENING: (u32, Duration) = (300, Duration::from_millis(100));

/// The connections to a file: readers see nothing of a transaction of the writer's.
pub(crate) struct Connections<'db> {
    pub(crate) reader: Side<'db>,
    pub(crate) writer: Side<'db>,
    /// Whether the file has to be opened anew, as after every commit. Of pages that a checkpoint added, the next one of the same
    /// opening takes some for its own and writes them in place: ended there, by a kill or a full disk, it would leave keys in
    /// an index whose rows are nowhere. A checkpoint that failed leaves memory and file unlike each other, and each one takes
    /// addresses of [`MAX_FILE_BYTES`], about 8 MiB, for good.
    is_spent: Cell<bool>,
}

impl Connections<'_> {
    /// Commits the writer's transaction: it is kept once the engine's checkpoint is complete, of which it leaves one record.
    pub(crate) fn commit(&self) -> Result<()> {
        self.is_spent.set(true);
        self.writer.run("COMMIT", Vec::new())?;
        self.writer.run("CHECKPOINT", Vec::new()).map_err(undecided)
    }
}

/// A connection.
pub(crate) struct Side<'db> {
    connection: Connection<'db>,
    pub(crate) is_own: bool,
}

impl Side<'_> {
    /// Runs a statement and reads each row of its answer.
    pub(crate) fn rows<T>(
        &self,
        statement: &str,
        parameters: Vec<(&str, Value)>,
        mut read: impl FnMut(&mut Cells) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut prepared = self.connection.prepare(statement).map_err(|error| failed(&error))?;
        let answer = self.connection.execute(&mut prepared, parameters).map_err(|error| failed(&error))?;
        answer.map(|row| read(&mut Cells::of(row))).collect()
    }

    /// Runs a statement once for each set of parameters.
    pub(crate) fn each<'p>(
        &self,
        statement: &str,
        parameters: impl Iterator<Item = Vec<(&'p str, Value)>>,
    ) -> Result<()> {
        let mut prepared = self.connection.prepare(statement).map_err(|error| failed(&error))?;
        for some in parameters {
            self.connection.execute(&mut prepared, some).map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    pub(crate) fn run(&self, statement: &str, parameters: Vec<(&str, Value)>) -> Result<()> {
        self.each(statement, std::iter::once(parameters))
    }

    /// The labels that the file has.
    pub(crate) fn labels(&self) -> Result<Vec<String>> {
        self.rows("CALL show_tables() RETURN name", Vec::new(), |row| row.text())
    }
}

type Job = Box<dyn FnOnce(&Connections<'_>) + Send>;

/// An open file. Dropping the last of it closes the file.
pub(crate) struct Engine {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Held by the one who writes.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Slot {
    engine: tokio::sync::Mutex<Weak<Engine>>,
    /// Held by the thread until the file is closed.
    running: Arc<tokio::sync::Mutex<()>>,
}

static SLOTS: LazyLock<Mutex<HashMap<PathBuf, Arc<Slot>>>> = LazyLock::new(Mutex::default);

impl Engine {
    /// Opens a file, or joins those who have it open.
    pub(crate) async fn open(path: &Path, opening: Opening) -> Result<Arc<Self>> {
        let path = path.canonicalize().map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the agent's graph cannot be read; check its folder")
                .with_source(error)
        })?;
        let slot = {
            let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(path.clone()).or_default())
        };
        let mut known = slot.engine.lock().await;
        if let Some(engine) = known.upgrade().filter(|engine| !engine.has_ended()) {
            return Ok(engine);
        }
        // The one before may still be closing it.
        let running = Arc::clone(&slot.running).lock_owned().await;
        let engine = Arc::new(Self::start(path, opening, running).await?);
        *known = Arc::downgrade(&engine);
        Ok(engine)
    }

    async fn start(path: PathBuf, opening: Opening, running: OwnedMutexGuard<()>) -> Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let (tell, told) = oneshot::channel();
        let work = move || {
            let _running = running;
            work(&path, opening, tell, &queue);
        };
        let thread = thread::Builder::new().name("memory-ladybug".to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "no thread can be started; try again").with_source(error)
        })?;
        let engine = Self { jobs: Some(jobs), thread: Some(thread), turn: Arc::default() };
        told.await.unwrap_or_else(|_| Err(ended()))?;
        Ok(engine)
    }

    /// Whether the file could not be opened anew.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Runs work on the thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connections<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.queue(move |connections| drop(reply.send(work(connections))));
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Has work run on the thread after what is queued already.
    pub(crate) fn queue(&self, work: impl FnOnce(&Connections<'_>) + Send + 'static) {
        if let Some(jobs) = &self.jobs {
            drop(jobs.send(Box::new(work)));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // The file is whole, whatever became of the thread: commits are in the engine's log.
            drop(thread.join());
        }
    }
}

/// An open file.
struct Opened {
    database: Database,
    /// Closing it would end the engine's lock too.
    _lock: File,
    /// What is read in the place of the file.
    _copy: Option<PrivateFolder>,
}

/// Opens a file and serves it until nobody can send a job any more.
fn work(path: &Path, opening: Opening, tell: oneshot::Sender<Result<()>>, queue: &mpsc::Receiver<Job>) {
    let mut is_spent = match open(path, opening, || tell.is_closed()) {
        Ok(opened) => serve(&opened.database, opening, Some(tell), queue),
        Err(error) => return drop(tell.send(Err(error))),
    };
    while is_spent {
        // Nobody waits for this answer; whoever sends a job sees that the thread has ended.
        let Ok(opened) = open(path, opening, || false) else { return };
        is_spent = serve(&opened.database, opening, None, queue);
    }
}

fn open(path: &Path, opening: Opening, is_given_up: impl Fn() -> bool) -> Result<Opened> {
    // Before the lock, which closing the file would end.
    files::check(path, opening == Opening::Own)?;
    let (mut left, pause) = OPENING;
    loop {
        let opened = match lock::of(path, opening)? {
            Some(lock) => opened(path, opening, lock)?,
            None => None,
        };
        match opened {
            Some(opened) => return Ok(opened),
            None if left > 0 && !is_given_up() => {
                left -= 1;
                thread::sleep(pause);
            }
            None => return Err(locked()),
        }
    }
}

/// Opens a file that is locked for this process; nothing if the engine's lock is refused.
fn opened(path: &Path, opening: Opening, lock: File) -> Result<Option<Opened>> {
    log::refuse_links(path)?;
    let copy = match opening {
        Opening::Own => {
            log::mend(path, Records::Own)?;
            None
        }
        Opening::Foreign if log::is_beside(path) => Some(log::copied(path, &lock)?),
        Opening::Foreign => None,
    };
    let config = SystemConfig::default()
        .buffer_pool_size(BUFFER_BYTES)
        .max_db_size(MAX_FILE_BYTES)
        .auto_checkpoint(false)
        .read_only(opening == Opening::Foreign && copy.is_none());
    let place = copy.as_ref().map_or_else(|| path.to_owned(), |copy| copy.path().join(log::COPY));
    match Database::new(place, config) {
        Ok(database) => Ok(Some(Opened { database, _lock: lock, _copy: copy })),
        Err(error) if is_locked(&error) => Ok(None),
        Err(error) if copy.is_some() => Err(unread_log(unopened(error))),
        Err(error) => Err(unopened(error)),
    }
}

/// Whether the file has to be opened anew.
fn serve(
    database: &Database,
    opening: Opening,
    tell: Option<oneshot::Sender<Result<()>>>,
    queue: &mpsc::Receiver<Job>,
) -> bool {
    let connected = connect(database, opening);
    let (connections, told) = match connected {
        Ok(connections) => (Some(connections), Ok(())),
        Err(error) => (None, Err(error)),
    };
    let is_waited_for = tell.is_none_or(|tell| tell.send(told).is_ok());
    let Some(connections) = connections.filter(|_| is_waited_for) else { return false };
    while !connections.is_spent.get() {
        match queue.recv() {
            Ok(job) => job(&connections),
            Err(_) => return false,
        }
    }
    true
}

fn connect(database: &Database, opening: Opening) -> Result<Connections<'_>> {
    let side = || -> Result<Side<'_>> {
        let connection = Connection::new(database).map_err(|error| failed(&error))?;
        connection.set_query_timeout(STATEMENT_MILLIS);
        Ok(Side { connection, is_own: opening == Opening::Own })
    };
    let connections = Connections { reader: side()?, writer: side()?, is_spent: Cell::new(false) };
    // What is not in the file by then was never acknowledged.
    connections.writer.run("CALL force_checkpoint_on_close = false", Vec::new())?;
    let labels = connections.reader.labels()?;
    let has = |label: &str| labels.iter().any(|known| known == label);
    match opening {
        Opening::Own if has(AGENTS) => {}
        Opening::Own if labels.is_empty() => {
            connections.writer.run("BEGIN TRANSACTION", Vec::new())?;
            for statement in SCHEMA {
                connections.writer.run(statement, Vec::new())?;
            }
            connections.commit()?;
        }
        Opening::Own => return Err(no_graph()),
        Opening::Foreign => {}
    }
    Ok(connections)
}

/// The file holds other tables.
pub(crate) fn no_graph() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "the file of the graph engine holds no graph of an agent; docs/hierarchical.md lists what is read",
    )
}
