//! Stores the text indexes of scopes, so that the next process need not analyse their texts.

use std::time::{Duration, Instant};

use memory_core::{Result, ScopeDigest};
use rusqlite::Connection;

use super::cache::{CachedIndex, IndexCache};
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::error::Unreadable;
use crate::kv::segments::NewSegments;
use crate::kv::state::ScopeState;

/// Scopes with fewer entries are analysed in about a millisecond, and are not stored.
const LEAST: usize = 512;
/// Segments that one transaction stores.
const STEP: usize = 8;
/// How long closing may take for it.
const PATIENCE: Duration = Duration::from_millis(250);

/// Makes the segments of scattered indexes anew and stores them.
pub(crate) fn scattered(store: &Store, indexes: &IndexCache) -> Result<()> {
    let all = indexes.all();
    run(store, indexes, all.into_iter().filter(|(_, cached)| cached.value().is_scattered()), None)
}

/// Stores what has changed, as time allows.
pub(crate) fn closing(store: &Store, indexes: &IndexCache) -> Result<()> {
    if !store.is_file() {
        return Ok(());
    }
    let all = indexes.all();
    let changed = all.into_iter().filter(|(_, cached)| {
        let changed = cached.value().documents.changed() > 0;
        changed || !cached.feed().is_empty()
    });
    run(store, indexes, changed, Some(Instant::now() + PATIENCE))
}

fn run(
    store: &Store,
    indexes: &IndexCache,
    scopes: impl Iterator<Item = (ScopeDigest, std::sync::Arc<CachedIndex>)>,
    until: Option<Instant>,
) -> Result<()> {
    let mut connection = None;
    for (digest, cached) in scopes {
        if cached.value().documents.len() < LEAST {
            continue;
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        if connection.is_none() {
            connection = store.connect()?;
        }
        match &connection {
            Some(connection) => one(store, indexes, digest, &cached, connection)?,
            None => rearrange(&cached.turn()),
        }
    }
    Ok(())
}

fn rearrange(turn: &super::cache::IndexTurn<'_>) {
    let segments = turn.cached().value().documents.arranged();
    turn.value().documents.rearrange(&segments);
}

fn one(
    store: &Store,
    indexes: &IndexCache,
    digest: ScopeDigest,
    cached: &CachedIndex,
    connection: &Connection,
) -> Result<()> {
    let new = {
        // As in a search, the turn comes before the snapshot.
        let turn = cached.turn();
        let now = store.clock.now();
        let snapshot = connection.unchecked_transaction().map_err(Unreadable::from)?;
        let Some(state) = ScopeState::read(&snapshot, &digest)? else { return Ok(()) };
        if !indexes.catch_up(&digest, &turn, &snapshot, state, now)? {
            return Ok(());
        }
        // Searches go on meanwhile.
        let segments = turn.cached().value().documents.arranged();
        turn.value().documents.rearrange(&segments);
        NewSegments { digest, space: state.space, changes: state.changes, segments, complete: false }
    };
    let mut steps = new.segments.chunks(STEP).peekable();
    while let Some(step) = steps.next() {
        let step = NewSegments { segments: step.to_vec(), complete: steps.peek().is_none(), ..new.clone() };
        let bytes = step.segments.iter().map(|segment| segment.heap_bytes()).sum();
        if !store.writer.submit_blocking(Cost::slow(bytes), move |batch| batch.put_segments(&step))? {
            // The scope has changed; what is missing is found by comparing.
            return Ok(());
        }
    }
    Ok(())
}
