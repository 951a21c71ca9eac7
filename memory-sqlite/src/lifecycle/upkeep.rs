//! Background work: writes access counts and uses, reclaims expired entries and dropped scopes, and moves the log into
//! the file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::{Reclaimed, Result};

use super::{eviction, uses};
use crate::commit::background::Schedule;
use crate::commit::checkpoint::Checkpointer;
use crate::commit::store::Store;
use crate::commit::waits::Alarm;
use crate::commit::writer::Cost;
use crate::error::engine;
use crate::kv::{accesses, sweep};
use crate::search::cache::IndexCache;
use crate::search::store_index;

/// The upkeep of one open database.
#[derive(Debug)]
pub(crate) struct Upkeep {
    store: Arc<Store>,
    indexes: Arc<IndexCache>,
    /// Allows one write of access counts at a time.
    flushing: Mutex<()>,
}

impl Upkeep {
    pub(crate) fn new(store: Arc<Store>, indexes: Arc<IndexCache>) -> Self {
        Self { store, indexes, flushing: Mutex::new(()) }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The background thread.
    pub(crate) fn run(&self, mut checkpointer: Option<&mut Checkpointer>) {
        let mut schedule = Schedule::new(&self.store.config);
        let mut alarms: BTreeMap<&'static str, Alarm> = BTreeMap::new();
        let mut report = |what: &'static str, done: Result<()>| {
            // If closing cuts this short, whoever opens the database next does it.
            if let Err(error) = done
                && !self.store.is_closed()
                && alarms.entry(what).or_default().is_due()
            {
                tracing::warn!(%error, what, "background work failed and will be tried again");
            }
        };
        loop {
            let due = self.store.signal.wait(&mut schedule);
            self.store.writer.warn_if_stuck();
            self.store.workers.warn_if_stuck();
            if due.closed {
                return;
            }
            if self.store.is_read_only() {
                continue;
            }
            if let (true, Some(checkpointer)) = (due.checkpoint, &mut checkpointer) {
                let done = match self.store.is_displaced() {
                    true => checkpointer.empty(&self.store.writer),
                    false => checkpointer.run(&self.store.writer),
                };
                report("checkpoint", done.map_err(engine));
            }
            if due.accesses {
                report("writing access counts", self.flush());
            }
            if due.texts {
                report("storing text indexes", store_index::scattered(&self.store, &self.indexes));
            }
            if due.sweep {
                report("reclaiming expired entries", self.sweep().map(drop));
            } else if due.garbage {
                report("reclaiming dropped scopes", self.reclaim());
            }
        }
    }

    /// Writes the access counts held in memory.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.store.is_read_only() {
            return Ok(());
        }
        let _one = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        accesses::flush(&self.store.writer, &self.store.accesses)
            .and(uses::flush(&self.store.writer, &self.store.uses))
    }

    /// Reclaims expired and dropped data. Returns how many expired entries there were.
    pub(crate) fn sweep(&self) -> Result<u64> {
        let now = self.store.clock.now();
        let targets = match self.store.connect()? {
            Some(connection) => sweep::targets(&connection, now)?,
            None => {
                let connection = self.store.writer.connection("a read");
                sweep::targets(&connection, now)?
            }
        };
        let removed = sweep::expired(&self.store.writer, targets, now)?;
        self.fences_over()?;
        self.reclaim()?;
        Ok(removed)
    }

    /// Forgets runs whose fence is over. Returns how many.
    pub(crate) fn fences_over(&self) -> Result<u64> {
        let mut all = 0;
        loop {
            let gone = self.store.writer.submit_blocking(Cost::slow(0), eviction::fences)?;
            all += gone;
            if gone == 0 {
                return Ok(all);
            }
        }
    }

    fn reclaim(&self) -> Result<()> {
        sweep::garbage(&self.store.writer)?;
        sweep::vacuum(&self.store.writer, sweep::KEPT_PAGES)
    }

    /// Reclaims everything that can be reclaimed in this file (GC-12). The SQL facet does the same for SQL databases.
    pub(crate) fn reclaim_all(&self) -> Result<Reclaimed> {
        let pages = || {
            self.store.writer.submit_blocking(Cost::slow(0), |batch| {
                let number = |sql: &str| batch.connection().query_row(sql, [], |row| row.get::<_, i64>(0));
                Ok(number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?))
            })
        };
        let before = pages()?;
        let mut reclaimed = Reclaimed::default();
        reclaimed.fences = self.fences_over()?;
        reclaimed.expired = self.sweep()?;
        reclaimed.vectors = sweep::dead_vectors(&self.store.writer)?;
        sweep::vacuum(&self.store.writer, 0)?;
        reclaimed.bytes = u64::try_from(before.saturating_sub(pages()?)).unwrap_or_default();
        self.store.signal.checkpoint();
        Ok(reclaimed)
    }

    /// Writes what is held in memory and closes the database.
    pub(crate) fn close(&self) {
        self.store.refuse();
        if let Err(error) = self.flush() {
            tracing::warn!(%error, "access counts were lost as the database closed");
        }
        if !self.store.is_read_only()
            && let Err(error) = store_index::closing(&self.store, &self.indexes)
        {
            tracing::warn!(%error, "a text index was not stored as the database closed, and will be made anew");
        }
        self.store.close();
    }
}
