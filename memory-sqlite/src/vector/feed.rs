//! Committed changes of vectors, queued for a matrix.

use std::collections::VecDeque;

use crate::commit::feed::{StoredVector, VectorChange};
use crate::commit::scope_cache;

/// Most changes held for the next search; beyond this the search compares ids itself.
const HELD: usize = 20_000;

/// One change, or several consecutive ones that changed no vector.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) space: i64,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) gone: Vec<i64>,
    pub(crate) stored: Vec<StoredVector>,
}

impl Item {
    fn is_silent(&self) -> bool {
        self.gone.is_empty() && self.stored.is_empty()
    }

    fn weight(&self) -> usize {
        1 + self.gone.len() + self.stored.len()
    }
}

/// Changes of one scope in the order of their commits.
#[derive(Debug, Default)]
pub(crate) struct VectorFeed {
    items: VecDeque<Item>,
    weight: usize,
}

impl scope_cache::Feed for VectorFeed {
    type Change = VectorChange;

    fn push(&mut self, change: VectorChange) {
        let VectorChange { space, number, removed: gone, stored } = change;
        let item = Item { space, first: number, last: number, gone, stored };
        if item.is_silent()
            && let Some(back) = self.items.back_mut()
            && back.is_silent()
            && back.space == space
            && back.last + 1 == number
        {
            back.last = number;
            return;
        }
        self.weight += item.weight();
        self.items.push_back(item);
        // The gap in the numbers shows that changes were dropped.
        while self.weight > HELD {
            let Some(dropped) = self.items.pop_front() else { break };
            self.weight -= dropped.weight();
        }
    }
}

impl VectorFeed {
    /// Takes the changes visible in a snapshot in which the scope is `space` after `changes`.
    pub(crate) fn take_until(&mut self, space: i64, changes: i64) -> Vec<Item> {
        let mut taken = Vec::new();
        while let Some(front) = self.items.front_mut() {
            if front.space == space && front.last > changes {
                if front.first <= changes {
                    // Only silent items cover several changes.
                    let (gone, stored) = (Vec::new(), Vec::new());
                    taken.push(Item { space, first: front.first, last: changes, gone, stored });
                    front.first = changes + 1;
                }
                break;
            }
            let Some(item) = self.items.pop_front() else { break };
            self.weight -= item.weight();
            taken.push(item);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::scope_cache::Feed as _;

    fn change(number: i64, gone: &[i64]) -> VectorChange {
        VectorChange { space: 1, number, removed: gone.to_vec(), stored: Vec::new() }
    }

    fn spans(items: &[Item]) -> Vec<(i64, i64)> {
        items.iter().map(|item| (item.first, item.last)).collect()
    }

    #[test]
    fn silent_changes_take_no_room() {
        let mut feed = VectorFeed::default();
        (1..=1_000_000).for_each(|number| feed.push(change(number, &[])));
        assert_eq!(feed.items.len(), 1);
        assert_eq!(spans(&feed.take_until(1, 400)), [(1, 400)]);
        assert_eq!(spans(&feed.take_until(1, 1_000_000)), [(401, 1_000_000)]);
        assert!(feed.take_until(1, i64::MAX).is_empty());
    }

    #[test]
    fn a_snapshot_takes_the_changes_it_shows_and_no_more() {
        let mut feed = VectorFeed::default();
        for (number, gone) in [(1, &[7][..]), (2, &[]), (3, &[]), (4, &[8])] {
            feed.push(change(number, gone));
        }
        assert_eq!(spans(&feed.take_until(1, 2)), [(1, 1), (2, 2)]);
        assert_eq!(spans(&feed.take_until(1, 9)), [(3, 3), (4, 4)]);
    }

    #[test]
    fn with_too_many_the_oldest_are_dropped() {
        let mut feed = VectorFeed::default();
        (0..20_000).for_each(|number| feed.push(change(number, &[number])));
        assert!(feed.weight <= HELD);
        assert_eq!(feed.take_until(1, i64::MAX).first().map(|item| item.first), Some(10_000));
    }
}
