//! The best of many scored documents so far.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A scored document.
#[derive(Debug)]
pub(super) struct Scored<T> {
    pub(super) document: T,
    pub(super) bm25: f64,
}

/// At most `limit` documents, the best of those offered. Ties are broken by the documents' own order.
pub(super) struct Best<T> {
    limit: usize,
    /// The worst on top.
    heap: BinaryHeap<Scored<T>>,
}

impl<T: Ord> Best<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::new() }
    }

    /// `filter` is asked only about documents that would be among the best so far.
    pub(super) fn offer(&mut self, document: T, bm25: f64, filter: impl FnOnce(&T) -> bool) {
        let full = self.heap.len() >= self.limit;
        let scored = Scored { document, bm25 };
        if full && self.heap.peek().is_none_or(|worst| scored >= *worst) || !filter(&scored.document) {
            return;
        }
        if full {
            self.heap.pop();
        }
        self.heap.push(scored);
    }

    /// Best first.
    pub(super) fn into_sorted(self) -> Vec<Scored<T>> {
        self.heap.into_sorted_vec()
    }
}

/// Ordered worst last.
impl<T: Ord> Ord for Scored<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.bm25.total_cmp(&self.bm25).then_with(|| self.document.cmp(&other.document))
    }
}

impl<T: Ord> PartialOrd for Scored<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Scored<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord> Eq for Scored<T> {}
