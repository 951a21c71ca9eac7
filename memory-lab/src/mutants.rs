//! `mutants`: providers that are broken in one way each, which the suite must detect.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use memory_conformance::suite::{MutantOutcome, run_mutants, run_mutants_around};
use memory_conformance::{Harness, Mutant, Options, cases, mutants};
use memory_core::Error;
use memory_server::terminal::{Context, Exit, Failure, Out, Progress, Stop};
use serde::Serialize;

use crate::harness::harness;

/// Options of `mutants`.
#[derive(Args, Debug)]
pub(crate) struct MutantsArgs {
    /// Only mutants whose id contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Time limit of one case, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
}

/// The answer. Its members are those of the report of `conformance --mutants`.
#[derive(Serialize)]
struct Answer<'a> {
    mutants: Counts<'a>,
    caught: Vec<Caught<'a>>,
    cancelled: bool,
}

#[derive(Serialize)]
struct Counts<'a> {
    total: usize,
    caught: usize,
    survivors: Vec<&'a str>,
}

#[derive(Serialize)]
struct Caught<'a> {
    mutant: &'a str,
    what: &'a str,
    case: &'a str,
    why: &'a str,
}

/// `memory-lab mutants`: mutants of the reference provider, and mutants about SQL around the chosen store.
pub(crate) async fn run(context: &Context, args: MutantsArgs, out: &mut Out) -> Result<Exit, Failure> {
    let wanted = args.filter.unwrap_or_default();
    let chosen = |mut mutants: Vec<Mutant>| {
        mutants.retain(|mutant| mutant.id.contains(&wanted));
        mutants
    };
    let (of_the_reference, mut of_sql) = (chosen(mutants::of_the_reference()), chosen(mutants::of_sql()));
    if of_the_reference.is_empty() && of_sql.is_empty() {
        return Err(Failure::invalid("no mutant's id contains the text of --filter"));
    }
    let (store, served) = harness(context, true).await?;
    // A facet that the store does not serve cannot be mutated.
    of_sql.retain(|mutant| mutant.needs.iter().all(|need| need.is_met(&served)));
    let store: Arc<dyn Harness> = Arc::new(store);
    let options = Options::default().with_timeout(Duration::from_secs(args.timeout));
    let stop = Stop::listen();
    let mut progress = Progress::new(context.is_quiet());
    progress.set_length((of_the_reference.len() + of_sql.len()) as u64);
    let proof = move || {
        let cases = cases::all();
        let mut done = 0;
        let mut show = |outcome: &MutantOutcome| {
            done += 1;
            note_mutant(outcome, done, &mut progress);
            if stop.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let (mut outcomes, mut cancelled) = run_mutants(&of_the_reference, &cases, &options, &mut show);
        if !cancelled && !of_sql.is_empty() {
            let more;
            (more, cancelled) = run_mutants_around(&store, &of_sql, &cases, &options, &mut show);
            outcomes.extend(more);
        }
        progress.finish();
        (outcomes, cancelled)
    };
    let (outcomes, cancelled) = tokio::task::spawn_blocking(proof).await.map_err(|error| {
        Error::internal("the suite panicked, which is a bug; please report it").with_source(error)
    })?;
    let answer = answer(&outcomes, cancelled);
    if out.is_json() {
        out.document(&answer)?;
    } else {
        print(&answer, out)?;
    }
    Ok(match (cancelled, answer.mutants.survivors.is_empty()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::Failed,
    })
}

/// Updates the progress, and prints a survivor.
pub(crate) fn note_mutant(outcome: &MutantOutcome, done: u64, progress: &mut Progress) {
    let id = outcome.mutant.id;
    if outcome.caught.is_none() {
        progress.note(&format!("SURVIVED {id}: {}", outcome.mutant.what));
    }
    progress.update(done, || format!("{done} mutants, {id}"));
}

fn answer(outcomes: &[MutantOutcome], cancelled: bool) -> Answer<'_> {
    let caught: Vec<Caught<'_>> = outcomes
        .iter()
        .filter_map(|outcome| {
            let (case, why) = outcome.caught.as_ref()?;
            Some(Caught { mutant: outcome.mutant.id, what: outcome.mutant.what, case, why })
        })
        .collect();
    let survivors =
        outcomes.iter().filter(|outcome| outcome.caught.is_none()).map(|outcome| outcome.mutant.id).collect();
    Answer { mutants: Counts { total: outcomes.len(), caught: caught.len(), survivors }, caught, cancelled }
}

fn print(answer: &Answer<'_>, out: &mut Out) -> Result<(), Failure> {
    for caught in &answer.caught {
        out.line(format!("{:<44}{}", caught.mutant, caught.case))?;
    }
    out.line(format!("mutants   {}: {} caught", answer.mutants.total, answer.mutants.caught))?;
    for survivor in &answer.mutants.survivors {
        out.line(format!("SURVIVED  {survivor}"))?;
    }
    Ok(())
}
