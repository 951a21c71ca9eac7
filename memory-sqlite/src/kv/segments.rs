//! Stored segments of text indexes within a write transaction.
//!
//! The segments of a scope do not overlap, and every document in them is a row of `entry` in its current version:
//! whatever removes or replaces an entry also removes the segment around its key in the same transaction, so that no
//! word outlasts it. Entries in no segment are analysed by the next search that needs them.

use std::sync::Arc;

use memory_core::ScopeDigest;
use memory_core::lexical::Segment;
use rusqlite::params;

use super::state::ScopeState;
use crate::commit::batch::Batch;
use crate::commit::scope::Space;
use crate::error::Fault;
use crate::file::column::signed;

/// Bytes of a page.
const PAGE: usize = 4_096;

impl Batch<'_> {
    /// Removes the segment around a key.
    pub(crate) fn remove_segment(&mut self, space: &mut Space, key: &str) -> rusqlite::Result<()> {
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

    /// Stores segments built when the scope was as in `state`, replacing those they overlap with, or all if `anew`.
    /// Returns false if the scope has changed since.
    pub(crate) fn put_segments(
        &mut self,
        digest: &ScopeDigest,
        state: ScopeState,
        segments: &[Arc<Segment>],
        anew: bool,
    ) -> Result<bool, Fault> {
        let mut space = self.space(digest)?;
        // Reclaiming does not count as a change, but it lowers the number of entries.
        if (space.id, space.changes, space.entries) != (state.space, state.changes, state.entries) {
            return Ok(false);
        }
        if anew {
            self.statement("DELETE FROM text_segment WHERE space = ?1")?.execute([space.id])?;
        }
        for segment in segments {
            let (Some(first), Some(last)) = (segment.first(), segment.last()) else { continue };
            let documents = signed(segment.len() as u64);
            // What is stored is current, so the same number of documents between the same keys means the same
            // documents.
            let same = self
                .statement(
                    "SELECT 1 FROM text_segment WHERE space = ?1 AND first = ?2 AND last = ?3 AND documents = ?4",
                )?
                .exists(params![space.id, first, last, documents])?;
            if same {
                continue;
            }
            let removed = self
                .statement("DELETE FROM text_segment WHERE space = ?1 AND first <= ?3 AND last >= ?2")?
                .execute(params![space.id, first, last])?;
            let data = segment.encode();
            self.wrote(2 + removed + data.len() / PAGE);
            self.statement(
                "INSERT INTO text_segment (space, first, last, documents, data) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![space.id, first, last, documents, data])?;
        }
        let stored: i64 = self
            .statement("SELECT count(*) FROM text_segment WHERE space = ?1")?
            .query_row([space.id], |row| row.get(0))?;
        space.segments = stored.unsigned_abs();
        space.touch();
        self.keep(digest, space);
        Ok(true)
    }
}
