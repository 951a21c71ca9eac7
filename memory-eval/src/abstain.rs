//! How well something decides that may abstain: what it gets right, and what it does where the right answer is missing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bootstrap::Interval;
use crate::metrics::count;

/// Shares of wrong answers at which the curve is read.
const LIMITS: [f64; 10] = [0.0, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1];

/// One question, asked twice: with its right answer among the choices, and without.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The group it belongs to.
    pub group: String,
    /// The place of the right answer among the ranked choices, from 1. `None` if it is not among them.
    pub rank: Option<usize>,
    /// Its place among the choices that are offered where nothing is answered, from 1.
    pub offered: Option<usize>,
    /// What was answered with the right answer present: whether it was that one. `None` if nothing was.
    pub answered: Option<bool>,
    /// Whether something was answered with the right answer removed. That is always wrong.
    pub answered_without: bool,
    /// How certain the first choice was, present and removed. Minus infinity where nothing may be answered.
    pub certainty: f64,
    /// The same with the right answer removed.
    pub certainty_without: f64,
}

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Counted.
    pub part: usize,
    /// Of so many.
    pub whole: usize,
    /// The share; 1 of nothing, as a precision of no answers is.
    pub value: f64,
    /// By Wilson's method.
    #[serde(flatten)]
    pub interval: Interval,
}

/// Figures of one group of questions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Right answers among the answers.
    pub precision: Share,
    /// Right answers among the questions.
    pub recall: Share,
    /// Answers where the right one was removed.
    pub wrong_binds: Share,
    /// The right answer is the first choice.
    pub top1: Share,
    /// It is among the first two.
    pub top2: Share,
    /// It is among the first three.
    pub top3: Share,
    /// It is among the first three that are offered, of the questions that were not answered.
    pub held: Share,
}

/// One point of the curve: what another threshold would give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The lowest certainty that is answered.
    pub threshold: f64,
    /// Questions that are answered, right answer present.
    pub coverage: f64,
    /// Right answers among them.
    pub precision: Share,
    /// Right answers among all questions.
    pub recall: Share,
    /// Answers where the right one was removed.
    pub wrong_binds: Share,
}

/// The report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Abstaining {
    /// All questions.
    pub all: Figures,
    /// By group.
    pub groups: BTreeMap<String, Figures>,
    /// From strict to lenient.
    pub curve: Vec<Point>,
    /// What the thresholds of the curve give by group.
    pub curves: BTreeMap<String, Vec<Point>>,
}

impl Abstaining {
    /// Sums up what was judged.
    #[must_use]
    pub fn of(judged: &[Judged]) -> Self {
        let mut groups: BTreeMap<String, Vec<&Judged>> = BTreeMap::new();
        for one in judged {
            groups.entry(one.group.clone()).or_default().push(one);
        }
        let all: Vec<&Judged> = judged.iter().collect();
        let curve = curve(&all);
        let of = |judged: &[&Judged]| curve.iter().map(|at| point(judged, at.threshold)).collect();
        Self {
            all: figures(&all),
            curves: groups.iter().map(|(name, judged)| (name.clone(), of(judged))).collect(),
            groups: groups.into_iter().map(|(name, judged)| (name, figures(&judged))).collect(),
            curve,
        }
    }
}

impl Share {
    /// `part` of `whole`, with Wilson's score interval (1927) at 95 %.
    #[must_use]
    pub fn new(part: usize, whole: usize) -> Self {
        const Z: f64 = 1.959_963_985;
        if whole == 0 {
            return Self { part, whole, value: 1.0, interval: Interval { low: 0.0, high: 1.0 } };
        }
        let (n, value) = (count(whole), count(part) / count(whole));
        let middle = value + Z * Z / (2.0 * n);
        let half = Z * (value * (1.0 - value) / n + (Z / (2.0 * n)).powi(2)).sqrt();
        let shrink = 1.0 + Z * Z / n;
        let interval =
            Interval { low: ((middle - half) / shrink).max(0.0), high: ((middle + half) / shrink).min(1.0) };
        Self { part, whole, value, interval }
    }
}

fn figures(judged: &[&Judged]) -> Figures {
    let count = |test: &dyn Fn(&Judged) -> bool| judged.iter().filter(|one| test(one)).count();
    let within = |k: usize| Share::new(count(&|one| one.rank.is_some_and(|rank| rank <= k)), judged.len());
    let right = count(&|one| one.answered == Some(true));
    let offered = |one: &Judged| one.offered.is_some_and(|place| place <= 3);
    let held = count(&|one| one.answered.is_none() && offered(one));
    Figures {
        precision: Share::new(right, count(&|one| one.answered.is_some())),
        recall: Share::new(right, judged.len()),
        wrong_binds: Share::new(count(&|one| one.answered_without), judged.len()),
        top1: within(1),
        top2: within(2),
        top3: within(3),
        held: Share::new(held, count(&|one| one.answered.is_none())),
    }
}

fn curve(judged: &[&Judged]) -> Vec<Point> {
    let mut wrong: Vec<f64> = judged.iter().map(|one| one.certainty_without).collect();
    wrong.sort_by(|a, b| b.total_cmp(a));
    let points = LIMITS.iter().filter_map(|limit| {
        // The first wrong answer too many.
        let at = wrong.iter().enumerate().find(|(place, _)| count(place + 1) > limit * count(judged.len()));
        let threshold =
            at.map(|(_, certainty)| certainty.next_up()).filter(|certainty| certainty.is_finite())?;
        Some(point(judged, threshold))
    });
    points.collect()
}

fn point(judged: &[&Judged], threshold: f64) -> Point {
    let bound: Vec<_> = judged.iter().filter(|one| one.certainty >= threshold).collect();
    let right = bound.iter().filter(|one| one.rank == Some(1)).count();
    let wrong = judged.iter().filter(|one| one.certainty_without >= threshold).count();
    Point {
        threshold,
        coverage: Share::new(bound.len(), judged.len()).value,
        precision: Share::new(right, bound.len()),
        recall: Share::new(right, judged.len()),
        wrong_binds: Share::new(wrong, judged.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(rank: usize, certainty: f64, certainty_without: f64, threshold: f64) -> Judged {
        Judged {
            group: "a".to_owned(),
            rank: Some(rank),
            offered: Some(rank),
            answered: (certainty >= threshold).then_some(rank == 1),
            answered_without: certainty_without >= threshold,
            certainty,
            certainty_without,
        }
    }

    /// Wilson (1927), and the tables of Newcombe (1998): 81 of 263 gives .2553 to .3662.
    #[test]
    fn the_interval_is_the_published_one() {
        let share = Share::new(81, 263);
        assert!(
            (share.interval.low - 0.2553).abs() < 5e-5 && (share.interval.high - 0.3662).abs() < 5e-5,
            "{share:?}"
        );
        assert_eq!(Share::new(0, 0).value, 1.0);
        assert!(Share::new(0, 20).interval.low.abs() < 1e-12 && Share::new(20, 20).interval.high > 0.999_999);
    }

    #[test]
    fn answers_are_right_wrong_or_none() {
        let report = Abstaining::of(&[
            judged(1, 3.0, 0.0, 2.0),
            judged(2, 2.5, 0.0, 2.0),
            Judged { offered: Some(4), ..judged(1, 1.0, 0.0, 2.0) },
            Judged { offered: Some(3), ..judged(4, 0.0, 2.0, 2.0) },
        ]);
        let all = &report.all;
        assert_eq!((all.precision.part, all.precision.whole), (1, 2));
        assert_eq!((all.recall.part, all.recall.whole), (1, 4));
        assert_eq!((all.wrong_binds.part, all.wrong_binds.whole), (1, 4));
        assert_eq!((all.top1.part, all.top2.part, all.top3.part), (2, 3, 3));
        assert_eq!((all.held.part, all.held.whole), (1, 2));
        assert_eq!(report.groups["a"], report.all);
    }

    #[test]
    fn no_point_of_the_curve_passes_its_limit() {
        let all: Vec<Judged> =
            (0..200_u8).map(|n| judged(1, f64::from(n), f64::from(n) / 2.0, 1000.0)).collect();
        let report = Abstaining::of(&all);
        for (point, limit) in report.curve.iter().zip(LIMITS) {
            assert!(point.wrong_binds.value <= limit, "{point:?}");
        }
        assert_eq!(report.curve[0].wrong_binds.part, 0);
        assert!(report.curve.windows(2).all(|pair| pair[0].recall.value <= pair[1].recall.value));
        assert_eq!(report.curves["a"], report.curve);
    }

    #[test]
    fn the_curve_of_a_group_has_the_thresholds_of_all_and_the_figures_of_the_group() {
        let of = |group: &str, n: u8, without: f64| Judged {
            group: group.to_owned(),
            ..judged(1, f64::from(n), without, 1000.0)
        };
        let good = (0..50).map(|n| of("good", n, f64::MIN));
        let bad = (0..50).map(|n| of("bad", n, f64::from(n) + 100.0));
        let report = Abstaining::of(&good.chain(bad).collect::<Vec<_>>());
        for (name, wrong) in [("good", 0), ("bad", report.curve[9].wrong_binds.part)] {
            let last = &report.curves[name][9];
            assert_eq!((last.threshold, last.recall.whole), (report.curve[9].threshold, 50));
            assert_eq!(last.wrong_binds.part, wrong);
        }
    }
}
