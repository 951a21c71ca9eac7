//! A scope's entries, read from the key/value store.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use memory_core::scope::successor;
use memory_core::{Entry, Error, Result, ScopeDigest, Timestamp};
use memory_sql::errors;
use rusqlite::Connection;

use super::source::{EntryReader, EntrySource, KeyRange};
use crate::commit::store::Store;
use crate::error::engine;
use crate::kv::read;
use crate::kv::row::StoredEntry;

/// Idle connections kept for the next reader.
const KEPT: usize = 4;
/// Entries, and bytes, per read.
const PAGE: usize = 256;
const PAGE_BYTES: u64 = 1 << 20;
/// Most bytes read from a scope of an in-memory database: its only connection cannot be held while a statement
/// runs.
const COPY_BYTES: u64 = 64 << 20;

/// Connections to the key/value store, shared by the statements of all scopes.
pub(crate) struct EntryPool {
    store: Arc<Store>,
    free: Mutex<Vec<Connection>>,
}

impl fmt::Debug for EntryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EntryPool")
    }
}

impl EntryPool {
    pub(crate) fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self { store, free: Mutex::default() })
    }

    /// The entries of this scope, and of no other.
    pub(crate) fn scope(self: &Arc<Self>, digest: ScopeDigest) -> Arc<dyn EntrySource> {
        Arc::new(StoreEntries { pool: Arc::clone(self), digest })
    }

    fn take(&self) -> Result<Option<Connection>> {
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(|| self.store.connect(), |kept| Ok(Some(kept)))
    }

    fn give_back(&self, connection: Connection) {
        // A connection that cannot end its snapshot is closed, which ends it.
        if connection.execute_batch("ROLLBACK").is_ok() {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if free.len() < KEPT && !self.store.is_closed() {
                free.push(connection);
            }
        }
    }

    /// The entries as callers of the key/value store see them. Reading them here does not count as an access.
    fn finish(&self, space: i64, entries: Vec<StoredEntry>) -> VecDeque<Entry> {
        let counts = self.store.accesses.look();
        let finish = |StoredEntry { mut entry, born }| {
            entry.access_count = counts.total(space, entry.key.as_str(), born, entry.access_count);
            entry
        };
        entries.into_iter().map(finish).collect()
    }
}

#[derive(Debug)]
struct StoreEntries {
    pool: Arc<EntryPool>,
    digest: ScopeDigest,
}

impl EntrySource for StoreEntries {
    fn read(&self, range: &KeyRange, deadline: Instant) -> Result<Box<dyn EntryReader>> {
        if self.pool.store.is_closed() {
            return Err(crate::error::closed());
        }
        let now = self.pool.store.clock.now();
        let Some(connection) = self.pool.take()? else { return self.copy(range, now) };
        connection.execute_batch("BEGIN").map_err(engine)?;
        Ok(Box::new(Snapshot {
            pool: Arc::clone(&self.pool),
            connection: Some(connection),
            digest: self.digest,
            range: range.clone(),
            now,
            deadline,
            page: VecDeque::new(),
            more: true,
        }))
    }
}

impl StoreEntries {
    /// Copies a range of an in-memory database, whose only connection is shared.
    fn copy(&self, range: &KeyRange, now: Timestamp) -> Result<Box<dyn EntryReader>> {
        let writer = &self.pool.store.writer;
        let connection = writer.connection("a read");
        let read = read::range(
            &connection,
            &self.digest,
            &range.from,
            range.to.as_deref(),
            now,
            usize::MAX,
            COPY_BYTES,
        );
        drop(connection);
        let found = read?;
        if found.more {
            return Err(Error::too_large(
                "the range of memory_entries",
                usize::try_from(COPY_BYTES).unwrap_or(usize::MAX),
                usize::try_from(COPY_BYTES).unwrap_or(usize::MAX),
                "bytes",
            ));
        }
        Ok(Box::new(Copied(self.pool.finish(found.space, found.entries))))
    }
}

/// A range that was read at once.
struct Copied(VecDeque<Entry>);

impl EntryReader for Copied {
    fn next(&mut self) -> Result<Option<Entry>> {
        Ok(self.0.pop_front())
    }
}

/// A range read in pages, within one snapshot.
struct Snapshot {
    pool: Arc<EntryPool>,
    connection: Option<Connection>,
    digest: ScopeDigest,
    range: KeyRange,
    now: Timestamp,
    deadline: Instant,
    page: VecDeque<Entry>,
    more: bool,
}

impl EntryReader for Snapshot {
    fn next(&mut self) -> Result<Option<Entry>> {
        if self.page.is_empty() && self.more {
            if Instant::now() >= self.deadline {
                return Err(errors::timeout());
            }
            let Some(connection) = &self.connection else { return Ok(None) };
            let (from, to) = (&self.range.from, self.range.to.as_deref());
            let found = read::range(connection, &self.digest, from, to, self.now, PAGE, PAGE_BYTES)?;
            self.more = found.more;
            if let Some(last) = found.entries.last() {
                self.range.from = successor(last.entry.key.as_str());
            }
            self.page = self.pool.finish(found.space, found.entries);
        }
        Ok(self.page.pop_front())
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.give_back(connection);
        }
    }
}
