//! Export of a scope.

use std::sync::Arc;
use std::time::Duration;

use memory_core::access::AccessCounts;
use memory_core::scope::successor;
use memory_core::{Error, Record, RecordStream, RecordVector, Result, ScopeDigest, Timestamp};
use rusqlite::{Connection, params};

use super::read_transaction::ReadTransaction;
use crate::commit::pipe::{BUFFER_BYTES, BUFFER_ITEMS, Pipe, Reader};
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::error::Unreadable;
use crate::file::column::signed;
use crate::kv::row::{self, Sql};
use crate::vector::rows::of_entry;

static PAGE: Sql = Sql::new(
    "SELECT {columns}, e.space, s.vectors FROM scope s CROSS JOIN entry e ON e.space = s.space \
     LEFT JOIN body b ON b.id = e.body WHERE s.digest = ?1 AND e.key >= ?2 \
     AND (e.expires_at IS NULL OR e.expires_at > ?3) ORDER BY e.key LIMIT ?4",
);

/// Ends the export even if its thread panics.
struct Ending(Arc<Store>, Arc<Pipe<Record>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.export_ended();
        self.1.end();
    }
}

/// Streams a scope from its own thread, since a reader may be slow.
pub(crate) fn export(
    store: &Arc<Store>,
    target: Target,
    at: Option<Arc<ReadTransaction>>,
) -> Result<RecordStream> {
    store.export_begins()?;
    let pipe = Arc::new(Pipe::default());
    let ending = Ending(Arc::clone(store), Arc::clone(&pipe));
    let thread = std::thread::Builder::new().name("memory-sqlite-export".to_owned());
    thread
        .spawn(move || {
            let Ending(store, pipe) = &ending;
            if let Err(error) = send(store, pipe, &target.digest, at.as_deref()) {
                pipe.push(0, Err(error.into()), Duration::ZERO, || store.is_closed());
            }
        })
        .map_err(|error| {
            Error::unavailable("no thread can be started for the export; try again").with_source(error)
        })?;
    Ok(Box::pin(Reader::new(pipe)))
}

fn send(
    store: &Store,
    pipe: &Pipe<Record>,
    digest: &ScopeDigest,
    at: Option<&ReadTransaction>,
) -> Result<(), Unreadable> {
    if let Some(transaction) = at {
        return pages(store, pipe, |after, _| {
            page(&transaction.connection(), &store.accesses, digest, after, transaction.now)
        });
    }
    let whole = |connection: &Connection| {
        let snapshot = connection.unchecked_transaction()?;
        pages(store, pipe, |after, now| page(&snapshot, &store.accesses, digest, after, now))?;
        Ok(store.check_read()?)
    };
    match store.connect() {
        Ok(Some(connection)) => whole(&connection),
        // Readers opened earlier can still read the old file, which may be the last copy.
        Err(error) if store.is_displaced() => {
            store.readers.inline(whole).unwrap_or(Err(error)).map_err(Unreadable::Content)
        }
        Err(error) => Err(error.into()),
        // An in-memory database has one connection, which a slow reader must not hold: each page is its own
        // snapshot.
        Ok(None) => pages(store, pipe, |after, now| {
            let connection = store.writer.connection("a read");
            page(&connection, &store.accesses, digest, after, now)
        }),
    }
}

fn pages(
    store: &Store,
    pipe: &Pipe<Record>,
    mut page: impl FnMut(&str, Timestamp) -> Result<Vec<Record>, Unreadable>,
) -> Result<(), Unreadable> {
    let patience = Duration::from_millis(store.config.export_idle_ms);
    let now = store.clock.now();
    let mut after = String::new();
    loop {
        let records = page(&after, now)?;
        let Some(last) = records.last() else { return Ok(()) };
        after = successor(last.entry.key.as_str());
        for record in records {
            if !pipe.push(record_bytes(&record), Ok(record), patience, || store.is_closed()) {
                return Ok(());
            }
        }
    }
}

fn page(
    connection: &Connection,
    accesses: &AccessCounts,
    digest: &ScopeDigest,
    from: &str,
    now: Timestamp,
) -> Result<Vec<Record>, Unreadable> {
    let mut statement = connection.prepare_cached(PAGE.get())?;
    let mut rows =
        statement.query(params![digest.as_bytes(), from, now.as_millis(), signed(BUFFER_ITEMS as u64)])?;
    let mut records = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let row::StoredEntry { mut entry, born } = row::read(row)?;
        let space = row.get(11)?;
        entry.access_count = accesses.look().total(space, entry.key.as_str(), born, entry.access_count);
        let mut record = Record::from(entry);
        if row.get::<_, i64>(12)? > 0 {
            record.vectors = of_entry(connection, space, record.entry.key.as_str())?;
        }
        bytes += record_bytes(&record);
        records.push(record);
        if bytes > BUFFER_BYTES {
            break;
        }
    }
    Ok(records)
}

/// Approximate memory of a record, in bytes.
pub(crate) fn record_bytes(record: &Record) -> usize {
    let of_vector =
        |vector: &RecordVector| vector.vector.len() * 4 + vector.text.as_ref().map_or(0, String::len);
    let vectors = record.vectors.iter().map(of_vector).sum::<usize>();
    usize::try_from(record.entry.size_bytes()).unwrap_or(usize::MAX).saturating_add(vectors)
}
