//! `cargo xtask test`: the tests that a change must pass.

use crate::Result;
use crate::binaries::{self, Job};
use crate::libclang::Libclang;
use crate::process::{self, Stream};
use crate::steps::{Done, Steps};
use crate::testbed::{self, TestBed};
use crate::workspace::Workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the workspace's tests: not a SQLite without SQL, or PostgreSQL's own grammar.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    println!(
        "Builds the workspace and runs every test: unit, integration, conformance and documentation tests, and"
    );
    println!("the seeds of the fuzz targets; then SQLite without SQL, and PostgreSQL's own grammar. Into");
    println!("{}, unless it is there already, it downloads", workspace.target.display());
    testbed::DOWNLOADS.iter().for_each(|what| println!("  {what}"));
    println!("and compiles some 400 crates: about ten minutes on two cores, the tests as much again.");
    let mut steps = Steps::new("test");
    let mut tally = Tally::default();
    let mut ready = None;
    steps.step("compile, set up", || {
        testbed::require(workspace)?;
        ready = Some(std::thread::scope(|scope| {
            // Downloads run while the compiler uses the processors.
            let prepared = scope.spawn(|| TestBed::prepare(workspace));
            let jobs = binaries::compile(workspace);
            Ok::<_, Box<dyn std::error::Error>>((prepared.join().map_err(|_| "setting up panicked")?, jobs?))
        })?);
        Ok(Done::Passed)
    });
    let Some((bed, mut jobs)) = ready else { return steps.finish() };

    steps.step("workspace", || {
        let mut documentation = workspace.cargo();
        documentation.args(["test", "--no-fail-fast", "--workspace", "--doc"]);
        jobs.insert(0, Job::new("documentation tests", documentation));
        binaries::run(jobs, &bed, &mut tally)?;
        Ok(Done::Passed)
    });
    if !args.quick {
        steps.step("SQLite without SQL", || {
            let what = ["--package", "memory-sqlite", "--no-default-features", "--test", "no_sql"];
            cargo_test(workspace, &bed, &mut tally, &what)
        });
        steps.step("PostgreSQL's own grammar", || {
            let libclang = Libclang::prepare(workspace);
            if !libclang.found() {
                return Ok(Done::Skipped("there is no libclang to build it with".to_owned()));
            }
            let mut cargo = workspace.cargo();
            cargo.args(["test", "--no-fail-fast", "--package", "memory-validator", "--all-features"]);
            libclang.apply(bed.apply(&mut cargo));
            process::watch(&mut cargo, Stream::Stdout, |line| tally.read(line))?;
            Ok(Done::Passed)
        });
    }

    let outcome = steps.finish();
    for name in &tally.names_failed {
        println!("  failed: {name}");
    }
    // On a separate line, for programs that read the result.
    println!("\ntests: {}", tally.line());
    outcome?;
    if tally.passed == 0 { Err("no test ran".into()) } else { Ok(()) }
}

fn cargo_test(workspace: &Workspace, bed: &TestBed, tally: &mut Tally, what: &[&str]) -> Result<Done> {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--no-fail-fast"]).args(what);
    process::watch(bed.apply(&mut cargo), Stream::Stdout, |line| tally.read(line))?;
    Ok(Done::Passed)
}

/// Counts from the output of test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
    names_failed: Vec<String>,
}

impl Tally {
    /// Reads one line of libtest or libtest-mimic; ignores any other.
    pub(crate) fn read(&mut self, line: &str) {
        let line = line.trim();
        if let Some(counts) = line.strip_prefix("test result: ") {
            // `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
            let counts = counts.split_once(". ").map_or(counts, |(_, counts)| counts);
            self.count(counts.split("; "));
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.names_failed.push(name.to_owned());
        }
    }

    fn count<'a>(&mut self, parts: impl Iterator<Item = &'a str>) {
        for part in parts {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|n| n.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.skipped += number,
                _ => {}
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.names_failed.extend(other.names_failed);
    }

    pub(crate) fn line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn libtest_results_add_up_over_test_binaries() {
        let tally = tally_of(
            "running 4 tests\n\
             test kv::gets ... ok\n\
             test kv::sets ... FAILED\n\
             test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.10s\n\
             test result: ok. 30 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
        );
        assert_eq!(tally.line(), "32 passed, 1 failed, 1 skipped");
        assert_eq!(tally.names_failed, ["kv::sets"]);
    }

    #[test]
    fn what_a_test_prints_is_not_counted() {
        assert_eq!(tally_of("3 passed, 4 failed\nthe test result: 9 passed\n"), Tally::default());
    }
}
