//! Text indexes of recently searched scopes, kept up to date within a memory budget.

use std::collections::VecDeque;

use memory_core::{ScopeDigest, Timestamp};
use rusqlite::Connection;

use super::index::ScopeIndex;
use crate::commit::feed::{TextChange, TextEdit};
use crate::commit::scope_cache::{Cached, Feed, ScopeCache, Turn};
use crate::error::Unreadable;
use crate::kv::state::ScopeState;

/// Most changes of a scope held for its next search; beyond this the search compares versions itself.
const FEED_CHANGES: usize = 10_000;
const FEED_BYTES: usize = 4 << 20;

/// The indexes of one provider. A scope's size is in bytes.
pub(crate) type IndexCache = ScopeCache<TextFeed, ScopeIndex>;
/// One scope's index, and the changes not yet applied to it.
pub(crate) type CachedIndex = Cached<TextFeed, ScopeIndex>;
/// The turn to change one scope's index.
pub(crate) type IndexTurn<'c> = Turn<'c, TextFeed, ScopeIndex>;

/// Committed changes of texts, queued for an index.
#[derive(Debug, Default)]
pub(crate) struct TextFeed {
    changes: VecDeque<TextChange>,
    bytes: usize,
}

impl Feed for TextFeed {
    type Change = TextChange;

    fn push(&mut self, change: TextChange) {
        self.bytes += bytes_of(&change);
        self.changes.push_back(change);
        // The gap in the numbers shows that changes were dropped.
        while self.changes.len() > FEED_CHANGES || self.bytes > FEED_BYTES {
            let Some(dropped) = self.changes.pop_front() else { break };
            self.bytes -= bytes_of(&dropped);
        }
    }
}

impl TextFeed {
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Takes the changes visible in a snapshot.
    fn take_until(&mut self, state: ScopeState) -> Vec<TextChange> {
        let mut changes = Vec::new();
        while let Some(next) = self.changes.front() {
            if next.space == state.space && next.number > state.changes {
                break;
            }
            let Some(change) = self.changes.pop_front() else { break };
            self.bytes -= bytes_of(&change);
            changes.push(change);
        }
        changes
    }
}

fn bytes_of(change: &TextChange) -> usize {
    let edit = match &change.edit {
        TextEdit::Put { key, value, text, .. } => {
            key.as_str().len() + value.len_bytes() + text.as_ref().map_or(0, String::len)
        }
        TextEdit::Removed { key } => key.as_str().len(),
        TextEdit::None => 0,
    };
    size_of::<TextChange>() + edit
}

impl IndexCache {
    /// Brings an index up to the snapshot open on `connection`, in which the scope is `state`.
    ///
    /// If it exceeds the budget, drops it and returns false.
    pub(crate) fn catch_up(
        &self,
        digest: &ScopeDigest,
        turn: &IndexTurn<'_>,
        connection: &Connection,
        state: ScopeState,
        now: Timestamp,
    ) -> Result<bool, Unreadable> {
        self.pass_barrier();
        let (cached, mut index) = (turn.cached(), turn.value());
        // If the clock was set back, expired entries are live again.
        if index.space != state.space || now.as_millis() < index.expired_at {
            *index = ScopeIndex::of(state.space);
        }
        let changes = cached.feed().take_until(state);
        index.load(connection, state)?;
        if !index.apply(changes, state) {
            // Another process wrote, or too many changes were dropped.
            if !index.compare(connection, state, self.budget())? {
                self.give_up(digest, state.bytes);
                return Ok(false);
            }
        }
        index.expire(now);
        if index.measured == index.changes {
            return Ok(true);
        }
        index.measured = index.changes;
        cached.weigh(index.heap_bytes());
        Ok(self.make_room(digest, state.bytes))
    }
}
