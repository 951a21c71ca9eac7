//! The report: a table for people, one document for programs.

use std::fmt::Write as _;

use memory_eval::{Abstaining, Figures, Share};
use serde::Serialize;

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
         With other thresholds:\n\n{:>9}{:>10}  {:<22}{:<22}{:<22}",
        report.all.held.whole, "log odds", "coverage", "precision", "recall", "wrong binds"
    );
    for point in &report.curve {
        let _ = writeln!(
            text,
            "{:>9.3}{:>10.3}  {:<22}{:<22}{:<22}",
            point.threshold,
            point.coverage,
            share(&point.precision),
            share(&point.recall),
            share(&point.wrong_binds)
        );
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
