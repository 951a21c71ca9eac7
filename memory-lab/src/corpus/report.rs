//! Totals of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use memory_server::terminal::{Failure, Out, bytes, excerpt, note};
use serde::Serialize;

use super::judge::{Outcome, UNREADABLE, Verdict};

/// Totals of a group of lines.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Counts {
    pub(super) lines: u64,
    pub(super) ok: u64,
    pub(super) refused: u64,
    pub(super) error: u64,
    pub(super) changed: u64,
    pub(super) as_expected: u64,
    pub(super) not_as_expected: u64,
}

/// All lines.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Summary {
    #[serde(flatten)]
    pub(super) all: Counts,
    /// Lines that could not be read, so they did not run.
    pub(super) unreadable: u64,
    /// Ids of lines that did not end as expected.
    pub(super) not_as_expected_ids: Vec<String>,
    /// How many lines each layer refused.
    pub(super) layers: BTreeMap<String, u64>,
    pub(super) categories: BTreeMap<String, Counts>,
    pub(super) max_elapsed_ms: f64,
    pub(super) max_peak_bytes: u64,
    pub(super) seconds: f64,
    /// Whether the run was interrupted.
    pub(super) interrupted: bool,
}

impl Summary {
    /// Adds a line.
    pub(super) fn add(&mut self, category: &str, verdict: &Verdict, as_expected: bool) {
        self.unreadable += u64::from(verdict.code == UNREADABLE);
        for counts in [&mut self.all, self.categories.entry(category.to_owned()).or_default()] {
            counts.lines += 1;
            match verdict.outcome {
                Outcome::Ok => counts.ok += 1,
                Outcome::Refused => counts.refused += 1,
                Outcome::Error => counts.error += 1,
            }
            counts.changed += u64::from(verdict.changed);
            counts.as_expected += u64::from(as_expected);
            counts.not_as_expected += u64::from(!as_expected);
        }
        if let Some(layer) = verdict.layer.as_ref().filter(|_| verdict.outcome == Outcome::Refused) {
            *self.layers.entry(layer.clone()).or_default() += 1;
        }
        if !as_expected {
            self.not_as_expected_ids.push(verdict.id.clone());
        }
        self.max_elapsed_ms = self.max_elapsed_ms.max(verdict.elapsed_ms);
        self.max_peak_bytes = self.max_peak_bytes.max(verdict.peak_bytes);
    }

    pub(super) fn end(&mut self, elapsed: Duration) {
        self.seconds = elapsed.as_secs_f64();
    }
}

/// Prints a line's verdict.
pub(super) fn show(verdict: &Verdict, as_expected: bool, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        if verdict.code == UNREADABLE {
            note(&format!("{} cannot be read: {}", verdict.id, verdict.message));
        }
        return out.document(verdict);
    }
    let layer = verdict.layer.as_deref().unwrap_or("-");
    let mark = if as_expected { ' ' } else { '!' };
    out.line(format!(
        "{mark} {:<28} {:<8} {:<18} {layer:<11} {:>8.1} ms {:>10}{}  {}",
        verdict.id,
        verdict.outcome.as_str(),
        verdict.code,
        verdict.elapsed_ms,
        bytes(verdict.peak_bytes),
        if verdict.changed { "  changed" } else { "" },
        excerpt(&verdict.message, 80),
    ))?;
    for change in &verdict.outside {
        out.line(format!("    outside: {change}"))?;
    }
    Ok(())
}

/// Prints the totals.
pub(super) fn print(summary: &Summary, out: &mut Out) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Document<'a> {
        summary: &'a Summary,
    }
    if out.is_json() {
        return out.document(&Document { summary });
    }
    let row = |name: &str, counts: &Counts| {
        [
            counts.lines.to_string(),
            counts.ok.to_string(),
            counts.refused.to_string(),
            counts.error.to_string(),
            counts.as_expected.to_string(),
            counts.not_as_expected.to_string(),
            name.to_owned(),
        ]
    };
    let mut rows: Vec<_> = summary
        .categories
        .iter()
        .map(|(name, counts)| row(if name.is_empty() { "-" } else { name }, counts))
        .collect();
    rows.push(row("ALL", &summary.all));
    out.line("")?;
    out.table(["LINES", "OK", "REFUSED", "ERROR", "AS EXPECTED", "NOT", "CATEGORY"], &rows)?;
    let layers: Vec<String> = summary.layers.iter().map(|(name, count)| format!("{name} {count}")).collect();
    out.line(format!(
        "refused by {}",
        if layers.is_empty() { "none".to_owned() } else { layers.join(", ") }
    ))?;
    out.line(format!(
        "longest {:.1} ms, peak memory {}, {:.1} s in all",
        summary.max_elapsed_ms,
        bytes(summary.max_peak_bytes),
        summary.seconds
    ))?;
    if !summary.not_as_expected_ids.is_empty() {
        note(&format!("not as expected: {}", summary.not_as_expected_ids.join(", ")));
    }
    Ok(())
}
