//! What is measured of each answer, and the means of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use memory_eval::metrics::{mean, ndcg_at, recall_at};
use memory_eval::{Interval, mean_interval};
use serde::Serialize;

use super::data::Place;
use crate::lines::LeftOut;

/// Names of the measures, in the order of [`measures`]. `any`: one piece of evidence is among the first k; `all`: every one is.
pub(super) const MEASURES: [&str; 19] = [
    "recall_at_5",
    "recall_at_10",
    "recall_at_20",
    "any_at_5",
    "any_at_10",
    "any_at_20",
    "all_at_5",
    "all_at_10",
    "all_at_20",
    "mrr",
    "ndcg_at_10",
    "session_any_at_1",
    "session_any_at_5",
    "session_all_at_5",
    "session_recall_at_10",
    "session_ndcg_at_10",
    "duplicates",
    "budget_precision",
    "budget_coverage",
];
/// Those with an interval, and in the table.
const SHOWN: [&str; 8] = [
    "recall_at_5",
    "recall_at_10",
    "recall_at_20",
    "mrr",
    "ndcg_at_10",
    "session_any_at_1",
    "session_any_at_5",
    "session_all_at_5",
];

/// The measures of one answer. A session ranks where its best turn does. `shown` are the turns that fit into the budget of tokens:
/// how many of them are evidence, and how much of the evidence they are.
pub(super) fn measures(found: &[(Place, String)], shown: &BTreeSet<Place>, evidence: &[Place]) -> Vec<f64> {
    let relevant: BTreeSet<Place> = evidence.iter().copied().collect();
    let turns: Vec<Place> = found.iter().map(|(place, _)| *place).collect();
    let mut sessions: Vec<usize> = Vec::new();
    for (session, _) in &turns {
        if !sessions.contains(session) {
            sessions.push(*session);
        }
    }
    let in_sessions: BTreeSet<usize> = relevant.iter().map(|(session, _)| *session).collect();
    let flag = |yes: bool| f64::from(u8::from(yes));
    let any = |recall: f64| flag(recall > 0.0);
    let all = |recall: f64| flag(recall >= 1.0);
    let [r5, r10, r20] = [5, 10, 20].map(|k| recall_at(&turns, &relevant, k));
    let [s1, s5, s10] = [1, 5, 10].map(|k| recall_at(&sessions, &in_sessions, k));
    let first = (1_u32..).zip(&turns).find(|(_, place)| relevant.contains(place));
    let top = found.get(..found.len().min(10)).unwrap_or_default();
    let distinct: BTreeSet<&str> = top.iter().map(|(_, text)| text.as_str()).collect();
    let share = |part: usize, whole: usize| mean(&[vec![1.0; part], vec![0.0; whole - part]].concat());
    vec![
        r5,
        r10,
        r20,
        any(r5),
        any(r10),
        any(r20),
        all(r5),
        all(r10),
        all(r20),
        first.map_or(0.0, |(rank, _)| f64::from(rank).recip()),
        ndcg_at(&turns, &relevant, 10),
        any(s1),
        any(s5),
        all(s5),
        s10,
        ndcg_at(&sessions, &in_sessions, 10),
        if top.is_empty() { 0.0 } else { share(top.len() - distinct.len(), top.len()) },
        if shown.is_empty() { 0.0 } else { share(shown.intersection(&relevant).count(), shown.len()) },
        if relevant.is_empty() { 0.0 } else { share(shown.intersection(&relevant).count(), relevant.len()) },
    ]
}

/// Whether what replaced a value is not found, or stands below the value that it replaced. `None`: the evidence does not hold
/// both. The last session that is evidence has the present value.
pub(super) fn is_stale(found: &[(Place, String)], evidence: &[Place]) -> Option<bool> {
    let last = evidence.iter().map(|(session, _)| *session).max()?;
    if evidence.iter().all(|(session, _)| *session == last) {
        return None;
    }
    let rank = |present: bool| {
        found.iter().position(|(place, _)| evidence.contains(place) && (place.0 == last) == present)
    };
    Some(match (rank(true), rank(false)) {
        (Some(present), Some(replaced)) => replaced < present,
        (present, _) => present.is_none(),
    })
}

/// The questions of one kind.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    questions: usize,
    #[serde(flatten)]
    means: BTreeMap<&'static str, f64>,
    intervals: BTreeMap<&'static str, Interval>,
}

impl Group {
    pub(super) fn of(rows: &[&Vec<f64>]) -> Self {
        let (mut means, mut intervals) = (BTreeMap::new(), BTreeMap::new());
        for (at, name) in MEASURES.iter().enumerate() {
            let values: Vec<f64> = rows.iter().filter_map(|row| row.get(at).copied()).collect();
            means.insert(*name, mean(&values));
            if SHOWN.contains(name) {
                intervals.insert(*name, mean_interval(&values));
            }
        }
        Self { questions: rows.len(), means, intervals }
    }
}

/// One file.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) dialogues: usize,
    pub(super) turns: usize,
    /// Lines that are no dialogue, and questions without words.
    pub(super) left_out: Vec<LeftOut>,
    /// Pieces of evidence that are no turn; they are never found.
    pub(super) evidence_unmatched: usize,
    /// Times that could not be read; what they belong to counts as undated.
    pub(super) times_unread: usize,
    /// The model of the vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    pub(super) weights: BTreeMap<&'static str, f64>,
    /// Every question that has an answer and does not mean to mislead.
    pub(super) overall: Group,
    pub(super) categories: BTreeMap<String, Group>,
    /// Tokens of the block that precision and coverage are of.
    pub(super) budget: usize,
    /// Questions about a value that was replaced, and the share of them for which the replaced value stands above its
    /// replacement, or the replacement is not found.
    pub(super) updates: usize,
    pub(super) stale: f64,
    pub(super) store_seconds: f64,
    pub(super) recall_p50_ms: f64,
    pub(super) recall_p99_ms: f64,
    /// Bytes of the store's files for each turn; absent for a store that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_per_turn: Option<f64>,
}

impl Report {
    pub(super) fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}: {} dialogues, {} turns", self.file, self.dialogues, self.turns)?;
        write!(out, "{:<28}{:>6}", "", "n")?;
        for name in ["R@5", "R@10", "R@20", "MRR", "nDCG@10", "ses any@1", "any@5", "all@5"] {
            write!(out, "{name:>10}")?;
        }
        writeln!(out)?;
        for (count, what) in [
            (self.left_out.len(), "lines or questions are left out"),
            (self.evidence_unmatched, "pieces of evidence are no turn, and are never found"),
            (self.times_unread, "times are not read; what they belong to counts as undated"),
        ] {
            if count > 0 {
                writeln!(out, "{count} {what}")?;
            }
        }
        for (name, group) in &self.categories {
            write_group(out, name, group)?;
        }
        write_group(out, "all but those set apart", &self.overall)?;
        for name in ["recall_at_5", "recall_at_10", "session_any_at_1"] {
            if let Some(Interval { low, high }) = self.overall.intervals.get(name) {
                writeln!(out, "{name} is {low:.3} to {high:.3} in 95 % of resamples")?;
            }
        }
        let duplicates = self.overall.means.get("duplicates").copied().unwrap_or_default();
        writeln!(out, "{:.1} % of the first ten repeat the words of a better one", duplicates * 100.0)?;
        let of = |name: &str| self.overall.means.get(name).copied().unwrap_or_default();
        writeln!(
            out,
            "within {} tokens: {:.3} of the evidence is shown, {:.3} of what is shown is evidence",
            self.budget,
            of("budget_coverage"),
            of("budget_precision")
        )?;
        if self.updates > 0 {
            writeln!(
                out,
                "of {} questions about a value that was replaced, {:.3} find the old value first",
                self.updates, self.stale
            )?;
        }
        writeln!(
            out,
            "stored in {:.2} s; a recall took {:.2} ms (median), {:.2} ms (99 %)",
            self.store_seconds, self.recall_p50_ms, self.recall_p99_ms
        )?;
        if let Some(bytes) = self.bytes_per_turn {
            writeln!(out, "{bytes:.0} bytes a turn on disk")?;
        }
        if let Some(model) = &self.model {
            writeln!(out, "vectors of {model}")?;
        }
        Ok(())
    }
}

fn write_group(out: &mut dyn Write, name: &str, group: &Group) -> std::io::Result<()> {
    write!(out, "{name:<28}{:>6}", group.questions)?;
    for measure in SHOWN {
        write!(out, "{:>10.3}", group.means.get(measure).copied().unwrap_or_default())?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ranks_where_its_best_turn_does() {
        let found = [((2, 0), "a"), ((2, 5), "a"), ((0, 1), "b"), ((1, 1), "c")]
            .map(|(place, text)| (place, text.to_owned()));
        let values = measures(&found, &BTreeSet::from([(2, 0), (0, 1)]), &[(0, 1), (0, 7)]);
        let of = |name: &str| values[MEASURES.iter().position(|known| *known == name).unwrap()];
        assert!((of("recall_at_5") - 0.5).abs() < 1e-9 && of("any_at_5") == 1.0 && of("all_at_5") == 0.0);
        assert!((of("mrr") - 1.0 / 3.0).abs() < 1e-9);
        assert!(of("session_any_at_1") == 0.0 && of("session_all_at_5") == 1.0);
        assert!((of("session_ndcg_at_10") - 1.0 / 3.0_f64.log2()).abs() < 1e-9);
        assert!((of("duplicates") - 0.25).abs() < 1e-9);
        assert!((of("budget_precision") - 0.5).abs() < 1e-9 && (of("budget_coverage") - 0.5).abs() < 1e-9);
        assert!(measures(&[], &BTreeSet::new(), &[]).iter().all(|value| *value == 0.0));
    }

    #[test]
    fn an_answer_is_stale_if_the_old_value_stands_first() {
        let found = |places: &[Place]| -> Vec<_> { places.iter().map(|at| (*at, String::new())).collect() };
        let evidence = [(3, 1), (8, 0)];
        for (places, stale) in [
            (&[(8, 0), (3, 1)][..], false),
            (&[(3, 1), (0, 0), (8, 0)], true),
            (&[(8, 0)], false),
            (&[(3, 1)], true),
            (&[], true),
        ] {
            assert_eq!(is_stale(&found(places), &evidence), Some(stale), "{places:?}");
        }
        assert_eq!(is_stale(&found(&[(3, 1)]), &[(3, 1), (3, 2)]), None);
        assert_eq!(is_stale(&found(&[]), &[]), None);
    }
}
