//! Imports a scope in one transaction, whatever its size.
//!
//! The transaction runs on the writer's thread, which receives the records through a channel; other writers wait
//! meanwhile. Permits limit how far the stream is read ahead.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use memory_core::{Atomicity, Error, ImportOptions, ImportOutcome, Key, Record, RecordStream, Result};
use rusqlite::ffi;
use tokio::sync::Semaphore;

use super::import_step::{import_step, next_step};
use crate::commit::batch::Batch;
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::error::{Fault, malformed};
use crate::kv::write;

/// Steps read ahead of the transaction.
const AHEAD: usize = 2;

/// An item of the channel.
enum Item {
    /// Records, and the number of the first.
    Step(u64, Vec<Record>),
    End,
    Failed(Error),
}

/// The transaction's input, and where it reports why it was abandoned.
struct Job {
    given: Receiver<Item>,
    room: Arc<Semaphore>,
    refused: Arc<Mutex<Option<Error>>>,
    patience: Duration,
}

/// Imports a stream completely or not at all (EXP-12, EXP-13, EXP-15).
pub(super) async fn import(
    store: &Store,
    target: Target,
    mut records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    // So that a stream that fails at once makes no writer wait.
    let (first, _, end) = next_step(&mut records).await;
    let end = match end {
        Some(Some(error)) if first.is_empty() => return Err(numbered(error, 0)),
        end => end,
    };
    let (sender, given) = channel();
    let room = Arc::new(Semaphore::new(AHEAD));
    let refused = Arc::new(Mutex::new(None));
    let job = Job {
        given,
        room: Arc::clone(&room),
        refused: Arc::clone(&refused),
        patience: Duration::from_millis(store.config.export_idle_ms),
    };
    let mut stored =
        pin!(store.writer.submit(Cost::alone(), move |batch| run(batch, &target, &job, options)));
    let mut fed = pin!(feed(&sender, &room, first, end, &mut records));
    let mut is_fed = false;
    let done = poll_fn(|context| {
        if !is_fed && fed.as_mut().poll(context).is_ready() {
            is_fed = true;
        }
        match stored.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    match refused.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error),
        None => done,
    }
}

/// Sends the stream until its end, or until the receiver is gone.
async fn feed(
    sender: &Sender<Item>,
    room: &Semaphore,
    first: Vec<Record>,
    end: Option<Option<Error>>,
    records: &mut RecordStream,
) {
    let mut index = 0;
    let (mut step, mut end) = (first, end);
    loop {
        let count = step.len() as u64;
        let Ok(permit) = room.acquire().await else { return };
        permit.forget();
        if sender.send(Item::Step(index, step)).is_err() {
            return;
        }
        index += count;
        if let Some(end) = end {
            let _ = sender.send(match end {
                None => Item::End,
                Some(error) => Item::Failed(numbered(error, index)),
            });
            return;
        }
        let (next, _, next_end) = next_step(records).await;
        (step, end) = (next, next_end);
    }
}

fn numbered(error: Error, index: u64) -> Error {
    if error.details().contains_key("index") { error } else { error.with_detail("index", index) }
}

/// The transaction. If it refuses something, that is recorded and everything rolled back.
fn run(
    batch: &mut Batch<'_>,
    target: &Target,
    job: &Job,
    options: ImportOptions,
) -> Result<ImportOutcome, Fault> {
    match take(batch, target, job, options) {
        Err(Fault::Refused(error)) => {
            *job.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            Err(Fault::Engine(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ABORT), None)))
        }
        done => done,
    }
}

fn take(
    batch: &mut Batch<'_>,
    target: &Target,
    job: &Job,
    options: ImportOptions,
) -> Result<ImportOutcome, Fault> {
    if options.atomicity == Atomicity::Replacement {
        write::empty(batch, target, true)?;
    }
    let mut named = (options.atomicity == Atomicity::Mirror).then(HashSet::new);
    let mut outcome = ImportOutcome::default();
    loop {
        match job.given.recv_timeout(job.patience) {
            Ok(Item::Step(first, records)) => {
                if let Some(named) = &mut named {
                    let now = batch.now();
                    let live =
                        records.iter().map(|record| &record.entry).filter(|entry| !entry.is_expired(now));
                    named.extend(live.map(|entry| entry.key.as_str().to_owned()));
                }
                let stored = import_step(batch, target, &records, options)?;
                if let Some((at, error)) = stored.refused {
                    return Err(Fault::Refused(error.with_detail("index", first + at)));
                }
                outcome.add(stored.outcome);
                job.room.add_permits(1);
            }
            Ok(Item::End) => {
                if let Some(named) = &named {
                    remove_others(batch, target, named)?;
                }
                return Ok(outcome);
            }
            Ok(Item::Failed(error)) => return Err(Fault::Refused(error)),
            Err(RecvTimeoutError::Timeout) => {
                return Err(Fault::Refused(Error::timeout(
                    "the import was abandoned, and nothing of it is stored: its next record did not arrive in time",
                )));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Fault::Refused(Error::unavailable(
                    "the import was abandoned, and nothing of it is stored",
                )));
            }
        }
    }
}

/// Removes every entry whose key is not among these.
fn remove_others(batch: &mut Batch<'_>, target: &Target, named: &HashSet<String>) -> Result<(), Fault> {
    let mut space = batch.space(&target.digest)?;
    let mut others = Vec::new();
    {
        let mut statement = batch.statement("SELECT key FROM entry WHERE space = ?1")?;
        let mut rows = statement.query([space.id])?;
        while let Some(row) = rows.next()? {
            let key: String = row.get(0)?;
            if !named.contains(&key) {
                others.push(Key::new(key).map_err(|_| malformed("key"))?);
            }
        }
    }
    let now = batch.now();
    for key in &others {
        // Removing an expired entry is invisible.
        if let Some(old) = batch.old(&space, key)?.filter(|old| old.is_live(now)) {
            batch.remove(target, &mut space, key, &old)?;
        }
    }
    batch.keep(&target.digest, space);
    Ok(())
}
