//! The values of one field.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use memory_core::Scalar;

use super::test::Test;

/// Code of a row without a value.
const ABSENT: u32 = 0;

/// One field of every row: the distinct values, and which one each row has.
#[derive(Default)]
pub(super) struct Column {
    /// Per slot, the index of its value plus 1; slots past the end have none, so an unused field costs nothing.
    codes: Vec<u32>,
    values: Vec<Scalar>,
    /// Latest code of each hash; `same_hash` links to earlier ones.
    by_hash: HashMap<u64, u32>,
    same_hash: Vec<u32>,
    hasher: RandomState,
    text_bytes: usize,
}

impl Column {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.codes.capacity() * size_of::<u32>()
            + self.values.capacity() * size_of::<Scalar>()
            + self.same_hash.capacity() * size_of::<u32>()
            // A hash table keeps an eighth empty, and a control byte per slot.
            + self.by_hash.capacity() * (size_of::<(u64, u32)>() + 1) * 8 / 7
            + self.text_bytes
    }

    /// Sets the value of the row at `slot`; `slots` is the number of rows.
    pub(super) fn set(&mut self, slot: usize, slots: usize, value: &Scalar) {
        let code = self.code(value);
        if self.codes.len() <= slot {
            self.codes.reserve(slots.saturating_sub(self.codes.len()));
            self.codes.resize(slot + 1, ABSENT);
        }
        if let Some(stored) = self.codes.get_mut(slot) {
            *stored = code;
        }
    }

    /// Keeps the rows for which `kept` is true, in order. Unused values are dropped once they could be the
    /// majority.
    pub(super) fn compact(&mut self, kept: &dyn Fn(usize) -> bool) {
        let mut slot = 0;
        self.codes.retain(|_| {
            slot += 1;
            kept(slot - 1)
        });
        self.codes.shrink_to_fit();
        if self.values.len() > self.codes.len() {
            self.forget_unused();
        }
    }

    /// Rebuilds the dictionary from the values in use.
    fn forget_unused(&mut self) {
        let mut codes = std::mem::take(&mut self.codes);
        let old = std::mem::replace(self, Self { hasher: self.hasher.clone(), ..Self::default() });
        let mut renamed = vec![ABSENT; old.values.len()];
        for code in codes.iter_mut().filter(|code| **code != ABSENT) {
            let at = usize::try_from(*code).unwrap_or(usize::MAX) - 1;
            if let (Some(renamed), Some(value)) = (renamed.get_mut(at), old.values.get(at)) {
                if *renamed == ABSENT {
                    *renamed = self.code(value);
                }
                *code = *renamed;
            }
        }
        self.codes = codes;
    }

    /// A bitmap of the rows among `slots` that pass.
    pub(super) fn words(&self, slots: usize, test: &Test<'_>) -> Vec<u64> {
        let passes: Vec<bool> = std::iter::once(test.holds(None))
            .chain(self.values.iter().map(|value| test.holds(Some(value))))
            .collect();
        let absent = if test.holds(None) { u64::MAX } else { 0 };
        let mut words = Vec::with_capacity(slots.div_ceil(64));
        for codes in self.codes.chunks(64) {
            let mut word = 0;
            for (bit, code) in codes.iter().enumerate() {
                let passes = usize::try_from(*code).ok().and_then(|code| passes.get(code));
                word |= u64::from(passes.copied().unwrap_or(false)) << bit;
            }
            if codes.len() < 64 {
                word |= absent << codes.len();
            }
            words.push(word);
        }
        words.resize(slots.div_ceil(64), absent);
        words
    }

    /// The code of a value, assigned if new.
    fn code(&mut self, value: &Scalar) -> u32 {
        let hash = match value {
            Scalar::Bool(value) => self.hasher.hash_one((0_u8, *value)),
            Scalar::Int(value) => self.hasher.hash_one((1_u8, *value)),
            Scalar::Float(value) => self.hasher.hash_one((2_u8, value.to_bits())),
            Scalar::Text(value) => self.hasher.hash_one((3_u8, value.as_str())),
        };
        let mut code = self.by_hash.get(&hash).copied().unwrap_or(ABSENT);
        while code != ABSENT {
            let at = usize::try_from(code).unwrap_or(usize::MAX) - 1;
            match (self.values.get(at), self.same_hash.get(at)) {
                (Some(known), _) if known == value => return code,
                (_, Some(earlier)) => code = *earlier,
                _ => code = ABSENT,
            }
        }
        // More than 2^32 distinct values would need more memory than any scope's rows.
        let Ok(code) = u32::try_from(self.values.len() + 1) else { return ABSENT };
        if let Scalar::Text(text) = value {
            self.text_bytes += text.len();
        }
        self.values.push(value.clone());
        self.same_hash.push(self.by_hash.insert(hash, code).unwrap_or(ABSENT));
        code
    }
}
