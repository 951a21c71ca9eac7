//! A set of rows of a matrix.

/// Some rows of a matrix. Any change of the matrix invalidates it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Bit `slot % 64` of word `slot / 64`; words past the end are zero.
    words: Vec<u64>,
}

impl Selection {
    pub(super) fn from_slots(slots: impl Iterator<Item = usize>) -> Self {
        let mut selection = Self::default();
        slots.for_each(|slot| selection.insert(slot));
        selection
    }

    /// Keeps the rows that `other` holds too.
    pub(crate) fn and(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// A selection from words of bits.
    pub(super) fn from_words(words: Vec<u64>) -> Self {
        Self { words }
    }

    /// The bits of slots `64·at ..`.
    pub(super) fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    fn insert(&mut self, slot: usize) {
        if self.words.len() <= slot / 64 {
            self.words.resize(slot / 64 + 1, 0);
        }
        if let Some(word) = self.words.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
    }
}
