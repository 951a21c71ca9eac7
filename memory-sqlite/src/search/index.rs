//! The text index of one scope, as of a snapshot.

use std::borrow::Cow;
use std::sync::Arc;

use memory_core::json::Json;
use memory_core::lexical::{Segment, SegmentedIndex};
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{Result, Timestamp};
use rusqlite::{Connection, ErrorCode, params};

use crate::commit::feed::{TextChange, TextEdit};
use crate::error::{self, Unreadable, malformed};
use crate::file::column::unsigned;
use crate::kv::state::ScopeState;

/// Documents read between two measurements of the memory.
const MEASURE_EVERY: usize = 4_096;
/// Scopes with fewer documents are analysed in a millisecond or two: their indexes are not stored.
pub(super) const LEAST: usize = 512;
/// The index is stored again once this share of its documents has changed, so that a change costs writing at most 64
/// documents, some four kilobytes.
const SHARE: usize = 64;

/// The documents of one scope, as of its change number `changes`.
#[derive(Debug, Default)]
pub(crate) struct ScopeIndex {
    pub(super) space: i64,
    pub(super) changes: i64,
    /// Whether the stored segments were read.
    loaded: bool,
    /// Whether a stored segment is damaged, or of another version.
    pub(super) unreadable: bool,
    /// Whether its segments were rebuilt but not all stored: storing is in progress, was refused, or came too late.
    pub(super) unstored: bool,
    /// Whether it has all documents as of `changes`.
    complete: bool,
    /// When expired documents were last removed, by the caller's clock.
    pub(super) expired_at: i64,
    /// The change at which the memory was last measured.
    pub(super) measured: i64,
    pub(crate) documents: SegmentedIndex,
}

impl ScopeIndex {
    pub(super) fn of(space: i64) -> Self {
        Self { space, ..Self::default() }
    }

    /// Whether so much has changed that its segments should be rebuilt and stored.
    pub(super) fn is_scattered(&self) -> bool {
        self.documents.changed() >= LEAST.max(self.documents.len() / SHARE)
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
                    self.documents.insert(
                        key.as_str().into(),
                        version,
                        &text,
                        expires_at.map(Timestamp::as_millis),
                    );
                }
                TextEdit::Removed { key } => self.documents.remove(key.as_str()),
                TextEdit::None => {}
            }
            self.changes = change.number;
        }
        self.changes == state.changes
    }

    /// Reads the stored segments, once. All documents in them are current, so none is missing if there are as many as entries;
    /// unless another program has changed these.
    pub(super) fn load(&mut self, connection: &Connection, state: ScopeState) -> Result<(), Unreadable> {
        if std::mem::replace(&mut self.loaded, true) || state.segments == 0 {
            return Ok(());
        }
        if let Err(damage) = self.read_segments(connection, state) {
            if error::code(&damage) != Some(ErrorCode::DatabaseCorrupt) {
                return Err(damage.into());
            }
            (self.documents, self.unreadable) = (SegmentedIndex::new(), true);
        }
        if self.unreadable {
            tracing::warn!(
                "a stored text index is damaged or of another version; what is missing is made anew"
            );
        }
        self.changes = state.changes;
        self.complete = !state.recount && self.documents.len() as u64 == state.entries;
        Ok(())
    }

    fn read_segments(&mut self, connection: &Connection, state: ScopeState) -> rusqlite::Result<()> {
        let mut stored =
            connection.prepare_cached("SELECT data FROM text_segment WHERE space = ?1 ORDER BY first")?;
        let mut rows = stored.query([state.space])?;
        let mut last: Option<Arc<Segment>> = None;
        while let Some(row) = rows.next()? {
            let segment = row.get_ref(0)?.as_blob().ok().and_then(Segment::decode).map(Arc::new);
            let last_key = last.as_ref().and_then(|last| last.last());
            match segment.filter(|segment| last_key < segment.first()) {
                Some(segment) => {
                    self.documents.add(Arc::clone(&segment));
                    last = Some(segment);
                }
                None => self.unreadable = true,
            }
        }
        Ok(())
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
        let mut listing = connection
            .prepare_cached("SELECT key, version, expires_at FROM entry WHERE space = ?1 ORDER BY key")?;
        let mut content = connection.prepare_cached(
            "SELECT coalesce(e.text, b.text), coalesce(e.value, b.value) \
             FROM entry e LEFT JOIN body b ON b.id = e.body WHERE e.space = ?1 AND e.key = ?2",
        )?;
        let mut seen = 0_usize;
        let mut comparison = self.documents.compare();
        let mut rows = listing.query(params![state.space])?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_str().map_err(|_| malformed("key"))?;
            let version = unsigned(row.get(1)?, "version")?;
            if !comparison.knows(key, version) {
                let mut found = content.query(params![state.space, key])?;
                let text = found.next()?.ok_or_else(|| malformed("entry"))?;
                let text = search_text(
                    text.get_ref(0)?.as_str_or_null().map_err(|_| malformed("text"))?,
                    text.get_ref(1)?.as_str().map_err(|_| malformed("value"))?,
                )?;
                self.documents.insert(key.into(), version, &text, row.get(2)?);
            }
            seen += 1;
            if seen.is_multiple_of(MEASURE_EVERY) && self.heap_bytes() > budget {
                return Ok(false);
            }
        }
        comparison.end(&mut self.documents);
        self.changes = state.changes;
        self.complete = true;
        Ok(true)
    }

    pub(super) fn expire(&mut self, now: Timestamp) {
        if self.documents.expire(now.as_millis()) > 0 {
            self.expired_at = now.as_millis();
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.documents.heap_bytes()
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
