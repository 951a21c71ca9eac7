//! Runs mutants against cases: which case catches which mutant, and which catch none.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::case::{Case, Need};
use crate::cases;
use crate::harness::Harness;
use crate::mutants::mutant::{Ground, MutantOutcome};
use crate::mutants::{self, Mutant, MutantHarness};
use crate::suite::options::{Event, Options};
use crate::suite::parallel::in_parallel;
use crate::suite::report::{CaughtMutant, MutantReport};
use crate::suite::runner::{self, Verdict, run_case};

/// Runs the mutants whose needs the provider meets, for the report on these cases. The flag says whether `progress`
/// cancelled.
pub(super) fn run_for_report(
    harness: &Arc<dyn Harness>,
    cases: &[Case],
    options: &Options,
    progress: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
) -> (MutantReport, bool) {
    let served = served(harness, options.timeout);
    let (around, within): (Vec<Mutant>, Vec<Mutant>) = mutants_for(cases, options.filter.is_some())
        .into_iter()
        .filter(|mutant| mutant.needs.iter().all(|need| served.contains(need)))
        .partition(Mutant::is_sql);
    if progress(Event::Mutants(within.len() + around.len())).is_break() {
        return (MutantReport::default(), true);
    }
    let mut told = |outcome: &MutantOutcome| progress(Event::Mutant(outcome));
    let (mut outcomes, mut cancelled) = run_mutants(&within, &cases::all(), options, &mut told);
    if !cancelled && !around.is_empty() {
        let more;
        (more, cancelled) = run_mutants_around(harness, &around, &cases::all(), options, told);
        outcomes.extend(more);
    }
    (report_of(outcomes), cancelled)
}

fn report_of(outcomes: Vec<MutantOutcome>) -> MutantReport {
    let mut report = MutantReport::default();
    report.counts.total = outcomes.len();
    for MutantOutcome { mutant, caught } in outcomes {
        match caught {
            None => report.counts.survivors.push(mutant.id.to_owned()),
            Some((case, why)) => report.caught.push(CaughtMutant {
                mutant: mutant.id.to_owned(),
                what: mutant.what.to_owned(),
                case: case.to_owned(),
                why,
            }),
        }
    }
    report.counts.caught = report.caught.len();
    report
}

/// The mutants that break a sentence proved by one of the cases; all of them if no case was left out.
fn mutants_for(cases: &[Case], filtered: bool) -> Vec<Mutant> {
    let mut mutants = mutants::all();
    mutants.retain(|mutant| !filtered || cases.iter().any(|case| is_about(case, mutant)));
    mutants
}

fn is_about(case: &Case, mutant: &Mutant) -> bool {
    case.proves.iter().any(|sentence| mutant.breaks.contains(sentence))
}

fn breaks_capabilities(mutant: &Mutant) -> bool {
    mutant.breaks.iter().any(|sentence| sentence.starts_with("CAP-"))
}

/// What the harness's provider serves; nothing if it cannot be opened.
fn served(harness: &Arc<dyn Harness>, timeout: Duration) -> Vec<Need> {
    runner::capabilities(harness, timeout)
        .map(|served| Need::ALL.iter().copied().filter(|need| need.is_met(&served)).collect())
        .unwrap_or_default()
}

/// Runs each mutant of the reference provider until a case catches it: cases about its sentences first, quick ones
/// before slow ones. Cases that the reference provider itself fails catch nothing. The flag says whether `progress`
/// cancelled.
pub fn run_mutants(
    mutants: &[Mutant],
    cases: &[Case],
    options: &Options,
    mut progress: impl FnMut(&MutantOutcome) -> ControlFlow<()>,
) -> (Vec<MutantOutcome>, bool) {
    let mut outcomes = Vec::new();
    for ground in Ground::ALL {
        let standing: Vec<Mutant> =
            mutants.iter().filter(|mutant| mutant.ground() == ground).copied().collect();
        if standing.is_empty() {
            continue;
        }
        let sound = sound_cases_on(ground, cases, options);
        let make = |mutant: &Mutant| MutantHarness::new(*mutant);
        let (more, cancelled) = run_each(&standing, &sound, options, &mut progress, make);
        outcomes.extend(more);
        if cancelled {
            return (outcomes, true);
        }
    }
    (outcomes, false)
}

/// As [`run_mutants`], for the mutants about SQL, wrapped around that harness's provider. Cases about SQL that the
/// provider itself fails or skips catch nothing.
pub fn run_mutants_around(
    harness: &Arc<dyn Harness>,
    mutants: &[Mutant],
    cases: &[Case],
    options: &Options,
    progress: impl FnMut(&MutantOutcome) -> ControlFlow<()>,
) -> (Vec<MutantOutcome>, bool) {
    let sound = sound_cases_of(harness, &about_sql(cases), options);
    run_each(mutants, &sound, options, progress, |mutant| MutantHarness::around(*mutant, Arc::clone(harness)))
}

fn about_sql(cases: &[Case]) -> Vec<Case> {
    cases.iter().filter(|case| case.is_sql()).copied().collect()
}

fn run_each(
    mutants: &[Mutant],
    sound: &[Case],
    options: &Options,
    progress: impl FnMut(&MutantOutcome) -> ControlFlow<()>,
    make: impl Fn(&Mutant) -> MutantHarness + Sync,
) -> (Vec<MutantOutcome>, bool) {
    let catch = |mutant: &Mutant| {
        let (first, rest): (Vec<Case>, Vec<Case>) = sound.iter().partition(|case| is_about(case, mutant));
        let harness: Arc<dyn Harness> = Arc::new(make(mutant));
        let caught = first.iter().chain(&rest).find_map(|case| caught_by(&harness, case, options.timeout));
        MutantOutcome { mutant: *mutant, caught }
    };
    in_parallel(mutants, options.threads, catch, progress)
}

/// The ids of the cases that caught a mutant. A mutant that lies about its capabilities counts only for cases about
/// them: it may not even open, and so fail every case.
#[must_use]
pub fn cases_that_caught(outcomes: &[MutantOutcome]) -> BTreeSet<&'static str> {
    let caught = outcomes.iter().filter_map(|outcome| Some((outcome.mutant, outcome.caught.as_ref()?.0)));
    let counts = |mutant: &Mutant, case: &str| {
        !breaks_capabilities(mutant) || cases::all().iter().any(|one| one.id == case && is_about(one, mutant))
    };
    caught.filter(|(mutant, case)| counts(mutant, case)).map(|(_, case)| case).collect()
}

/// The cases that catch none of the mutants of the reference provider; mutants that break a case's sentences are tried
/// first.
#[must_use]
pub fn idle_cases(cases: &[Case], mutants: &[Mutant], options: &Options) -> Vec<Case> {
    idle(cases, mutants, options, |mutant| MutantHarness::new(*mutant))
}

/// As [`idle_cases`], for the cases and mutants about SQL, wrapped around that harness's provider. Cases that the
/// provider itself fails or skips are not included.
#[must_use]
pub fn idle_cases_around(
    harness: &Arc<dyn Harness>,
    cases: &[Case],
    mutants: &[Mutant],
    options: &Options,
) -> Vec<Case> {
    let sound = sound_cases_of(harness, &about_sql(cases), options);
    idle(&sound, mutants, options, |mutant| MutantHarness::around(*mutant, Arc::clone(harness)))
}

fn idle(
    cases: &[Case],
    mutants: &[Mutant],
    options: &Options,
    make: impl Fn(&Mutant) -> MutantHarness + Sync,
) -> Vec<Case> {
    let catches = |case: &Case| {
        // As in `cases_that_caught`.
        let (first, rest): (Vec<Mutant>, Vec<Mutant>) = mutants
            .iter()
            .filter(|mutant| is_about(case, mutant) || !breaks_capabilities(mutant))
            .partition(|mutant| is_about(case, mutant));
        first.into_iter().chain(rest).any(|mutant| {
            let harness: Arc<dyn Harness> = Arc::new(make(&mutant));
            caught_by(&harness, case, options.timeout).is_some()
        })
    };
    let (caught, _) = in_parallel(cases, options.threads, catches, |_| ControlFlow::Continue(()));
    cases.iter().zip(caught).filter(|(_, caught)| !caught).map(|(case, _)| *case).collect()
}

/// The cases that the unmodified reference provider passes, quickest first.
#[must_use]
pub fn sound_cases(cases: &[Case], options: &Options) -> Vec<Case> {
    sound_cases_on(Ground::Entries, cases, options)
}

fn sound_cases_on(ground: Ground, cases: &[Case], options: &Options) -> Vec<Case> {
    let reference: Arc<dyn Harness> = Arc::new(ground.harness());
    match ground {
        Ground::Entries => sound_cases_of(&reference, cases, options),
        Ground::Layer(_) => {
            let about: Vec<Case> = cases.iter().filter(|case| case.is_layer()).copied().collect();
            sound_cases_of(&reference, &about, options)
        }
    }
}

fn sound_cases_of(harness: &Arc<dyn Harness>, cases: &[Case], options: &Options) -> Vec<Case> {
    let run = |case: &Case| run_case(harness, case, options.timeout);
    let (mut outcomes, _) = in_parallel(cases, options.threads, run, |_| ControlFlow::Continue(()));
    outcomes.retain(|outcome| outcome.verdict == Verdict::Passed);
    outcomes.sort_by_key(|outcome| outcome.elapsed);
    outcomes.into_iter().map(|outcome| outcome.case).collect()
}

fn caught_by(harness: &Arc<dyn Harness>, case: &Case, timeout: Duration) -> Option<(&'static str, String)> {
    match run_case(harness, case, timeout).verdict {
        Verdict::Failed(why) => Some((case.id, why)),
        _ => None,
    }
}
