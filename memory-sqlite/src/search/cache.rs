//! Text indexes of recently searched scopes, kept in step with the database and within a budget.

use std::collections::VecDeque;

use memory_core::{ScopeDigest, Timestamp};
use rusqlite::Connection;

use super::index::ScopeIndex;
use crate::commit::feed::{TextChange, TextEdit};
use crate::commit::scope_cache::{Cached, Feed, ScopeCache};
use crate::error::Unreadable;
use crate::kv::state::ScopeState;

/// Changes of a scope that are held for its next search, at most; with more, the search looks for them itself.
const FEED_CHANGES: usize = 10_000;
const FEED_BYTES: usize = 4 << 20;

/// The indexes of one provider. The size of a scope is its bytes.
pub(crate) type IndexCache = ScopeCache<TextFeed, ScopeIndex>;
/// One scope's index and the changes it does not show yet.
pub(crate) type CachedIndex = Cached<TextFeed, ScopeIndex>;

/// Committed changes of texts on their way to an index.
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
        // The gap that this leaves is noticed by its number.
        while self.changes.len() > FEED_CHANGES || self.bytes > FEED_BYTES {
            let Some(dropped) = self.changes.pop_front() else { break };
            self.bytes -= bytes_of(&dropped);
        }
    }
}

impl TextFeed {
    /// Takes the changes up to a snapshot.
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
    /// Brings an index up to the snapshot that `connection` has open, in which the scope is `state`.
    ///
    /// Returns false where the index does not fit the budget; it is given up then.
    pub(crate) fn catch_up(
        &self,
        digest: &ScopeDigest,
        cached: &CachedIndex,
        index: &mut ScopeIndex,
        connection: &Connection,
        state: ScopeState,
        now: Timestamp,
    ) -> Result<bool, Unreadable> {
        self.pass_barrier();
        // A clock that was set back brings expired entries to life again.
        if index.space != state.space || now.as_millis() < index.expired_at {
            *index = ScopeIndex::of(state.space);
        }
        let changes = cached.feed().take_until(state);
        if !index.apply(changes, state) {
            // Another process wrote, or too much happened since.
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
        index.tidy();
        cached.weigh(index.heap_bytes());
        Ok(self.make_room(digest, state.bytes))
    }
}
