//! The report: a table for people, one document for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use memory_eval::{Abstaining, Figures, Point, Share};
use serde::Serialize;

use super::promoted::{Promoted, Tally};
use crate::lines::LeftOut;

/// What is printed with `--json`.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    /// The log odds from which a row is bound.
    pub(super) threshold: f64,
    /// Lines that are no issue, and cases that name issues which are not there.
    pub(super) left_out: &'a [LeftOut],
    #[serde(flatten)]
    pub(super) report: &'a Abstaining,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pipeline: Option<&'a Pipeline>,
}

/// What a whole pipeline made of the notes.
#[derive(Serialize)]
pub(super) struct Pipeline {
    interpreter: String,
    all: Promoted,
    groups: BTreeMap<String, Promoted>,
}

impl Pipeline {
    pub(super) fn of(interpreter: &str, tallies: BTreeMap<String, Tally>) -> Self {
        let mut all = Tally::default();
        tallies.values().for_each(|tally| all.add(tally));
        let groups = tallies.into_iter().map(|(name, tally)| (name, tally.figures())).collect();
        Self { interpreter: interpreter.to_owned(), all: all.figures(), groups }
    }
}

pub(super) fn table(threshold: f64, report: &Abstaining) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<22}{:>6}{:>10}  {:<22}{:<22}{:<22}{:>6}{:>6}{:>6}{:>6}",
        "", "notes", "bound", "precision", "recall", "wrong binds", "top 1", "2", "3", "held"
    );
    for (name, figures) in &report.groups {
        row(&mut text, name, figures);
    }
    row(&mut text, "all", &report.all);
    let _ = writeln!(
        text,
        "\nBound from log odds of {threshold:.3}. A wrong bind: something is bound although the right issue was removed.\n\
         Top 1 to 3: the right issue is among so many, of all notes. Held by deferrals: among the three that are offered, of the \
         {} notes that are deferred.\n\
         With other thresholds:",
        report.all.held.whole
    );
    curve(&mut text, "all", &report.curve);
    text
}

/// What other thresholds give. Limits that the same threshold keeps are one row.
pub(super) fn curve(text: &mut String, name: &str, points: &[Point]) {
    let _ = writeln!(
        text,
        "\n{name}\n{:>9}{:>10}  {:<22}{:<22}{:<22}",
        "log odds", "coverage", "precision", "recall", "wrong binds"
    );
    for point in points.chunk_by(PartialEq::eq).filter_map(<[Point]>::first) {
        let _ = writeln!(
            text,
            "{:>9}{:>10.3}  {:<22}{:<22}{:<22}",
            if point.threshold <= f64::MIN { "any".to_owned() } else { format!("{:.3}", point.threshold) },
            point.coverage,
            share(&point.precision),
            share(&point.recall),
            share(&point.wrong_binds)
        );
    }
}

pub(super) fn promoted(pipeline: &Pipeline) -> String {
    let Pipeline { interpreter, all, groups } = pipeline;
    let mut text = format!("\nBy the whole pipeline, notes read by {interpreter}:\n\n");
    let _ = writeln!(
        text,
        "{:<22}{:>6}{:>10}  {:<22}{:<22}{:<22}{:>9}{:>9}",
        "", "notes", "bound", "precision", "recall", "wrong binds", "deferred", "rejected"
    );
    let named = groups.iter().map(|(name, one)| (name.as_str(), one));
    for (name, Promoted { precision, recall, wrong_binds, deferred, rejected }) in named.chain([("all", all)])
    {
        let bound = format!("{}/{}", precision.part, precision.whole);
        let _ = writeln!(
            text,
            "{name:<22}{:>6}{bound:>10}  {:<22}{:<22}{:<22}{:>9}{:>9}",
            recall.whole,
            share(precision),
            share(recall),
            share(wrong_binds),
            deferred.values().sum::<usize>(),
            rejected.values().sum::<usize>()
        );
    }
    for (what, reasons) in [("Deferred", &all.deferred), ("Rejected", &all.rejected)] {
        let mut reasons: Vec<_> = reasons.iter().collect();
        reasons.sort_by_key(|(_, notes)| std::cmp::Reverse(**notes));
        let _ = writeln!(text, "\n{what}:");
        for (reason, notes) in reasons {
            let _ = writeln!(text, "{notes:>6}  {reason}");
        }
    }
    text
}

fn row(text: &mut String, name: &str, figures: &Figures) {
    let Figures { precision, recall, wrong_binds, top1, top2, top3, held } = figures;
    let bound = format!("{}/{}", precision.part, precision.whole);
    let _ = writeln!(
        text,
        "{name:<22}{:>6}{bound:>10}  {:<22}{:<22}{:<22}{:>6.3}{:>6.3}{:>6.3}{:>6.3}",
        recall.whole,
        share(precision),
        share(recall),
        share(wrong_binds),
        top1.value,
        top2.value,
        top3.value,
        held.value
    );
}

fn share(share: &Share) -> String {
    format!("{:.4} [{:.3}-{:.3}]", share.value, share.interval.low, share.interval.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_that_serves_several_limits_is_one_row() {
        let share = || Share::new(1, 2);
        let of = |threshold| Point {
            threshold,
            coverage: 0.5,
            precision: share(),
            recall: share(),
            wrong_binds: share(),
        };
        let mut text = String::new();
        curve(&mut text, "all", &[of(3.0), of(3.0), of(2.0), of(2.0), of(1.0)]);
        assert_eq!(text.lines().skip(3).count(), 3, "{text}");
    }
}
