//! Stores the text indexes of scopes, so that the next process need not analyse their texts.

use std::time::{Duration, Instant};

use memory_core::{Result, ScopeDigest};
use rusqlite::Connection;

use super::cache::{CachedIndex, IndexCache};
use super::index::LEAST;
use crate::commit::batch::Batch;
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::error::Unreadable;
use crate::kv::state::ScopeState;

/// Segments that one transaction stores.
const STEP: usize = 8;
/// How long closing may spend on it, and the number of documents from which a scope is skipped then, because its
/// segments may take seconds.
const PATIENCE: Duration = Duration::from_millis(250);
const LARGE: usize = 200_000;

/// Stores the indexes that have changed much.
pub(crate) fn scattered(store: &Store, indexes: &IndexCache) -> Result<()> {
    let mut connection = None;
    for (digest, cached) in indexes.all() {
        if cached.value().is_scattered() && !store.is_closed() {
            one(store, indexes, digest, &cached, &mut connection)?;
        }
    }
    Ok(())
}

/// Stores the indexes that have changed at all, as time allows.
pub(crate) fn closing(store: &Store, indexes: &IndexCache) -> Result<()> {
    if !store.is_file() {
        return Ok(());
    }
    let (mut connection, until) = (None, Instant::now() + PATIENCE);
    for (digest, cached) in indexes.all() {
        let documents = cached.value().documents.len();
        let changed = {
            let index = cached.value();
            // The background thread may have rebuilt its segments and will not get to storing them.
            index.unstored || index.documents.changed() > 0 || !cached.feed().is_empty()
        };
        if changed && (LEAST..LARGE).contains(&documents) && Instant::now() < until {
            one(store, indexes, digest, &cached, &mut connection)?;
        }
    }
    Ok(())
}

/// Rebuilds and stores the segments of one index whose documents have changed.
fn one(
    store: &Store,
    indexes: &IndexCache,
    digest: ScopeDigest,
    cached: &CachedIndex,
    connection: &mut Option<Connection>,
) -> Result<()> {
    if connection.is_none() {
        *connection = store.connect()?;
    }
    // As in a search, the turn comes before the snapshot. Other searches continue until an entry changes.
    let turn = cached.turn();
    let state = match &*connection {
        Some(connection) => {
            let now = store.clock.now();
            let snapshot = connection.unchecked_transaction().map_err(Unreadable::from)?;
            let Some(state) = ScopeState::read(&snapshot, &digest)? else { return Ok(()) };
            if !indexes.catch_up(&digest, &turn, &snapshot, state, now)? {
                return Ok(());
            }
            Some(state)
        }
        // A database in memory.
        None => None,
    };
    let (segments, mut anew) = {
        let index = cached.value();
        (index.documents.arranged(), index.unreadable)
    };
    {
        let mut index = turn.value();
        index.documents.rearrange(&segments);
        index.unstored = state.is_some();
    }
    cached.weigh(cached.value().heap_bytes());
    drop(turn);
    let Some(state) = state else { return Ok(()) };
    for step in segments.chunks(STEP) {
        let (bytes, step) = (step.iter().map(|segment| segment.heap_bytes()).sum(), Vec::from(step));
        let put = move |batch: &mut Batch<'_>| batch.put_segments(&digest, state, &step, anew);
        if !store.writer.submit_blocking(Cost::slow(bytes), put)? {
            // The scope has changed; the next search will find out what is missing.
            return Ok(());
        }
        anew = false;
    }
    let turn = cached.turn();
    let mut index = turn.value();
    (index.unreadable, index.unstored) = (false, false);
    Ok(())
}
