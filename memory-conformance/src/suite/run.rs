//! The whole suite, or a part of it, with a report at the end.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::case::Case;
use crate::harness::Harness;
use crate::suite::options::{Event, Options};
use crate::suite::parallel::in_parallel;
use crate::suite::report::{MutantReport, Report};
use crate::suite::runner::run_case;

/// Runs the suite on a provider and reports. Blocks; call it from a thread that may.
///
/// `progress` sees every event as it happens. If it answers [`ControlFlow::Break`], the run ends early, and the report
/// contains what was found so far.
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
    #[cfg(feature = "mutants")]
    let mutants = if options.mutants && !cancelled {
        let (mutants, broken_off) =
            crate::suite::mutation::run_for_report(&harness, &cases, options, &mut progress);
        cancelled = broken_off;
        mutants
    } else {
        MutantReport::default()
    };
    #[cfg(not(feature = "mutants"))]
    let mutants = MutantReport::default();
    Report::new(harness.name(), &outcomes, mutants, options.filter.is_none(), cancelled)
}
