//! The second door: the whole suite, or a part of it, with a report at the end.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use crate::case::{Case, Need};
use crate::cases;
use crate::harness::Harness;
use crate::mutants::{self, Ground, Mutant, MutantHarness};
use crate::report::Report;
use crate::runner::{self, DEFAULT_TIMEOUT, Outcome, Verdict, run_case};

/// What [`run`] runs, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Only cases whose id contains this.
    pub filter: Option<String>,
    /// Whether to hold the mutants against all cases too: with a filter, the mutants that break a
    /// sentence which a case that is left proves.
    pub mutants: bool,
    /// How long one case may take. Default 30 s.
    pub timeout: Duration,
    /// How many cases run at the same time. Default: as many as the machine has processors.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(2, usize::from);
        Self { filter: None, mutants: false, timeout: DEFAULT_TIMEOUT, threads }
    }
}

impl Options {
    /// Sets the filter.
    #[must_use]
    pub fn with_filter(mut self, filter: impl Into<String>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// Sets whether the mutants run.
    #[must_use]
    pub fn with_mutants(mut self, mutants: bool) -> Self {
        self.mutants = mutants;
        self
    }

    /// Sets the time limit of one case.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many cases run at the same time.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = cases::all();
        if let Some(filter) = &self.filter {
            cases.retain(|case| case.id.contains(filter.as_str()));
        }
        cases
    }
}

/// What happened in a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// This many cases are going to run.
    Cases(usize),
    /// A case ended.
    Case(&'a Outcome),
    /// This many mutants are going to run.
    Mutants(usize),
    /// A mutant was run.
    Mutant(&'a Trap),
}

/// A mutant, and the first case that caught it with the reason.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trap {
    /// The mutant.
    pub mutant: Mutant,
    /// The id of the case, and why it failed; `None`: the mutant passed every case.
    pub caught: Option<(&'static str, String)>,
}

/// Runs the suite on a provider and reports. Blocks; call it from a thread that may.
///
/// `progress` sees every event as it happens and ends the run early by
/// [`ControlFlow::Break`]; the report then has what was found until then.
///
/// ```
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
/// use memory_conformance::{Options, ReferenceHarness, run};
///
/// let options = Options::default().with_filter("kv.get");
/// let report = run(Arc::new(ReferenceHarness::new()), &options, |_| ControlFlow::Continue(()));
/// assert!(report.is_success(), "{}", report.to_markdown());
/// ```
pub fn run(
    harness: Arc<dyn Harness>,
    options: &Options,
    mut progress: impl FnMut(Event<'_>) -> ControlFlow<()>,
) -> Report {
    let cases = options.cases();
    let mut cancelled = progress(Event::Cases(cases.len())).is_break();
    let mut outcomes = Vec::new();
    if !cancelled {
        let timeout = options.timeout;
        let run = |case: &Case| run_case(&harness, case, timeout);
        (outcomes, cancelled) =
            in_parallel(&cases, options.threads, run, |outcome| progress(Event::Case(outcome)));
    }
    let mut traps = Vec::new();
    if options.mutants && !cancelled {
        let served = served(&harness, options.timeout);
        let (around, within): (Vec<Mutant>, Vec<Mutant>) = mutants_for(&cases, options.filter.is_some())
            .into_iter()
            .filter(|mutant| mutant.needs.iter().all(|need| served.contains(need)))
            .partition(Mutant::is_sql);
        cancelled = progress(Event::Mutants(within.len() + around.len())).is_break();
        let mut told = |trap: &Trap| progress(Event::Mutant(trap));
        if !cancelled {
            (traps, cancelled) = run_mutants(&within, &cases::all(), options, &mut told);
        }
        if !cancelled && !around.is_empty() {
            let more;
            (more, cancelled) = run_mutants_around(&harness, &around, &cases::all(), options, told);
            traps.extend(more);
        }
    }
    Report::new(harness.name(), &outcomes, &traps, options.filter.is_none(), cancelled)
}

/// The mutants that break a sentence which one of the cases proves; all of them where no case was
/// left out.
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

/// What the provider of a harness serves; nothing where it cannot be opened.
fn served(harness: &Arc<dyn Harness>, timeout: Duration) -> Vec<Need> {
    runner::capabilities(harness, timeout)
        .map(|served| Need::ALL.into_iter().filter(|need| need.is_met(&served)).collect())
        .unwrap_or_default()
}

/// Runs each mutant of the reference provider until a case catches it: cases about its sentences first,
/// quick ones before slow ones. Cases that the reference provider itself fails catch nothing. The flag
/// tells whether `progress` broke off.
pub fn run_mutants(
    mutants: &[Mutant],
    cases: &[Case],
    options: &Options,
    mut progress: impl FnMut(&Trap) -> ControlFlow<()>,
) -> (Vec<Trap>, bool) {
    let mut traps = Vec::new();
    for ground in Ground::ALL {
        let standing: Vec<Mutant> =
            mutants.iter().filter(|mutant| mutant.ground() == ground).copied().collect();
        if standing.is_empty() {
            continue;
        }
        let sound = sound_cases_on(ground, cases, options);
        let make = |mutant: &Mutant| MutantHarness::new(*mutant);
        let (more, cancelled) = trap(&standing, &sound, options, &mut progress, make);
        traps.extend(more);
        if cancelled {
            return (traps, true);
        }
    }
    (traps, false)
}

/// As [`run_mutants`], for the mutants about SQL, around the provider of that harness. Cases about SQL that
/// the provider itself fails or skips catch nothing.
pub fn run_mutants_around(
    harness: &Arc<dyn Harness>,
    mutants: &[Mutant],
    cases: &[Case],
    options: &Options,
    progress: impl FnMut(&Trap) -> ControlFlow<()>,
) -> (Vec<Trap>, bool) {
    let sound = sound_cases_of(harness, &about_sql(cases), options);
    trap(mutants, &sound, options, progress, |mutant| MutantHarness::around(*mutant, Arc::clone(harness)))
}

fn about_sql(cases: &[Case]) -> Vec<Case> {
    cases.iter().filter(|case| case.is_sql()).copied().collect()
}

fn trap(
    mutants: &[Mutant],
    sound: &[Case],
    options: &Options,
    progress: impl FnMut(&Trap) -> ControlFlow<()>,
    make: impl Fn(&Mutant) -> MutantHarness + Sync,
) -> (Vec<Trap>, bool) {
    let catch = |mutant: &Mutant| {
        let (first, rest): (Vec<Case>, Vec<Case>) = sound.iter().partition(|case| is_about(case, mutant));
        let harness: Arc<dyn Harness> = Arc::new(make(mutant));
        let caught = first.iter().chain(&rest).find_map(|case| caught_by(&harness, case, options.timeout));
        Trap { mutant: *mutant, caught }
    };
    in_parallel(mutants, options.threads, catch, progress)
}

/// The cases that catch none of the mutants of the reference provider; those that break a case's
/// sentences are tried first.
#[must_use]
pub fn idle_cases(cases: &[Case], mutants: &[Mutant], options: &Options) -> Vec<Case> {
    idle(cases, mutants, options, |mutant| MutantHarness::new(*mutant))
}

/// As [`idle_cases`], for the cases and mutants about SQL, around the provider of that harness. Cases that
/// the provider itself fails or skips are not among them.
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
        // One that lies about itself may fail every case, as it does not even open: it counts for those about it.
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

/// The cases that the reference provider, as the mutants have it, passes; the quickest first.
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

/// Applies `work` to every item on several threads; results in the order of the items. The flag
/// tells whether `progress` broke off; results until then are kept.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    mut progress: impl FnMut(&R) -> ControlFlow<()>,
) -> (Vec<R>, bool) {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, receive) = mpsc::channel();
    let mut results = Vec::with_capacity(items.len());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            let (send, next, stop, work) = (send.clone(), &next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some(item) = items.get(index) else { break };
                    // Nobody listens any more once the run is broken off.
                    let _ = send.send((index, work(item)));
                }
            });
        }
        drop(send);
        for (index, result) in receive {
            if !stop.load(Ordering::SeqCst) && progress(&result).is_break() {
                stop.store(true, Ordering::SeqCst);
            }
            results.push((index, result));
        }
    });
    results.sort_by_key(|(index, _)| *index);
    (results.into_iter().map(|(_, result)| result).collect(), stop.load(Ordering::SeqCst))
}
