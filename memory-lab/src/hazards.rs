//! `eval hazards`: what goes wrong where several agents share state, and that it does not on a store.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use memory_conformance::suite::{HazardOutcome, run_hazards};
use memory_conformance::{Harness, Options, Verdict};
use memory_core::{Error, ErrorKind};
use memory_server::terminal::{Context, Exit, Failure, Out, Progress, Stop};
use serde::Serialize;

use crate::harness::harness;

/// Options of `eval hazards`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HazardsArgs {
    /// Time limit of one case, in seconds
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: u64,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Answer<'a> {
    store: &'a str,
    hazards: Vec<Line<'a>>,
    #[serde(flatten)]
    sums: Sums,
    cancelled: bool,
}

/// One hazard.
#[derive(Serialize)]
struct Line<'a> {
    number: u32,
    hazard: &'a str,
    sentence: &'a str,
    case: &'a str,
    /// `passed`, `refused`, `skipped` or `failed`.
    store: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    mutants: Vec<Broken<'a>>,
}

/// A defect, and why the case failed with it; `None`: the case did not notice.
#[derive(Serialize)]
struct Broken<'a> {
    mutant: &'a str,
    what: &'a str,
    caught: Option<&'a str>,
}

#[derive(Default, Serialize)]
struct Sums {
    passed: usize,
    refused: usize,
    skipped: usize,
    failed: usize,
    /// Pairs of a hazard and a mutant of it.
    mutants: usize,
    caught: usize,
}

/// What is missing where every hazard is refused.
const NO_TABLES: &str = "no hazard was tried: the store has no SQL tables for shared state; on PostgreSQL, add the parameter \
     `sql.url` to --url (docs/postgres.md), as in --url 'postgres://HOST/DB?sql.url=…'";

/// `memory-lab eval hazards`.
pub(crate) async fn run(context: &Context, args: &HazardsArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (store, _) = harness(context, false).await?;
    let store: Arc<dyn Harness> = Arc::new(store);
    let options = Options::default().with_timeout(Duration::from_secs(args.timeout));
    let (stop, mut progress) = (Stop::listen(), Progress::new(context.is_quiet()));
    let on = Arc::clone(&store);
    let work = move || {
        let mut done = 0;
        let ran = run_hazards(&on, &options, |outcome| {
            done += 1;
            progress.update(done, || format!("{done} hazards, {}", outcome.hazard.case));
            if stop.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        progress.finish();
        ran
    };
    let (outcomes, cancelled) = tokio::task::spawn_blocking(work).await.map_err(|error| {
        Error::internal("the suite panicked, which is a bug; please report it").with_source(error)
    })?;
    let answer = answer(store.name(), &outcomes, cancelled);
    if out.is_json() {
        out.document(&answer)?;
    } else {
        print(&answer, out)?;
    }
    // A store that refuses every case has shown nothing.
    let is_refused = |outcome: &HazardOutcome| matches!(outcome.verdict, Verdict::Refused(_));
    if !cancelled && outcomes.iter().all(is_refused) {
        return Err(Error::new(ErrorKind::Unsupported, NO_TABLES).into());
    }
    Ok(match (cancelled, outcomes.iter().all(HazardOutcome::is_sound)) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::Failed,
    })
}

fn answer<'a>(store: &'a str, outcomes: &'a [HazardOutcome], cancelled: bool) -> Answer<'a> {
    let mut sums = Sums::default();
    let lines = outcomes.iter().map(|outcome| line(outcome, &mut sums)).collect();
    Answer { store, hazards: lines, sums, cancelled }
}

fn line<'a>(outcome: &'a HazardOutcome, sums: &mut Sums) -> Line<'a> {
    let (word, why, sum) = match &outcome.verdict {
        Verdict::Passed => ("passed", None, &mut sums.passed),
        Verdict::Refused(need) => ("refused", Some(format!("the store has no {need:?}")), &mut sums.refused),
        Verdict::Skipped(why) => ("skipped", Some(why.clone()), &mut sums.skipped),
        other => ("failed", other.failure().map(str::to_owned), &mut sums.failed),
    };
    *sum += 1;
    sums.mutants += outcome.mutants.len();
    sums.caught += outcome.mutants.iter().filter(|one| one.caught.is_some()).count();
    let hazard = outcome.hazard;
    Line {
        number: hazard.number,
        hazard: hazard.name,
        sentence: hazard.sentence,
        case: hazard.case,
        store: word,
        why,
        mutants: outcome
            .mutants
            .iter()
            .map(|one| Broken {
                mutant: one.mutant.id,
                what: one.mutant.what,
                caught: one.caught.as_ref().map(|(_, why)| why.as_str()),
            })
            .collect(),
    }
}

fn print(answer: &Answer<'_>, out: &mut Out) -> Result<(), Failure> {
    out.line(format!("{:>2}  {:<35}{:<9}{:<9}hazard", "", "case", "store", "mutants"))?;
    for line in &answer.hazards {
        let caught = line.mutants.iter().filter(|one| one.caught.is_some()).count();
        let mutants = format!("{caught} of {}", line.mutants.len());
        out.line(format!(
            "{:>2}  {:<35}{:<9}{mutants:<9}{}",
            line.number, line.case, line.store, line.hazard
        ))?;
    }
    let Sums { passed, refused, skipped, failed, mutants, caught } = &answer.sums;
    out.line(format!(
        "{} hazards on {}: {passed} passed, {refused} refused as expected, {skipped} skipped, {failed} failed; \
         {caught} of {mutants} mutants caught",
        answer.hazards.len(),
        answer.store
    ))?;
    for line in &answer.hazards {
        if let Some(why) = line.why.as_ref().filter(|_| line.store == "failed") {
            out.line(format!("FAILED    {}: {why}", line.case))?;
        }
        for one in line.mutants.iter().filter(|one| one.caught.is_none()) {
            out.line(format!("SURVIVED  {} on {}: {}", one.mutant, line.case, one.what))?;
        }
    }
    Ok(())
}
