//! The largest of many scopes, in bounded memory.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use memory_core::{Scope, ScopeUse, Timestamp};

/// Most candidates in memory at a time.
const MAX_CANDIDATES: usize = 10_000;

/// The order of eviction: the largest first, then the longest idle, then by tenant, kind and id.
pub(super) type Place = (Reverse<u64>, Timestamp, Scope);

/// The first scopes in that order, after a given one.
#[derive(Debug)]
pub(super) struct Candidates {
    after: Option<Place>,
    first: BTreeSet<Place>,
    most: usize,
    /// Whether some did not fit.
    pub(super) overflowed: bool,
}

impl Candidates {
    pub(super) fn after(after: Option<Place>) -> Self {
        Self { after, first: BTreeSet::new(), most: MAX_CANDIDATES, overflowed: false }
    }

    pub(super) fn add(&mut self, found: ScopeUse) {
        let place = (Reverse(found.bytes()), found.last_used_at, found.scope);
        if self.after.as_ref().is_some_and(|after| place <= *after) {
            return;
        }
        self.first.insert(place);
        if self.first.len() > self.most {
            self.first.pop_last();
            self.overflowed = true;
        }
    }

    pub(super) fn into_first(self) -> BTreeSet<Place> {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(id: &str, bytes: u64, at: i64) -> ScopeUse {
        let scope = Scope::user("t", id).unwrap();
        ScopeUse::new(scope, bytes, 0, Timestamp::from_millis_clamped(at))
    }

    fn ids(candidates: Candidates) -> Vec<String> {
        candidates.into_first().into_iter().map(|(_, _, scope)| scope.id.as_str().to_owned()).collect()
    }

    #[test]
    fn the_largest_come_first_then_the_longest_idle_then_by_name() {
        let mut candidates = Candidates::after(None);
        for (id, bytes, at) in [("c", 5, 9), ("b", 5, 9), ("late", 7, 9), ("early", 7, 1), ("small", 1, 0)] {
            candidates.add(found(id, bytes, at));
        }
        assert_eq!(ids(candidates), ["early", "late", "b", "c", "small"]);
    }

    #[test]
    fn candidates_that_do_not_fit_come_in_the_next_pass() {
        let all: Vec<ScopeUse> = (0..25).map(|at| found(&format!("{at:02}"), at, 0)).collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let mut candidates = Candidates { most: 10, ..Candidates::after(after.take()) };
            all.iter().cloned().for_each(|found| candidates.add(found));
            let more = candidates.overflowed;
            let first = candidates.into_first();
            assert!(first.len() <= 10);
            after = first.last().cloned();
            seen.extend(first.into_iter().map(|(bytes, ..)| bytes.0));
            if !more {
                break;
            }
        }
        assert_eq!(seen, (0..25).rev().collect::<Vec<u64>>());
    }
}
