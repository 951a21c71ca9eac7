//! `conformance`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use memory_conformance::{Event, Options, Report, Verdict};
use memory_core::Error;
use memory_server::terminal::{Context, Exit, Failure, Out, Progress, Stop};

use crate::harness::harness;
use crate::mutants::note_mutant;

/// Options of `conformance`.
#[derive(Args, Debug)]
pub(crate) struct ConformanceArgs {
    /// Only cases whose id contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Give the store no embedder: it must then refuse vector searches
    #[arg(long)]
    no_embedder: bool,
    /// Run the mutants too: the proof that the suite detects broken providers
    #[arg(long)]
    mutants: bool,
    /// Time limit of one case, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
}

/// `memory-lab conformance`.
pub(crate) async fn run(context: &Context, args: ConformanceArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (harness, _) = harness(context, !args.no_embedder).await?;
    let mut options =
        Options::default().with_mutants(args.mutants).with_timeout(Duration::from_secs(args.timeout));
    if let Some(filter) = args.filter {
        options = options.with_filter(filter);
    }
    let stop = Stop::listen();
    let mut progress = Progress::new(context.is_quiet());
    let suite = move || {
        let mut done = 0;
        let report = memory_conformance::run(Arc::new(harness), &options, |event| {
            show(event, &mut done, &mut progress);
            if stop.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        progress.finish();
        (report, stop.is_asked())
    };
    let (report, interrupted) = tokio::task::spawn_blocking(suite).await.map_err(|error| {
        Error::internal("the suite panicked, which is a bug; please report it").with_source(error)
    })?;
    if report.cases.total == 0 && !interrupted {
        return Err(no_case());
    }
    if out.is_json() {
        out.document(&report)?;
    } else {
        print(&report, out)?;
    }
    Ok(match (interrupted, report.is_success()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::Failed,
    })
}

fn no_case() -> Failure {
    let families: BTreeSet<&str> = memory_conformance::cases::all()
        .iter()
        .filter_map(|case| case.id.split_once('.'))
        .map(|(family, _)| family)
        .collect();
    let families: Vec<&str> = families.into_iter().collect();
    Failure::invalid(format!(
        "no case id contains the text of --filter; ids begin with {}",
        families.join(", ")
    ))
}

fn show(event: Event<'_>, done: &mut u64, progress: &mut Progress) {
    match event {
        Event::Cases(count) | Event::Mutants(count) => {
            *done = 0;
            progress.set_length(count as u64);
        }
        Event::Case(outcome) => {
            *done += 1;
            if let Verdict::Failed(why) = &outcome.verdict {
                progress.note(&format!("FAILED {}: {why}", outcome.case.id));
            }
            let id = outcome.case.id;
            progress.update(*done, || format!("{} cases, {id}", *done));
        }
        Event::Mutant(trap) => {
            *done += 1;
            note_mutant(trap, *done, progress);
        }
        _ => {}
    }
}

fn print(report: &Report, out: &mut Out) -> Result<(), Failure> {
    let cases = &report.cases;
    out.line(format!("provider  {}", report.provider))?;
    out.line(format!(
        "cases     {}: {} passed, {} refused as expected, {} skipped, {} failed",
        cases.total, cases.passed, cases.refusals, cases.skipped, cases.failed
    ))?;
    for failed in &report.failed {
        out.line(format!("FAILED    {}: {}", failed.id, failed.why))?;
    }
    let mutants = &report.mutants;
    if mutants.total > 0 {
        out.line(format!("mutants   {}: {} caught", mutants.total, mutants.caught))?;
    }
    for survivor in &mutants.survivors {
        out.line(format!("SURVIVED  {survivor}"))?;
    }
    Ok(())
}
