//! Access counts: held in memory and written in batches, so that a read never writes.
//!
//! For backends that store an entry's access count in its row. A row is identified by its space, its key and its
//! incarnation, a number that no other entry of the same key has.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts of one key that are not, or perhaps not yet, in its row.
#[derive(Clone, Copy, Debug)]
struct Count {
    /// The incarnation of the key that was read.
    born: i64,
    /// Not written yet.
    pending: u64,
    /// A write is in progress for these.
    writing: u64,
    /// The row's count once it includes `writing`. Rows only grow, so a row with at least this many includes it.
    reaches: Option<u64>,
}

/// One row's share of a write.
#[derive(Clone, Debug)]
pub struct Share {
    /// The row's space.
    pub space: i64,
    /// Its key.
    pub key: Box<str>,
    /// The incarnation that was read; the row of another one is left alone.
    pub born: i64,
    /// How much to add.
    pub count: u64,
}

#[derive(Debug, Default)]
struct Counts {
    spaces: HashMap<i64, HashMap<Box<str>, Count>>,
    keys: usize,
    /// What is being written, and the rows' new counts (`None`: the row is gone).
    writing: Vec<(Share, Option<u64>)>,
}

/// The counts of one provider.
#[derive(Debug)]
pub struct AccessCounts {
    counts: Mutex<Counts>,
    limit: usize,
}

impl AccessCounts {
    /// No counts yet. Once `limit` keys have counts, it is time to write.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { counts: Mutex::default(), limit }
    }

    /// Locks the counts, for several operations under one lock.
    #[must_use]
    pub fn look(&self) -> Look<'_> {
        Look { counts: self.lock(), limit: self.limit }
    }

    /// Number of keys with counts in memory.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.lock().keys
    }

    /// Starts writing up to `limit` keys' counts. Only one write at a time.
    #[must_use]
    pub fn take(&self, limit: usize) -> Vec<Share> {
        let mut counts = self.lock();
        let mut shares = Vec::new();
        for (&space, keys) in &mut counts.spaces {
            for (key, count) in keys {
                if shares.len() == limit {
                    break;
                }
                if count.pending > 0 {
                    count.writing = std::mem::take(&mut count.pending);
                    count.reaches = None;
                    shares.push(Share { space, key: key.clone(), born: count.born, count: count.writing });
                }
            }
        }
        counts.writing = shares.iter().map(|share| (share.clone(), None)).collect();
        shares
    }

    /// Records the rows' counts once the transaction commits.
    pub fn wrote(&self, reached: Vec<Option<u64>>) {
        let mut counts = self.lock();
        for ((_, to), reached) in counts.writing.iter_mut().zip(reached) {
            *to = reached;
        }
    }

    /// Called before the commit: from now on a row may or may not include what is being written.
    pub fn committing(&self) {
        let mut counts = self.lock();
        let Counts { spaces, writing, .. } = &mut *counts;
        for (share, reaches) in writing {
            if let Some(count) = spaces.get_mut(&share.space).and_then(|keys| keys.get_mut(&share.key))
                && count.born == share.born
            {
                count.reaches = *reaches;
            }
        }
    }

    /// Called after the commit: the rows include what was being written.
    pub fn committed(&self) {
        self.settle(|count| {
            count.writing = 0;
            count.reaches = None;
        });
    }

    /// The write failed and must be tried again.
    pub fn failed(&self) {
        self.settle(|count| {
            count.pending += std::mem::take(&mut count.writing);
            count.reaches = None;
        });
    }

    /// Forgets the counts of a key, or of every key, in a space whose rows are gone.
    pub fn forget(&self, space: i64, key: Option<&str>) {
        let mut counts = self.lock();
        let Counts { spaces, keys: held, writing } = &mut *counts;
        writing.retain(|(share, _)| share.space != space || key.is_some_and(|key| *share.key != *key));
        match key {
            None => *held -= spaces.remove(&space).map_or(0, |gone| gone.len()),
            Some(key) => {
                let Some(of_space) = spaces.get_mut(&space) else { return };
                *held -= usize::from(of_space.remove(key).is_some());
                if of_space.is_empty() {
                    spaces.remove(&space);
                }
            }
        }
    }

    fn settle(&self, change: impl Fn(&mut Count)) {
        let mut counts = self.lock();
        for (share, _) in std::mem::take(&mut counts.writing) {
            let Some(keys) = counts.spaces.get_mut(&share.space) else { continue };
            let Some(count) = keys.get_mut(&share.key) else { continue };
            if count.born == share.born {
                change(count);
            }
            if count.pending == 0 && count.writing == 0 {
                keys.remove(&share.key);
                if keys.is_empty() {
                    counts.spaces.remove(&share.space);
                }
                counts.keys -= 1;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts under the lock.
#[derive(Debug)]
pub struct Look<'a> {
    counts: MutexGuard<'a, Counts>,
    limit: usize,
}

/// Counts of one space under the lock.
#[derive(Clone, Copy, Debug)]
pub struct LookInSpace<'a>(Option<&'a HashMap<Box<str>, Count>>);

impl LookInSpace<'_> {
    /// The access count of an entry whose row has `stored`.
    #[must_use]
    pub fn total(&self, key: &str, born: i64, stored: u64) -> u64 {
        match self.0.and_then(|keys| keys.get(key)) {
            Some(count) if count.born == born => count.total(stored),
            _ => stored,
        }
    }
}

impl Look<'_> {
    /// The counts of one space, for several of its entries.
    #[must_use]
    pub fn space(&self, space: i64) -> LookInSpace<'_> {
        LookInSpace(self.counts.spaces.get(&space))
    }

    /// As [`LookInSpace::total`].
    #[must_use]
    pub fn total(&self, space: i64, key: &str, born: i64, stored: u64) -> u64 {
        self.space(space).total(key, born, stored)
    }

    /// Counts an access. Returns the count before it and whether it is time to write.
    pub fn access(&mut self, space: i64, key: &str, born: i64, stored: u64) -> (u64, bool) {
        let Counts { spaces, keys: held, .. } = &mut *self.counts;
        let keys = spaces.entry(space).or_default();
        if let Some(count) = keys.get_mut(key) {
            if count.born != born {
                *count = Count { born, pending: 0, writing: 0, reaches: None };
            }
            let total = count.total(stored);
            count.pending += 1;
            return (total, false);
        }
        // Twice the limit is reached only if writing fails. Further counts are then lost, which keeps memory bounded.
        if *held < self.limit.saturating_mul(2) {
            keys.insert(key.into(), Count { born, pending: 1, writing: 0, reaches: None });
            *held += 1;
        }
        (stored, *held >= self.limit)
    }
}

impl Count {
    fn total(&self, stored: u64) -> u64 {
        let writing = match self.reaches {
            Some(reaches) if stored >= reaches => 0,
            _ => self.writing,
        };
        stored + writing + self.pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_the_same_before_during_and_after_its_write() {
        let counts = AccessCounts::new(10);
        assert_eq!(counts.look().access(1, "k", 5, 7), (7, false));
        assert_eq!(counts.look().access(1, "k", 5, 7), (8, false));
        assert_eq!(counts.take(10).len(), 1);
        assert_eq!(counts.look().total(1, "k", 5, 7), 9);
        counts.wrote(vec![Some(9)]);
        counts.committing();
        assert_eq!(counts.look().total(1, "k", 5, 7), 9, "a snapshot before the commit");
        assert_eq!(counts.look().total(1, "k", 5, 9), 9, "a snapshot after it");
        counts.committed();
        assert_eq!(counts.look().total(1, "k", 5, 9), 9);
        assert_eq!(counts.keys(), 0);
    }

    #[test]
    fn a_failed_write_loses_nothing() {
        let counts = AccessCounts::new(10);
        counts.look().access(1, "k", 5, 0);
        let _taken = counts.take(10);
        counts.look().access(1, "k", 5, 0);
        counts.failed();
        assert_eq!(counts.look().total(1, "k", 5, 0), 2);
    }

    #[test]
    fn a_new_incarnation_starts_at_zero() {
        let counts = AccessCounts::new(10);
        counts.look().access(1, "k", 5, 0);
        assert_eq!(counts.look().total(1, "k", 6, 0), 0);
        assert_eq!(counts.look().access(1, "k", 6, 0), (0, false));
        assert_eq!(counts.look().total(1, "k", 6, 0), 1);
    }

    #[test]
    fn forgotten_counts_are_dropped_even_while_being_written() {
        let counts = AccessCounts::new(10);
        for (space, key) in [(1, "a"), (1, "b"), (2, "a")] {
            counts.look().access(space, key, 5, 0);
        }
        assert_eq!(counts.take(10).len(), 3);
        counts.forget(1, Some("a"));
        counts.forget(1, Some("never"));
        assert_eq!(counts.keys(), 2);
        counts.forget(1, None);
        counts.committing();
        counts.committed();
        assert_eq!(counts.keys(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let counts = AccessCounts::new(2);
        for key in ["a", "b", "c", "d", "e", "f"] {
            counts.look().access(1, key, 1, 0);
        }
        assert_eq!(counts.keys(), 4);
    }
}
