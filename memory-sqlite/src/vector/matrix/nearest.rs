//! The candidates of a running search.

/// A row that may be among the nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Near {
    /// Which row.
    pub(crate) id: i64,
    /// Approximate cosine to the query.
    pub(crate) estimate: f32,
    /// The cosine is within this of `estimate`.
    pub(crate) bound: f32,
}

/// Rows that may be among the k best, and a lower bound for the k-th best.
#[derive(Debug)]
pub(super) struct Nearest {
    k: usize,
    /// Most candidates kept.
    cap: usize,
    candidates: Vec<Near>,
    /// Number of candidates after the last thinning.
    thinned: usize,
    /// Lower bounds of the rows that may be the k-th best.
    lowers: Vec<f32>,
    floor: f32,
}

impl Nearest {
    pub(super) fn new(k: usize, cap: usize) -> Self {
        Self { k, cap, candidates: Vec::new(), thinned: 0, lowers: Vec::new(), floor: f32::NEG_INFINITY }
    }

    /// The cosine that k rows are known to reach.
    pub(super) fn floor(&self) -> f32 {
        self.floor
    }

    pub(super) fn offer(&mut self, near: Near) {
        if near.estimate + near.bound < self.floor {
            return;
        }
        self.candidates.push(near);
        let lower = near.estimate - near.bound;
        if lower > self.floor {
            self.lowers.push(lower);
            if self.lowers.len() >= self.k.saturating_mul(2) {
                self.settle();
            }
        }
        if self.candidates.len() > 2 * self.thinned + 1_024 {
            self.settle();
            self.thin();
        }
    }

    /// Raises the floor to the k-th best lower bound.
    pub(super) fn settle(&mut self) {
        let Some(last) = self.k.checked_sub(1).filter(|last| *last < self.lowers.len()) else { return };
        let (_, floor, _) = self.lowers.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
        self.floor = *floor;
        self.lowers.truncate(self.k);
    }

    fn thin(&mut self) {
        let floor = self.floor;
        self.candidates.retain(|near| near.estimate + near.bound >= floor);
        if self.candidates.len() > self.cap {
            self.candidates.select_nth_unstable_by(self.cap, best_first);
            self.candidates.truncate(self.cap);
        }
        self.thinned = self.candidates.len();
    }

    /// The candidates, best first.
    pub(super) fn finish(mut self) -> Vec<Near> {
        self.settle();
        self.thin();
        self.candidates.sort_unstable_by(best_first);
        self.candidates
    }
}

fn best_first(a: &Near, b: &Near) -> std::cmp::Ordering {
    b.estimate.total_cmp(&a.estimate).then(a.id.cmp(&b.id))
}
