//! Named steps that run in sequence, each timed, all reported at the end.

use std::time::{Duration, Instant};

use crate::Result;

/// The result of a step that did not fail.
#[derive(Debug)]
pub(crate) enum Done {
    Passed,
    /// Passed, with a note.
    Noted(String),
    /// Not run, and why.
    Skipped(String),
}

#[derive(Debug)]
struct Record {
    name: String,
    took: Duration,
    outcome: std::result::Result<Done, String>,
}

/// Runs steps and records the results. A failing step does not stop later ones: one run shows everything that is wrong.
#[derive(Debug)]
pub(crate) struct Steps {
    title: &'static str,
    started: Instant,
    records: Vec<Record>,
}

impl Steps {
    pub(crate) fn new(title: &'static str) -> Self {
        Self { title, started: Instant::now(), records: Vec::new() }
    }

    pub(crate) fn step(&mut self, name: impl Into<String>, work: impl FnOnce() -> Result<Done>) {
        let name = name.into();
        println!("\n== {}: {name}", self.title);
        let started = Instant::now();
        let outcome = work().map_err(|error| error.to_string());
        let took = started.elapsed();
        match &outcome {
            Ok(Done::Passed) => println!("-- {name}: ok, {}", seconds(took)),
            Ok(Done::Noted(note)) => println!("-- {name}: ok, {}, {note}", seconds(took)),
            Ok(Done::Skipped(why)) => println!("-- {name}: skipped: {why}"),
            Err(error) => println!("-- {name}: FAILED, {}\n{error}", seconds(took)),
        }
        self.records.push(Record { name, took, outcome });
    }

    /// Prints one line per step, and fails if any step did.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n== {}: summary", self.title);
        let width = self.records.iter().map(|r| r.name.len()).max().unwrap_or(0);
        for Record { name, took, outcome } in &self.records {
            let took = seconds(*took);
            match outcome {
                Ok(Done::Passed) => println!("  {name:width$}  {took:>8}  ok"),
                Ok(Done::Noted(note)) => println!("  {name:width$}  {took:>8}  ok, {note}"),
                Ok(Done::Skipped(why)) => println!("  {name:width$}  {took:>8}  skipped: {why}"),
                Err(error) => {
                    let first = error.lines().next().unwrap_or_default();
                    println!("  {name:width$}  {took:>8}  FAILED: {first}");
                }
            }
        }
        println!("  {:width$}  {:>8}", "in all", seconds(self.started.elapsed()));
        let failed = self.records.iter().filter(|r| r.outcome.is_err()).count();
        match failed {
            0 => Ok(()),
            n => Err(format!("{}: {n} of {} steps failed", self.title, self.records.len()).into()),
        }
    }
}

pub(crate) fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_fails_the_run_and_the_later_ones_still_run() {
        let mut steps = Steps::new("test");
        let mut ran = false;
        steps.step("breaks", || Err("broken".into()));
        steps.step("follows", || {
            ran = true;
            Ok(Done::Passed)
        });
        let error = steps.finish().unwrap_err().to_string();
        assert!(ran);
        assert_eq!(error, "test: 1 of 2 steps failed");
    }

    #[test]
    fn a_skipped_step_does_not_fail_the_run() {
        let mut steps = Steps::new("test");
        steps.step("absent", || Ok(Done::Skipped("nothing to run".into())));
        assert!(steps.finish().is_ok());
    }
}
