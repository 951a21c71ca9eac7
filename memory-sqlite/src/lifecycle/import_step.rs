//! One step of an import: a few records in a transaction.

use memory_core::{
    Error, ImportOptions, ImportOutcome, OnExisting, Record, RecordStream, RecordVector, Result, Source,
};

use super::export::record_bytes;
use super::tombstones::is_forgotten;
use crate::commit::batch::Batch;
use crate::commit::scope::Target;
use crate::error::Fault;
use crate::kv::entries::{Content, History};
use crate::kv::row::encode_metadata;
use crate::kv::write::next_version;
use crate::vector::rows::{NewVector, Owner, Put};

/// Records, and their bytes, imported per transaction.
const STEP_RECORDS: usize = 256;
const STEP_BYTES: usize = 1 << 20;

/// Takes the next records off the stream. The third value is the stream's end, with its error.
pub(super) async fn next_step(records: &mut RecordStream) -> (Vec<Record>, usize, Option<Option<Error>>) {
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

/// The result of one transaction of an import, and the record that ended it.
pub(super) struct Stored {
    pub(super) outcome: ImportOutcome,
    pub(super) refused: Option<(u64, Error)>,
}

pub(super) fn import_step(
    batch: &mut Batch<'_>,
    target: &Target,
    records: &[Record],
    options: ImportOptions,
) -> Result<Stored, Fault> {
    batch.admit(target)?;
    let mut stored = Stored { outcome: ImportOutcome::default(), refused: None };
    for (at, record) in (0_u64..).zip(records) {
        match import_record(batch, target, record, options, &mut stored.outcome) {
            Ok(()) => {}
            // Records before it are kept.
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
    if let Some(moment) = options.taken.taken_at(entry.updated_at)
        && is_forgotten(batch.connection(), &target.scope, Some(&entry.key), moment)?
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
        if stored.is_some_and(|stored| entry.is_copy_of(&stored.entry)) {
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
    // A version that this key, or a deleted one, may have had is not reused.
    let version = if entry.version > used { entry.version } else { next_version(&space)? };
    let metadata = encode_metadata(&entry.metadata);
    let content = Content {
        value: &entry.value,
        metadata: metadata.as_deref(),
        source: entry.source.as_ref().map(Source::as_str),
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
