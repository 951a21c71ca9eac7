//! Stored segments of text indexes within a write transaction.
//!
//! Each segment of a scope covers a range of keys of its own, and all documents in it are current: whatever removes or replaces
//! an entry removes the segment of its key in the same transaction, since the words in it must not outlast it. What a scope's
//! segments lack is read from its entries.

use std::sync::Arc;

use memory_core::ScopeDigest;
use memory_core::lexical::Segment;
use rusqlite::params;

use crate::commit::batch::Batch;
use crate::commit::scope::Space;
use crate::error::Fault;
use crate::file::column::signed;

/// Bytes of a page.
const PAGE: usize = 4_096;

/// Segments of a scope to store.
#[derive(Clone, Debug)]
pub(crate) struct NewSegments {
    pub(crate) digest: ScopeDigest,
    pub(crate) space: i64,
    /// The scope's count of changes of which they are.
    pub(crate) changes: i64,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Whether these are the last, so that with those stored before all entries are in one.
    pub(crate) complete: bool,
}

impl Batch<'_> {
    /// Removes the segment that covers a key.
    pub(crate) fn forget_segment(&mut self, space: &mut Space, key: &str) -> rusqlite::Result<()> {
        if space.segments == 0 {
            return Ok(());
        }
        let removed = self
            .statement(
                "DELETE FROM text_segment WHERE last >= ?2 AND id = (SELECT id FROM text_segment \
                 WHERE space = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1)",
            )?
            .execute(params![space.id, key])?;
        if removed > 0 {
            space.segments = space.segments.saturating_sub(1);
            space.touch();
            self.wrote(2);
        }
        Ok(())
    }

    /// Stores segments in place of those whose keys overlap with theirs; false if the scope has changed meanwhile.
    pub(crate) fn put_segments(&mut self, new: &NewSegments) -> Result<bool, Fault> {
        let mut space = self.space(&new.digest)?;
        if (space.id, space.changes) != (new.space, new.changes) {
            return Ok(false);
        }
        for segment in &new.segments {
            let (Some(first), Some(last)) = (segment.first(), segment.last()) else { continue };
            let documents = signed(segment.len() as u64);
            // Documents in stored segments are current, so as many within the same keys are the same.
            let stored = self
                .statement(
                    "SELECT last = ?3 AND documents = ?4 FROM text_segment WHERE space = ?1 AND first = ?2",
                )?
                .query_map(params![space.id, first, last, documents], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<bool>>>()?;
            if stored == [true] {
                continue;
            }
            self.statement("DELETE FROM text_segment WHERE space = ?1 AND first <= ?3 AND last >= ?2")?
                .execute(params![space.id, first, last])?;
            let data = segment.encode();
            self.wrote(2 + data.len() / PAGE);
            self.statement(
                "INSERT INTO text_segment (space, first, last, documents, data) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![space.id, first, last, documents, data])?;
        }
        let segments: i64 = self
            .statement("SELECT count(*) FROM text_segment WHERE space = ?1")?
            .query_row([space.id], |row| row.get(0))?;
        space.segments = segments.unsigned_abs();
        if new.complete {
            space.segmented = space.changes;
        }
        space.touch();
        self.keep(&new.digest, space);
        Ok(true)
    }
}
