//! Re-embedding: what waits for a vector, and storing it.

use memory_core::{EmbeddingModel, Key, RecordVector, Scope};

use super::super::fault::{Fault, Viewer};
use super::super::store::Reference;

impl Reference {
    /// Live entries with a text and without a vector of that model, in key order.
    pub(super) fn without_vector(&self, scope: &Scope, model: &EmbeddingModel, except: &str) -> Vec<Missing> {
        self.read(scope, |state, now| {
            state
                .all_live(now, Viewer::Search)
                .filter(|stored| except.is_empty() || !stored.entry.key.as_str().starts_with(except))
                .filter(|stored| stored.vector(model).is_none() || self.faults.has(Fault::ReembedRepeats))
                .filter(|stored| !(self.faults.has(Fault::ReembedLeavesOutBare) && stored.vectors.is_empty()))
                .map(|stored| Missing {
                    key: stored.entry.key.clone(),
                    version: stored.entry.version,
                    text: self.text_of(&stored.entry),
                    embedded_text: stored.vectors.iter().find_map(|vector| vector.text.clone()),
                })
                .filter(|missing| self.has_meaning(self.text_to_embed(missing)))
                .collect()
        })
    }

    /// The text that was embedded, if it is known to differ.
    pub(super) fn text_to_embed<'a>(&self, missing: &'a Missing) -> &'a str {
        let embedded_text =
            missing.embedded_text.as_deref().filter(|_| !self.faults.has(Fault::ReembedForgetsText));
        embedded_text.unwrap_or(&missing.text)
    }

    /// Stores the vector of a re-embedding, unless a write came in between.
    pub(super) fn store_again(&self, scope: &Scope, key: &Key, version: u64, vector: RecordVector) {
        self.write(scope, |state, now| {
            let anyway = self.faults.has(Fault::LateReembedLands);
            let touched = self.faults.has(Fault::ReembedTouches).then(|| state.next_version());
            let Some(stored) = state.entries.get_mut(key) else { return };
            if stored.entry.version != version && !anyway {
                return;
            }
            if !self.faults.has(Fault::ReembedKeepsOthers) {
                stored.vectors.clear();
            }
            stored.vectors.push(vector);
            if let Some(version) = touched {
                (stored.entry.version, stored.entry.updated_at) = (version, now);
            }
        });
    }
}

/// An entry without a vector of the current model.
pub(super) struct Missing {
    pub(super) key: Key,
    pub(super) version: u64,
    text: String,
    /// The embedded text of an imported vector, if it differs.
    pub(super) embedded_text: Option<String>,
}
