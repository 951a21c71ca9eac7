//! Export and import of a scope.

mod whole;

use std::sync::Arc;
use std::time::Duration;

use memory_core::{
    Atomicity, Entry, Error, ErrorKind, ImportOptions, ImportOutcome, OnExisting, Record, RecordStream,
    RecordVector, Result, ScopeDigest, Timestamp,
};
use rusqlite::{Connection, params};

use crate::batch::{Batch, Content, Fault, History, Sql, Target};
use crate::moment::Frozen;
use crate::pipe::{AHEAD_BYTES, AHEAD_ITEMS, Pipe, Reader};
use crate::row::{self, Unreadable, encode_metadata, signed, successor};
use crate::store::Store;
use crate::vector::store::{NewVector, Owner, Put, of_entry};
use crate::write::next_version;
use crate::writer::Cost;
use memory_core::access::AccessCounts;

/// Records, and their bytes, that one transaction imports.
const STEP_RECORDS: usize = 256;
const STEP_BYTES: usize = 1 << 20;

static PAGE: Sql = Sql::new(
    "SELECT {columns}, e.space, s.vectors FROM scope s CROSS JOIN entry e ON e.space = s.space \
     LEFT JOIN body b ON b.id = e.body WHERE s.digest = ?1 AND e.key >= ?2 \
     AND (e.expires_at IS NULL OR e.expires_at > ?3) ORDER BY e.key LIMIT ?4",
);

/// Marks the end of an export also where its thread panics.
struct Ending(Arc<Store>, Arc<Pipe<Record>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.export_ended();
        self.1.end();
    }
}

/// Streams a scope from a thread of its own, since a reader may take its time.
pub(crate) fn export(store: &Arc<Store>, target: Target, at: Option<Arc<Frozen>>) -> Result<RecordStream> {
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
            Error::new(ErrorKind::Unavailable, "no thread can be started for the export; try again")
                .with_source(error)
        })?;
    Ok(Box::pin(Reader::new(pipe)))
}

fn send(
    store: &Store,
    pipe: &Pipe<Record>,
    digest: &ScopeDigest,
    at: Option<&Frozen>,
) -> Result<(), Unreadable> {
    if let Some(frozen) = at {
        return pages(store, pipe, |after, _| {
            page(&frozen.connection(), &store.accesses, digest, after, frozen.now)
        });
    }
    let whole = |connection: &Connection| {
        let snapshot = connection.unchecked_transaction()?;
        pages(store, pipe, |after, now| page(&snapshot, &store.accesses, digest, after, now))
    };
    match store.connect() {
        Ok(Some(connection)) => whole(&connection),
        // Readers that were open before still read what was there, of which no other copy may be left.
        Err(error) if store.is_displaced() => {
            store.readers.inline(whole).unwrap_or(Err(error)).map_err(Unreadable::Content)
        }
        Err(error) => Err(error.into()),
        // In memory there is one connection, and a slow reader must not hold it: each page is its own snapshot.
        Ok(None) => pages(store, pipe, |after, now| {
            let connection = store.writer.connection();
            let page = page(&connection, &store.accesses, digest, after, now);
            store.writer.release(connection);
            page
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
        statement.query(params![digest.as_bytes(), from, now.as_millis(), signed(AHEAD_ITEMS as u64)])?;
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
        if bytes > AHEAD_BYTES {
            break;
        }
    }
    Ok(records)
}

/// Memory that a record takes, about.
fn record_bytes(record: &Record) -> usize {
    let of_vector =
        |vector: &RecordVector| vector.vector.len() * 4 + vector.text.as_ref().map_or(0, String::len);
    let vectors = record.vectors.iter().map(of_vector).sum::<usize>();
    usize::try_from(record.entry.size_bytes()).unwrap_or(usize::MAX).saturating_add(vectors)
}

/// Stores a stream: a few records in a transaction, or all of them.
pub(crate) async fn import(
    store: &Store,
    target: Target,
    records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    match options.atomicity {
        Atomicity::Record => import_in_steps(store, target, records, options).await,
        _ => whole::import(store, target, records, options).await,
    }
}

async fn import_in_steps(
    store: &Store,
    target: Target,
    mut records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    let mut outcome = ImportOutcome::default();
    let mut index = 0_u64;
    loop {
        let (step, bytes, end) = next_step(&mut records).await;
        let first = index;
        index += step.len() as u64;
        if !step.is_empty() {
            let target = target.clone();
            let stored = store
                .writer
                .submit(Cost::slow(bytes), move |batch| import_step(batch, &target, &step, options))
                .await?;
            add(&mut outcome, stored.outcome);
            if let Some((at, error)) = stored.refused {
                return Err(error.with_detail("index", first + at));
            }
        }
        match end {
            None => {}
            Some(None) => return Ok(outcome),
            Some(Some(error)) if error.details().contains_key("index") => return Err(error),
            Some(Some(error)) => return Err(error.with_detail("index", index)),
        }
    }
}

fn add(sum: &mut ImportOutcome, step: ImportOutcome) {
    sum.created += step.created;
    sum.replaced += step.replaced;
    sum.skipped += step.skipped;
    sum.expired += step.expired;
    sum.forgotten += step.forgotten;
}

/// Takes the next records off the stream; the third is its end, with its error.
async fn next_step(records: &mut RecordStream) -> (Vec<Record>, usize, Option<Option<Error>>) {
    let (mut step, mut bytes) = (Vec::new(), 0_usize);
    while step.len() < STEP_RECORDS && bytes < STEP_BYTES {
        match std::future::poll_fn(|context| records.as_mut().poll_next(context)).await {
            Some(Ok(record)) => {
                bytes = bytes.saturating_add(record_bytes(&record));
                step.push(record);
            }
            Some(Err(error)) => return (step, bytes, Some(Some(error))),
            None => return (step, bytes, Some(None)),
        }
    }
    (step, bytes, None)
}

/// What one transaction of an import did, and the record that ended it.
struct Stored {
    outcome: ImportOutcome,
    refused: Option<(u64, Error)>,
}

fn import_step(
    batch: &mut Batch<'_>,
    target: &Target,
    records: &[Record],
    options: ImportOptions,
) -> Result<Stored, Fault> {
    let mut stored = Stored { outcome: ImportOutcome::default(), refused: None };
    for (at, record) in (0_u64..).zip(records) {
        match import_record(batch, target, record, options, &mut stored.outcome) {
            Ok(()) => {}
            // Records before it stay.
            Err(Fault::Refused(error)) => {
                stored.refused = Some((at, error));
                break;
            }
            Err(engine) => return Err(engine),
        }
    }
    Ok(stored)
}

fn import_record(
    batch: &mut Batch<'_>,
    target: &Target,
    record: &Record,
    options: ImportOptions,
    outcome: &mut ImportOutcome,
) -> Result<(), Fault> {
    let now = batch.now();
    let entry = &record.entry;
    if let Some(moment) = options.taken.moment(entry.updated_at)
        && crate::erase::is_forgotten(batch.connection(), &target.scope, Some(&entry.key), moment)?
    {
        outcome.forgotten += 1;
        return Ok(());
    }
    if entry.is_expired(now) {
        outcome.expired += 1;
        return Ok(());
    }
    let mut space = batch.space(&target.digest)?;
    let mut old = batch.old(&space, &entry.key)?;
    let live = old.filter(|old| old.is_live(now));
    if let Some(live) = live {
        match options.on_existing {
            OnExisting::Skip => {
                outcome.skipped += 1;
                return Ok(());
            }
            OnExisting::Fail => return Err(Error::conflict(Some(live.version)).into()),
            OnExisting::Replace => {}
        }
        let stored = batch.entry(&space, &entry.key)?;
        if stored.is_some_and(|stored| is_same(&stored.entry, entry)) {
            outcome.skipped += 1;
            return Ok(());
        }
    }
    let used = match &old {
        Some(old) => old.version.max(space.floor),
        None => space.floor,
    };
    memory_core::backend::check_vectors(&record.vectors)?;
    let size = entry.size_bytes();
    batch.allow(target, &mut space, &entry.key, options.quota, &mut old, size, now)?;
    // A version that this key, or one that is gone, may have had is not given again.
    let version = if entry.version > used { entry.version } else { next_version(&space)? };
    let metadata = encode_metadata(&entry.metadata);
    let content = Content {
        value: &entry.value,
        metadata: metadata.as_deref(),
        source: entry.source.as_ref().map(memory_core::Source::as_str),
        text: entry.text.as_deref(),
        size,
    };
    let history = History {
        version,
        created_at: entry.created_at,
        updated_at: entry.updated_at,
        expires_at: entry.expires_at,
        accesses: entry.access_count,
        born: None,
    };
    batch.put(target, &mut space, &entry.key, old.as_ref(), content, history)?;
    if !record.vectors.is_empty() {
        let owner = Owner { key: &entry.key, version, expires_at: entry.expires_at };
        let vectors: Vec<NewVector<'_>> = record
            .vectors
            .iter()
            .map(|RecordVector { model, vector, text }| NewVector {
                model,
                text: text.as_deref(),
                numbers: vector,
            })
            .collect();
        let mut put = Put::default();
        batch.put_vectors(&mut space, owner, &vectors, &mut put)?;
        batch.end_vectors(target, &mut space, put);
    }
    batch.keep(&target.digest, space);
    match live {
        Some(_) => outcome.replaced += 1,
        None => outcome.created += 1,
    }
    Ok(())
}

/// Whether importing the record again would change nothing. Its version may be another by then, and reads count.
fn is_same(stored: &Entry, record: &Entry) -> bool {
    stored.value == record.value
        && stored.metadata == record.metadata
        && stored.source == record.source
        && stored.text == record.text
        && stored.created_at == record.created_at
        && stored.updated_at == record.updated_at
        && stored.expires_at == record.expires_at
}
