//! Measures of one ranked answer against the set of relevant things. Gains are binary.

use std::collections::BTreeSet;

/// Share of the relevant that is among the first `k` found: `|relevant ∩ found[..k]| / |relevant|`.
/// 0 where nothing is relevant. A thing found twice counts once.
///
/// With more than `k` relevant things, 1 cannot be reached.
#[must_use]
pub fn recall_at<T: Ord>(found: &[T], relevant: &BTreeSet<T>, k: usize) -> f64 {
    let hits: BTreeSet<&T> = found.iter().take(k).filter(|item| relevant.contains(*item)).collect();
    ratio(hits.len(), relevant.len())
}

/// Normalised discounted cumulative gain of the first `k` found, with gain 1 per relevant thing and
/// discount `1/log2(1 + rank)`, rank from 1, divided by that of an ideal answer of
/// `min(k, |relevant|)` relevant things. 0 where nothing is relevant. A thing found twice gains once.
///
/// Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", ACM TOIS 20(4), 2002;
/// with the discount of Burges et al., ICML 2005, which is now usual.
#[must_use]
pub fn ndcg_at<T: Ord>(found: &[T], relevant: &BTreeSet<T>, k: usize) -> f64 {
    let mut seen = BTreeSet::new();
    let (mut gained, mut ideal) = (0.0, 0.0);
    for (place, discount) in (0..k).zip(discounts()) {
        if found.get(place).is_some_and(|item| relevant.contains(item) && seen.insert(item)) {
            gained += discount;
        }
        if place < relevant.len() {
            ideal += discount;
        }
    }
    if ideal > 0.0 { gained / ideal } else { 0.0 }
}

/// `1/log2(1 + rank)` for rank 1, 2, ….
fn discounts() -> impl Iterator<Item = f64> {
    (1_u32..).map(|rank| (1.0 + f64::from(rank)).log2().recip())
}

/// The arithmetic mean; 0 of nothing.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count(values.len()) }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { count(part) / count(whole) }
}

#[allow(clippy::cast_precision_loss, reason = "counts of things in memory are far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn recall_is_the_share_of_the_relevant_that_was_found() {
        let relevant = BTreeSet::from(["a", "b", "c", "d"]);
        near(recall_at(&["x", "a", "y", "b", "c"], &relevant, 5), 0.75);
        near(recall_at(&["x", "a", "y", "b", "c"], &relevant, 4), 0.5);
        near(recall_at(&["x", "a", "y", "b", "c"], &relevant, 1), 0.0);
        near(recall_at(&["a", "a", "a"], &relevant, 3), 0.25);
        near(recall_at(&[], &relevant, 10), 0.0);
        near(recall_at(&["a"], &BTreeSet::new(), 10), 0.0);
    }

    /// Relevant at ranks 2 and 4 of 3 relevant: (1/log2 3 + 1/log2 5) / (1 + 1/log2 3 + 1/log2 4).
    #[test]
    fn ndcg_equals_the_sum_worked_by_hand() {
        let relevant = BTreeSet::from(["a", "b", "c"]);
        let gained = 0.630_929_753_571_457_4 + 0.430_676_558_073_393_06;
        let ideal = 1.0 + 0.630_929_753_571_457_4 + 0.5;
        near(ndcg_at(&["x", "a", "y", "b"], &relevant, 10), gained / ideal);
        near(ndcg_at(&["x", "a", "y", "b"], &relevant, 3), 0.630_929_753_571_457_4 / ideal);
    }

    #[test]
    fn ndcg_is_one_for_an_ideal_answer_however_many_are_relevant() {
        near(ndcg_at(&["b", "a"], &BTreeSet::from(["a", "b"]), 10), 1.0);
        near(ndcg_at(&["b", "a"], &BTreeSet::from(["a", "b", "c", "d"]), 2), 1.0);
    }

    #[test]
    fn ndcg_prefers_the_earlier_hit_and_pays_no_hit_twice() {
        let relevant = BTreeSet::from(["a", "b"]);
        assert!(ndcg_at(&["a", "x"], &relevant, 10) > ndcg_at(&["x", "a"], &relevant, 10));
        near(ndcg_at(&["a", "a"], &relevant, 2), ndcg_at(&["a", "x"], &relevant, 2));
        near(ndcg_at(&["a"], &BTreeSet::new(), 10), 0.0);
    }

    #[test]
    fn the_mean_of_nothing_is_zero() {
        near(mean(&[]), 0.0);
        near(mean(&[1.0, 0.0, 0.5]), 0.5);
    }
}
