//! The end of a run in figures.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::judge::{Outcome, Verdict};
use super::line::Line;

/// What a group of lines came to.
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
    /// Ids of the lines that did not end as they ask.
    pub(super) not_as_expected_ids: Vec<String>,
    /// How many lines each layer refused.
    pub(super) layers: BTreeMap<String, u64>,
    pub(super) categories: BTreeMap<String, Counts>,
    pub(super) max_elapsed_ms: f64,
    pub(super) max_peak_bytes: u64,
    pub(super) seconds: f64,
    /// Whether the user stopped the run before its end.
    pub(super) interrupted: bool,
}

impl Summary {
    /// Adds a line; whether it ended as it asks.
    pub(super) fn add(&mut self, line: &Line, verdict: &Verdict) -> bool {
        let as_expected = verdict.is_as_expected(line);
        for counts in [&mut self.all, self.categories.entry(line.category.clone()).or_default()] {
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
        as_expected
    }

    pub(super) fn end(&mut self, elapsed: Duration) {
        self.seconds = elapsed.as_secs_f64();
    }
}
