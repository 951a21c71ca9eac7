//! `cargo xtask test`: the tests that a change must pass.

use crate::Result;
use crate::binaries::{self, Job};
use crate::libraries::{Ladybug, Libclang};
use crate::process::{self, Stream};
use crate::python;
use crate::steps::{Done, Steps};
use crate::tally::Tally;
use crate::testbed::{self, Scratch, TestBed};
use crate::workspace::Workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only what needs no library of its own: not the graph engine, the Python client, or PostgreSQL's own grammar.
    #[arg(long)]
    quick: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    println!(
        "Builds the workspace and runs every test: unit, integration, conformance and documentation tests, and"
    );
    println!("the seeds of the fuzz targets; then the Python client and PostgreSQL's own grammar. Into");
    println!("{}, unless it is there already, it downloads", workspace.target.display());
    testbed::DOWNLOADS.iter().for_each(|what| println!("  {what}"));
    println!(
        "and compiles some 400 crates: about ten minutes on two cores, and twenty minutes for the tests."
    );
    let mut steps = Steps::new("test");
    let mut tally = Tally::default();
    let mut ready = None;
    let mut engine = None;
    steps.step("compile, set up", || {
        testbed::require(workspace)?;
        if !args.quick {
            match Ladybug::prepare(workspace) {
                Ok(ladybug) => engine = Some(ladybug),
                Err(error) => println!("LadybugDB: none, tests of it are left out: {error}"),
            }
        }
        ready = Some(std::thread::scope(|scope| {
            // Downloads run while the compiler uses the processors.
            let prepared = scope.spawn(|| {
                let tools = python::Tools::prepare(workspace).map_err(|error| error.to_string());
                (TestBed::prepare(workspace, Scratch::prepare(), engine.as_ref()), tools)
            });
            let jobs = binaries::compile(workspace, engine.as_ref());
            let (bed, tools) = prepared.join().map_err(|_| "setting up panicked")?;
            Ok::<_, Box<dyn std::error::Error>>((bed, tools, jobs?))
        })?);
        Ok(Done::Passed)
    });
    let Some((bed, tools, mut jobs)) = ready else { return steps.finish() };

    steps.step("workspace", || {
        let mut documentation = binaries::cargo_test(workspace, engine.as_ref());
        documentation.args(["--no-fail-fast", "--doc"]);
        jobs.insert(0, Job::new("documentation tests", documentation));
        binaries::run(jobs, &bed, &mut tally)?;
        Ok(Done::Passed)
    });
    if !args.quick {
        steps.step("the Python client", || {
            let tools = match &tools {
                Ok(tools) => tools,
                Err(error) => return Ok(Done::Skipped(error.clone())),
            };
            tools.test(workspace, &python::built(workspace))?;
            Ok(Done::Passed)
        });
        steps.step("PostgreSQL's own grammar", || {
            let libclang = Libclang::prepare(workspace);
            if !libclang.found() {
                return Ok(Done::Skipped("there is no libclang to build it with".to_owned()));
            }
            let mut cargo = workspace.cargo();
            cargo.args(["test", "--no-fail-fast", "--package", "memory-validator", "--all-features"]);
            libclang.apply(bed.apply(0, &mut cargo));
            process::watch(&mut cargo, Stream::Stdout, |line| tally.read(line))?;
            Ok(Done::Passed)
        });
    }

    let outcome = steps.finish();
    for name in &tally.names_failed {
        println!("  failed: {name}");
    }
    for name in &tally.names_unstable {
        println!("  unstable, to be mended: {name} failed beside others and passed alone");
    }
    // On a separate line, for programs that read the result.
    println!("\ntests: {}", tally.line());
    outcome?;
    if tally.passed == 0 { Err("no test ran".into()) } else { Ok(()) }
}
