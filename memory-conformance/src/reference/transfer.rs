//! Export and import: records that keep versions, times and vectors.

use memory_core::{Error, ImportOptions, ImportOutcome, OnExisting, Record, Result, Timestamp};

use super::fault::{Fault, Viewer};
use super::state::{ScopeState, Stored};

/// Every live entry as a record, in key order.
pub(crate) fn export(state: &ScopeState, now: Timestamp) -> Vec<Record> {
    state
        .all_live(now, Viewer::Export)
        .map(|stored| {
            let mut record = Record::from(stored.entry.clone());
            record.vectors = stored.vectors.clone();
            record.vectors.sort_by(|a, b| a.model.cmp(&b.model));
            record
        })
        .collect()
}

/// Stores one record, whole or not at all.
pub(crate) fn import(
    state: &mut ScopeState,
    now: Timestamp,
    record: Record,
    options: ImportOptions,
    outcome: &mut ImportOutcome,
) -> Result<()> {
    let Record { mut entry, vectors, .. } = record;
    if entry.is_expired(now) {
        outcome.expired += 1;
        return Ok(());
    }
    let live = state.live(&entry.key, now, Viewer::Import).map(|stored| &stored.entry);
    let replaces = live.is_some();
    if let Some(live) = live {
        if options.on_existing == OnExisting::Fail {
            return Err(Error::conflict(Some(live.version)));
        }
        if options.on_existing == OnExisting::Skip
            || entry.is_copy_of(live) && !state.faults.has(Fault::ImportStoresSame)
        {
            outcome.skipped += 1;
            return Ok(());
        }
    }
    state.check_quota(options.quota, now, &entry.key, entry.size_bytes())?;
    // A version the key had before, or a lower one, is never reused.
    let had_it = entry.version <= state.floor
        || state.highest.get(&entry.key).is_some_and(|highest| entry.version <= *highest);
    if (had_it && !state.faults.has(Fault::ImportReusesVersions)) || state.faults.has(Fault::ImportRenumbers)
    {
        entry.version = state.next_version();
    }
    state.note_version(&entry.key, entry.version);
    let vectors = match state.entries.get(&entry.key) {
        Some(old) if replaces && state.faults.has(Fault::ImportKeepsOldVectors) => old.vectors.clone(),
        _ => vectors,
    };
    state.entries.insert(entry.key.clone(), Stored { entry, vectors });
    state.changed();
    if replaces {
        outcome.replaced += 1;
    } else {
        outcome.created += 1;
    }
    Ok(())
}
