//! The text index of one scope, as of a snapshot.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use memory_core::json::Json;
use memory_core::lexical::LexicalIndex;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{Result, Timestamp};
use rusqlite::{Connection, params};

use crate::commit::feed::{TextChange, TextEdit};
use crate::error::{Unreadable, malformed};
use crate::file::column::unsigned;
use crate::kv::state::ScopeState;

/// Documents read between two measurements of the memory.
const MEASURE_EVERY: usize = 4_096;

/// The documents of one scope, as of its change number `changes`.
#[derive(Debug, Default)]
pub(crate) struct ScopeIndex {
    pub(super) space: i64,
    pub(super) changes: i64,
    /// False until the first comparison with the database.
    complete: bool,
    /// When expired documents were last removed, by the caller's clock.
    pub(super) expired_at: i64,
    /// The change at which the memory was last measured.
    pub(super) measured: i64,
    pub(crate) documents: LexicalIndex<Arc<str>>,
    /// The indexed version of each document.
    versions: HashMap<Arc<str>, u64>,
    key_bytes: usize,
}

impl ScopeIndex {
    pub(super) fn of(space: i64) -> Self {
        Self { space, ..Self::default() }
    }

    /// The indexed version of a key.
    pub(crate) fn version(&self, key: &str) -> Option<u64> {
        self.versions.get(key).copied()
    }

    /// Whether the index is as of the snapshot in which the scope is `state`, with nothing expired by `now`.
    pub(super) fn is_current(&self, state: ScopeState, now: Timestamp) -> bool {
        let now = now.as_millis();
        self.complete
            && (self.space, self.changes) == (state.space, state.changes)
            && now >= self.expired_at
            && self.documents.next_expiry().is_none_or(|at| at > now)
    }

    /// Applies queued changes; false if some are missing.
    pub(super) fn apply(&mut self, changes: Vec<TextChange>, state: ScopeState) -> bool {
        if !self.complete {
            return false;
        }
        for change in changes {
            if change.space != self.space || change.number <= self.changes {
                continue;
            }
            if change.number != self.changes + 1 {
                return false;
            }
            match change.edit {
                TextEdit::Put { key, version, value, text, expires_at } => {
                    let text = text.map_or_else(|| value.search_text(MAX_TEXT_BYTES).into(), Cow::Owned);
                    self.insert(key.as_str().into(), version, &text, expires_at.map(Timestamp::as_millis));
                }
                TextEdit::Removed { key } => self.remove(key.as_str()),
                TextEdit::None => {}
            }
            self.changes = change.number;
        }
        self.changes == state.changes
    }

    /// Compares keys and versions with the database and reads what differs. Returns false when the budget is used
    /// up.
    pub(super) fn compare(
        &mut self,
        connection: &Connection,
        state: ScopeState,
        budget: usize,
    ) -> Result<bool, Unreadable> {
        self.complete = false;
        // Including expired ones: the index itself knows when they expire.
        let mut listing =
            connection.prepare_cached("SELECT key, version, expires_at FROM entry WHERE space = ?1")?;
        let mut content = connection.prepare_cached(
            "SELECT coalesce(e.text, b.text), coalesce(e.value, b.value) \
             FROM entry e LEFT JOIN body b ON b.id = e.body WHERE e.space = ?1 AND e.key = ?2",
        )?;
        let mut seen = 0_usize;
        let mut unseen: HashMap<Arc<str>, u64> = std::mem::take(&mut self.versions);
        let mut rows = listing.query(params![state.space])?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_str().map_err(|_| malformed("key"))?;
            let version = unsigned(row.get(1)?, "version")?;
            let expires_at: Option<i64> = row.get(2)?;
            if let Some((same, _)) = unseen.remove_entry(key).filter(|(_, indexed)| *indexed == version) {
                self.versions.insert(same, version);
            } else {
                let mut found = content.query(params![state.space, key])?;
                let row = found.next()?.ok_or_else(|| malformed("entry"))?;
                let text = search_text(
                    row.get_ref(0)?.as_str_or_null().map_err(|_| malformed("text"))?,
                    row.get_ref(1)?.as_str().map_err(|_| malformed("value"))?,
                )?;
                self.key_bytes += key.len();
                self.insert(key.into(), version, &text, expires_at);
            }
            seen += 1;
            if seen.is_multiple_of(MEASURE_EVERY) && self.heap_bytes() > budget {
                return Ok(false);
            }
        }
        for key in unseen.into_keys() {
            self.documents.remove(&key);
            self.key_bytes = self.key_bytes.saturating_sub(key.len());
        }
        self.changes = state.changes;
        self.complete = true;
        Ok(true)
    }

    fn insert(&mut self, key: Arc<str>, version: u64, text: &str, expires_at: Option<i64>) {
        if self.versions.insert(Arc::clone(&key), version).is_none() {
            self.key_bytes += key.len();
        }
        self.documents.insert(key, text, expires_at);
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        if self.documents.expire(now.as_millis()) > 0 {
            self.expired_at = now.as_millis();
        }
    }

    fn remove(&mut self, key: &str) {
        if self.versions.remove(key).is_some() {
            self.key_bytes = self.key_bytes.saturating_sub(key.len());
        }
        self.documents.remove(key);
    }

    /// Forgets the versions of expired documents once there are many.
    pub(super) fn tidy(&mut self) {
        if self.versions.len() > 2 * self.documents.len() + 1_024 {
            self.versions.retain(|key, _| self.documents.contains(key));
            self.versions.shrink_to_fit();
            self.key_bytes = self.versions.keys().map(|key| key.len()).sum();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        // The version table, and the keys with their reference counts.
        self.documents.heap_bytes()
            + self.versions.capacity() * 8 / 7 * 25
            + self.key_bytes
            + 16 * self.versions.len()
    }
}

/// The text of a stored entry that search indexes.
pub(crate) fn search_text<'a>(text: Option<&'a str>, value: &str) -> Result<Cow<'a, str>> {
    match text {
        Some(text) => Ok(text.into()),
        None => {
            let value: Json = value.parse().map_err(|_| malformed("value"))?;
            Ok(value.search_text(MAX_TEXT_BYTES).into())
        }
    }
}
