//! Notes: private to an agent and its run, without any schema.

use memory_core::{Error, Result, Timestamp};
use serde::Serialize;

use crate::encoding::word;
use crate::note::{Actor, Note, NoteSource};
use crate::store::{Cells, Space, int, text};

/// Most bytes of a note.
const MAX_NOTE: usize = 16 << 10;
/// Notes listed at once.
const PAGE: usize = 200;

/// A stored note.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoredNote {
    /// Its id.
    pub id: String,
    /// Where it came from.
    pub source: NoteSource,
    /// When what it says was observed.
    pub observed_at: Timestamp,
    /// Its words; `None`: erased.
    pub text: Option<String>,
    /// `new`, `leased` or `done`.
    pub state: String,
    /// What became of it, as JSON, once it is done; or why it is tried again.
    pub result: Option<String>,
}

/// Where agents and tools write down notes. Nothing here is shared.
#[derive(Clone, Debug)]
pub struct WorkingMemory(Space);

impl WorkingMemory {
    /// The notes of this space.
    #[must_use]
    pub fn new(space: &Space) -> Self {
        Self(space.clone())
    }

    /// Stores a note; returns it with its id. `observed_at` is when its content was observed, `None` for now. A time in
    /// the future counts as now.
    ///
    /// # Errors
    /// `invalid_argument` for a blank note or one with a NUL character, `too_large` beyond 16 KiB; the store's errors.
    pub async fn note(
        &self,
        actor: &Actor,
        source: NoteSource,
        words: &str,
        observed_at: Option<Timestamp>,
    ) -> Result<Note> {
        if words.trim().is_empty() || words.contains('\0') {
            return Err(Error::invalid("the note is blank, or has a NUL character"));
        }
        if words.len() > MAX_NOTE {
            return Err(Error::too_large("note", words.len(), MAX_NOTE, "bytes"));
        }
        let now = self.0.now();
        let note = Note {
            id: self.0.fresh(),
            actor: actor.clone(),
            source,
            observed_at: observed_at.map_or(now, |at| at.min(now)),
            text: words.to_owned(),
        };
        self.0
            .plain()
            .exec(
                "INSERT INTO notes (note_id, seq, agent, run, trust, source, observed_at, recorded_at, text, state, lease, \
                 lease_until, attempts, result) SELECT ?, coalesce(max(seq), 0) + 1, ?, ?, ?, ?, ?, ?, ?, 'new', NULL, 0, 0, \
                 NULL FROM notes",
                &[
                    text(&note.id),
                    text(&actor.agent),
                    text(&actor.run),
                    text(word(&actor.trust)?),
                    text(word(&source)?),
                    int(note.observed_at.as_millis()),
                    int(now.as_millis()),
                    text(words),
                ],
            )
            .await?;
        Ok(note)
    }

    /// The last notes of an agent's run, oldest first: at most 200.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn notes(&self, agent: &str, run: &str) -> Result<Vec<StoredNote>> {
        let rows = self
            .0
            .plain()
            .query(
                "SELECT note_id, source, observed_at, text, state, result FROM notes WHERE agent = ? AND run = ? \
                 ORDER BY seq DESC LIMIT ?",
                &[text(agent), text(run), int(PAGE as u64)],
            )
            .await?;
        let one = |mut cells: Cells| {
            Ok(StoredNote {
                id: cells.text()?,
                source: cells.word()?,
                observed_at: cells.time()?,
                text: cells.maybe_text()?,
                state: cells.text()?,
                result: cells.maybe_text()?,
            })
        };
        rows.into_iter().rev().map(one).collect()
    }
}
