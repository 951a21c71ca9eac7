//! The results of a run, for programs, people and badges.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde::Serialize;

use crate::case::{Level, Need};
use crate::suite::runner::{Outcome, Verdict};

/// The result of [`run`](crate::run). As JSON, the members `provider`, `cases`, `failed` and
/// `mutants` are stable; more may be added.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The harness's name of the provider.
    pub provider: String,
    /// The outcomes of the cases.
    pub cases: Counts,
    /// The failed cases, in the order of the table.
    pub failed: Vec<FailedCase>,
    /// The results of the mutants. All zero if they did not run: they need the feature `mutants`.
    pub mutants: MutantCounts,
    /// The highest level of which all cases, and those of the levels before it, pass. Absent if a filter left out
    /// cases, or the first level does not pass.
    pub level: Option<Level>,
    /// The counts of each level.
    pub levels: Vec<LevelCounts>,
    /// Cases that do not apply to this provider, with the reason.
    pub skipped: Vec<FailedCase>,
    /// Capabilities that are not advertised and whose refusal was proved.
    pub refused: Vec<Need>,
    /// Which case caught which mutant.
    pub caught: Vec<CaughtMutant>,
    /// Whether the run was cancelled.
    pub cancelled: bool,
    /// The total time of the cases, in milliseconds.
    pub elapsed_ms: u64,
}

/// The outcomes of the cases: `total = passed + failed + refusals + skipped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Counts {
    /// Finished cases.
    pub total: usize,
    /// Cases that passed.
    pub passed: usize,
    /// Cases that failed.
    pub failed: usize,
    /// Cases whose capability is not advertised and was refused.
    pub refusals: usize,
    /// Cases that do not apply: a store in memory cannot be reopened.
    pub skipped: usize,
}

impl Counts {
    fn add(&mut self, verdict: &Verdict) {
        self.total += 1;
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Refused(_) => self.refusals += 1,
            Verdict::Skipped(_) => self.skipped += 1,
            Verdict::Failed(_) => self.failed += 1,
        }
    }
}

/// The counts of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LevelCounts {
    /// The level.
    pub level: Level,
    /// Whether it passes: nothing failed, and only optional capabilities are missing.
    pub holds: bool,
    /// Its cases.
    #[serde(flatten)]
    pub cases: Counts,
}

/// A case and why it did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FailedCase {
    /// The case.
    pub id: String,
    /// What the case expected and what it saw.
    pub why: String,
    /// The sentences it proves.
    pub proves: Vec<String>,
}

/// The results of the mutants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MutantCounts {
    /// Mutants that ran.
    pub total: usize,
    /// Mutants that a case caught.
    pub caught: usize,
    /// Ids of mutants that passed every case.
    pub survivors: Vec<String>,
}

/// A mutant and the first case that caught it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CaughtMutant {
    /// The mutant.
    pub mutant: String,
    /// What it does.
    pub what: String,
    /// The case.
    pub case: String,
    /// Why the case failed.
    pub why: String,
}

/// The mutants' part of a report.
#[derive(Debug, Default)]
pub(super) struct MutantReport {
    pub(super) counts: MutantCounts,
    pub(super) caught: Vec<CaughtMutant>,
}

impl Report {
    pub(super) fn new(
        provider: &str,
        outcomes: &[Outcome],
        mutants: MutantReport,
        whole: bool,
        cancelled: bool,
    ) -> Self {
        let mut cases = Counts::default();
        let (mut failed, mut skipped, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for Outcome { case, verdict, .. } in outcomes {
            cases.add(verdict);
            let because = |why: &str| FailedCase {
                id: case.id.to_owned(),
                why: why.to_owned(),
                proves: case.proves.iter().map(|&sentence| sentence.to_owned()).collect(),
            };
            match verdict {
                Verdict::Passed => {}
                Verdict::Refused(need) => refused.push(*need),
                Verdict::Skipped(why) => skipped.push(because(why)),
                Verdict::Failed(why) => failed.push(because(why)),
            }
        }
        refused.sort();
        refused.dedup();
        let levels: Vec<LevelCounts> = Level::ALL
            .into_iter()
            .map(|level| {
                let of_level = || outcomes.iter().filter(move |outcome| outcome.case.level() == level);
                let mut cases = Counts::default();
                of_level().for_each(|outcome| cases.add(&outcome.verdict));
                let holds = of_level().all(|outcome| {
                    !matches!(outcome.verdict, Verdict::Failed(_))
                        && !matches!(outcome.verdict, Verdict::Refused(need) if need.is_required())
                });
                LevelCounts { level, holds: holds && cases.passed > 0, cases }
            })
            .collect();
        let level = levels.iter().take_while(|counts| counts.holds).last().map(|counts| counts.level);
        let elapsed = outcomes.iter().map(|outcome| outcome.elapsed.as_millis()).sum::<u128>();
        Self {
            provider: provider.to_owned(),
            cases,
            failed,
            mutants: mutants.counts,
            level: level.filter(|_| whole && !cancelled),
            levels,
            skipped,
            refused,
            caught: mutants.caught,
            cancelled,
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
        }
    }

    /// Whether no case failed, no mutant survived, and the run was not cancelled.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failed.is_empty() && self.mutants.survivors.is_empty() && !self.cancelled
    }

    /// Writes the report into a folder as `conformance.json` and `conformance.md`, with its `badge.json`, overwriting
    /// existing files.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write_to(&self, folder: impl AsRef<Path>) -> io::Result<()> {
        let folder = folder.as_ref();
        fs::write(folder.join("conformance.json"), self.to_json())?;
        fs::write(folder.join("conformance.md"), self.to_markdown())?;
        fs::write(folder.join("badge.json"), self.to_badge())
    }

    /// The report as JSON, indented.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The report as Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write_markdown(&mut out);
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        let Counts { total, passed, failed, refusals, skipped } = self.cases;
        writeln!(out, "# Conformance of `{}`\n", self.provider)?;
        write!(out, "{passed} of {total} cases passed, {failed} failed, ")?;
        writeln!(out, "{refusals} proved a refusal, {skipped} do not apply.")?;
        if self.cancelled {
            writeln!(out, "\nThe run was broken off before its end.")?;
        }
        match self.level {
            Some(level) => writeln!(out, "\nLevel reached: **{level}**.")?,
            None => writeln!(out, "\nNo level was reached, or cases were left out.")?,
        }
        writeln!(out, "\n| level | holds | cases | passed | failed | refusals | skipped |")?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for LevelCounts { level, holds, cases } in &self.levels {
            let holds = if *holds { "yes" } else { "no" };
            let Counts { total, passed, failed, refusals, skipped } = cases;
            writeln!(out, "| {level} | {holds} | {total} | {passed} | {failed} | {refusals} | {skipped} |")?;
        }
        if !self.failed.is_empty() {
            writeln!(out, "\n## Failed\n\n| case | proves | why |\n|---|---|---|")?;
            for FailedCase { id, why, proves } in &self.failed {
                writeln!(out, "| `{id}` | {} | {} |", proves.join(", "), cell(why))?;
            }
        }
        if !self.skipped.is_empty() {
            writeln!(out, "\n## Do not apply\n")?;
            for FailedCase { id, why, .. } in &self.skipped {
                writeln!(out, "- `{id}`: {}", cell(why))?;
            }
        }
        if self.mutants.total > 0 {
            writeln!(out, "\n## Mutants\n\n{} of {} were caught.", self.mutants.caught, self.mutants.total)?;
            for survivor in &self.mutants.survivors {
                writeln!(out, "- **`{survivor}` survived**")?;
            }
            writeln!(out, "\n| mutant | what it does | caught by |\n|---|---|---|")?;
            for CaughtMutant { mutant, what, case, .. } in &self.caught {
                writeln!(out, "| `{mutant}` | {} | `{case}` |", cell(what))?;
            }
        }
        Ok(())
    }

    /// The report as a badge, in the JSON of <https://shields.io/badges/endpoint-badge>.
    #[must_use]
    pub fn to_badge(&self) -> String {
        let Counts { total, passed, failed, refusals, skipped } = self.cases;
        let served = total - refusals - skipped;
        let (message, color) = match self.level {
            Some(level) if failed == 0 => (format!("{level} {passed}/{served}"), "brightgreen"),
            Some(level) => (format!("{level} {passed}/{served}"), "yellow"),
            None if failed == 0 && !self.cancelled => (format!("{passed}/{served}"), "yellowgreen"),
            None => (format!("{passed}/{served}"), "red"),
        };
        let badge = serde_json::json!({
            "schemaVersion": 1,
            "label": "memory conformance",
            "message": message,
            "color": color,
        });
        badge.to_string()
    }
}

/// A reason as a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}
