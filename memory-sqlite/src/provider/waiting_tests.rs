//! Writes that wait for each other, and what a stuck store reports.

use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use memory_core::{Clock, HealthStatus, Provider as _, Timestamp};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::SqliteProvider;
use crate::commit::threads::wait_for;
use crate::commit::writer::Cost;
use crate::{Durability, SqliteConfig};

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000).unwrap()
    }
}

fn open(path: &Path) -> SqliteProvider {
    let config =
        SqliteConfig { sweep_interval_ms: 0, access_flush_ms: 86_400_000, ..SqliteConfig::default() };
    SqliteProvider::open(path, config, Arc::new(Still)).unwrap()
}

fn ago(seconds: u64) -> Instant {
    Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
}

fn health(provider: &SqliteProvider) -> (HealthStatus, String) {
    let health = wait_for(provider.health()).unwrap();
    (health.status, health.message)
}

/// Collects the warnings of its thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                self.0.push_str(&format!("{}={value:?} ", field.name()));
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_store_that_is_stuck_says_what_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let provider = open(&folder.path().join("memory.db"));
    assert_eq!(health(&provider).0, HealthStatus::Ok);
    let writer = &provider.store.writer;
    let warnings = Warnings::default();

    let short = writer.busy().since("rebuilding the file", ago(5));
    assert_eq!(health(&provider).0, HealthStatus::Ok, "five seconds are not long");
    drop(short);
    let long = writer.busy().since("rebuilding the file", ago(12));
    let (status, message) = health(&provider);
    assert_eq!(status, HealthStatus::Degraded, "{message}");
    assert!(message.contains("0 writes wait; rebuilding the file has been going on for 12 s"), "{message}");
    tracing::subscriber::with_default(warnings.clone(), || {
        writer.warn_if_stuck();
        writer.warn_if_stuck();
    });
    drop(long);
    assert_eq!(health(&provider).0, HealthStatus::Ok);
    let warnings = warnings.0.lock().unwrap();
    assert_eq!(warnings.len(), 1, "once a minute is enough: {warnings:?}");
    assert!(warnings[0].contains("rebuilding the file has been going on for 12 s"), "{warnings:?}");
}

#[test]
fn health_answers_though_every_reader_is_busy() {
    let folder = tempfile::tempdir().unwrap();
    let provider = open(&folder.path().join("memory.db"));
    let gate = Arc::new(Mutex::new(()));
    let shut = gate.lock().unwrap();
    let (began, begins) = mpsc::channel();
    let reads: Vec<_> = (0..provider.store.config.workers)
        .map(|_| {
            let (store, gate, began) = (Arc::clone(&provider.store), Arc::clone(&gate), began.clone());
            std::thread::spawn(move || {
                wait_for(store.workers.run(move |_| {
                    began.send(()).unwrap();
                    drop(gate.lock());
                    Ok(())
                }))
            })
        })
        .collect();
    begins.iter().take(provider.store.config.workers).for_each(drop);
    let (status, message) = health(&provider);
    assert_eq!((status, message.as_str()), (HealthStatus::Degraded, "no reader was free for 5 s"));
    drop(shut);
    for read in reads {
        read.join().unwrap().unwrap();
    }
    assert_eq!(health(&provider).0, HealthStatus::Ok);
}

#[test]
fn operations_of_a_failed_transaction_wait_for_the_lock_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let provider = open(&path);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    assert_eq!(provider.store.writer.left_of(100, Duration::from_millis(100)), 100);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(provider.store.writer.left_of(100, Duration::ZERO), 0);
}

#[test]
fn a_write_that_panics_on_its_callers_thread_leaves_no_other_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let config = SqliteConfig::default().with_durability(Durability::Normal);
    let provider = SqliteProvider::open(folder.path().join("memory.db"), config, Arc::new(Still)).unwrap();
    let (began, begins) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let writer = Arc::clone(&provider.store.writer);
    let panics = std::thread::spawn(move || {
        wait_for(writer.submit(Cost::entry(1), move |_| -> Result<(), crate::error::Fault> {
            began.send(()).unwrap();
            goes_on.recv().unwrap();
            panic!("as a bug would");
        }))
    });
    begins.recv().unwrap();
    let writer = Arc::clone(&provider.store.writer);
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || answer.send(wait_for(writer.submit(Cost::entry(1), |_| Ok(())))));
    // The connection is taken, so the other write is left in the queue.
    while provider.store.writer.waiting() == 0 {
        std::thread::yield_now();
    }
    go_on.send(()).unwrap();
    panics.join().unwrap().unwrap_err();
    answered.recv_timeout(Duration::from_secs(30)).expect("the other write is never run").unwrap();
}
