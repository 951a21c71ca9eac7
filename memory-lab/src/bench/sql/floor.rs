//! What a good programmer writes by hand: raw rusqlite on a thread of its own, called through a channel.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use memory_core::{Error, Result};
use memory_sqlite::lab::engine_bytes;
use rusqlite::{Connection, OpenFlags};

use super::work::{HANDLES, HOT, ROWS, SELECT, ScopeChoice, Work, analytic, insert};
use crate::bench::measure::Slice;

/// Calls between two reads of the clock.
const STRIDE: usize = 8;

type Job = (Work, usize, u64);

/// The thread, and the channels to and from it.
pub(super) struct Floor {
    jobs: Option<Sender<Job>>,
    answers: Receiver<std::result::Result<(), rusqlite::Error>>,
    thread: Option<std::thread::JoinHandle<()>>,
    count: u64,
}

impl Floor {
    pub(super) fn open(files: &[PathBuf]) -> Result<Self> {
        let (jobs, wanted) = channel();
        let (answer, answers) = channel();
        let files = files.to_vec();
        let thread = std::thread::Builder::new()
            .name("bench-floor".to_owned())
            .spawn(move || {
                let mut worker = Worker {
                    files,
                    open: HashMap::new(),
                    recent: VecDeque::new(),
                    analytic: analytic().into(),
                    insert: insert().into(),
                };
                while let Ok(job) = wanted.recv() {
                    if answer.send(worker.run(job)).is_err() {
                        break;
                    }
                }
            })
            .map_err(|error| super::super::machine::io("start a thread", error))?;
        Ok(Self { jobs: Some(jobs), answers, thread: Some(thread), count: 0 })
    }

    /// Repeats `work` until the slice ends; returns how often.
    pub(super) fn repeat(&mut self, work: Work, scopes: &mut ScopeChoice, slice: Slice<'_>) -> Result<u64> {
        let gone = || Error::internal("the floor's thread panicked");
        let mut done = 0;
        while slice.goes_on(done)? {
            for _ in 0..STRIDE {
                self.count += 1;
                let scope_number = if work.is_over_scopes() { scopes.next_scope(work) } else { 0 };
                let jobs = self.jobs.as_ref().ok_or_else(gone)?;
                jobs.send((work, scope_number, self.count)).map_err(|_| gone())?;
                self.answers
                    .recv()
                    .map_err(|_| gone())?
                    .map_err(|error| Error::internal("the floor's statement failed").with_source(error))?;
                done += 1;
            }
        }
        Ok(done)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    files: Vec<PathBuf>,
    /// Connections that stay open: those of frequently used scopes.
    open: HashMap<usize, Connection>,
    /// The connections opened last. They stay open as long as the product's would.
    recent: VecDeque<Connection>,
    analytic: std::sync::Arc<str>,
    insert: std::sync::Arc<str>,
}

impl Worker {
    fn run(&mut self, (work, scope_number, count): Job) -> rusqlite::Result<()> {
        let id = i64::try_from(count % ROWS as u64).unwrap_or_default();
        match work {
            Work::Analytic | Work::Insert => {
                let sql = if work == Work::Insert { &self.insert } else { &self.analytic };
                let sql = std::sync::Arc::clone(sql);
                self.open_connection(0)?.prepare(&sql).map(drop)
            }
            Work::New => {
                let sql = format!("SELECT name, score FROM people WHERE id = {id} AND {count} > 0");
                read(&mut self.open_connection(0)?.prepare(&sql)?, [])
            }
            Work::Repeated | Work::Hit | Work::Memory => {
                read(&mut *self.open_connection(scope_number)?.prepare_cached(SELECT)?, [id])
            }
            // The best that a cache of this many connections could do.
            Work::Skewed if scope_number < HOT => {
                read(&mut *self.open_connection(scope_number)?.prepare_cached(SELECT)?, [id])
            }
            Work::Miss | Work::Skewed => {
                let connection = open(self.file(scope_number)?)?;
                read(&mut connection.prepare(SELECT)?, [id])?;
                self.recent.push_back(connection);
                while self.recent.len() + self.open.len() > HANDLES {
                    drop(self.recent.pop_front());
                }
                Ok(())
            }
        }
    }

    fn file(&self, scope_number: usize) -> rusqlite::Result<&Path> {
        self.files.get(scope_number).map(PathBuf::as_path).ok_or(rusqlite::Error::InvalidQuery)
    }

    fn open_connection(&mut self, scope_number: usize) -> rusqlite::Result<&Connection> {
        if !self.open.contains_key(&scope_number) {
            let connection = open(self.file(scope_number)?)?;
            self.open.insert(scope_number, connection);
        }
        self.open.get(&scope_number).ok_or(rusqlite::Error::InvalidQuery)
    }
}

fn open(file: &Path) -> rusqlite::Result<Connection> {
    memory_sqlite::prepare_process();
    Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

/// Bytes that the engine holds per connection, after each has run a statement.
pub(super) fn memory(files: &[PathBuf], handles: usize) -> Result<f64> {
    let before = engine_bytes();
    let opened = || -> rusqlite::Result<Vec<Connection>> {
        let mut opened = Vec::new();
        for file in files.iter().take(handles) {
            let connection = open(file)?;
            read(&mut *connection.prepare_cached(SELECT)?, [1])?;
            opened.push(connection);
        }
        Ok(opened)
    };
    let opened = opened()
        .map_err(|error| Error::internal("a connection of the floor cannot be opened").with_source(error))?;
    Ok(each(engine_bytes().saturating_sub(before), opened.len()))
}

/// The total divided by the count.
#[allow(clippy::cast_precision_loss, reason = "bytes of memory and connections are far below 2^53")]
pub(super) fn each(bytes: u64, count: usize) -> f64 {
    bytes as f64 / count.max(1) as f64
}

fn read(statement: &mut rusqlite::Statement<'_>, parameters: impl rusqlite::Params) -> rusqlite::Result<()> {
    let (_, _): (String, f64) = statement.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(())
}
