//! What a run reports, for programs, people and badges.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "helpers of tests"
)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use memory_conformance::{
    Event, Fixture, Harness, LayerKind, Level, MutantHarness, Need, Options, ReferenceHarness, Report,
    Verdict, async_trait, mutants, run,
};
use memory_core::{Error, Provider, Result};

fn report(harness: impl Harness, options: &Options) -> Report {
    run(Arc::new(harness), options, |_| ControlFlow::Continue(()))
}

fn mutant(id: &str) -> MutantHarness {
    MutantHarness::new(mutants::all().into_iter().find(|mutant| mutant.id == id).unwrap())
}

/// The walk-through shows this function.
fn print_report(harness: Arc<dyn Harness>) -> bool {
    let options = Options::default().with_filter("version.").with_mutants(true);
    let report = run(harness, &options, |event| {
        if let Event::Case(outcome) = event
            && let Verdict::Failed(why) = &outcome.verdict
        {
            eprintln!("{}: {why}", outcome.case.id);
        }
        ControlFlow::Continue(())
    });
    println!("{}", report.to_json());
    report.is_success()
}

#[test]
fn a_sound_provider_succeeds() {
    assert!(print_report(Arc::new(ReferenceHarness::new())));
}

#[test]
fn json_has_the_stable_members() {
    let report = report(mutant("version.stays"), &Options::default().with_filter("version-grows"));
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["provider"], "version.stays");
    assert_eq!(json["cases"]["total"], 1);
    assert_eq!(json["cases"]["passed"], 0);
    assert_eq!(json["cases"]["failed"], 1);
    assert_eq!(json["cases"]["refusals"], 0);
    assert!(json["failed"][0]["id"].as_str().unwrap().contains("version-grows"));
    assert!(json["failed"][0]["why"].as_str().unwrap().contains("version"));
    assert_eq!(json["mutants"]["total"], 0);
    assert_eq!(json["mutants"]["caught"], 0);
    assert_eq!(json["mutants"]["survivors"], serde_json::json!([]));
}

/// Runs everything on a provider without these, and returns the level.
fn level_without(needs: &[Need]) -> Option<Level> {
    let harness = match needs {
        // A provider serves something.
        [Need::Kv] => ReferenceHarness::layer(LayerKind::Sync),
        _ => needs.iter().fold(ReferenceHarness::with_vectors(), |harness, need| harness.without(*need)),
    };
    let report = report(harness, &Options::default());
    assert!(report.is_success(), "without {needs:?}: {}", report.to_markdown());
    let counts = report.cases;
    assert!(counts.refusals > 0, "without {needs:?}");
    assert_eq!(counts.total, counts.passed + counts.failed + counts.refusals + counts.skipped);
    report.level
}

#[test]
fn what_a_level_requires_holds_it_back() {
    assert_eq!(level_without(&[Need::Kv]), None);
    assert_eq!(level_without(&[Need::Lexical]), Some(Level::Store));
    for need in [Need::Cas, Need::Quotas, Need::Stats] {
        assert_eq!(level_without(&[need]), Some(Level::Find), "without {need:?}");
    }
}

/// Each half lacks what the other serves, so a case that uses one without declaring it fails.
#[test]
fn what_no_level_requires_holds_none_back() {
    let required = [Need::Kv, Need::Lexical, Need::Cas, Need::Quotas, Need::Stats];
    let optional = Need::ALL.iter().copied().filter(|need| !required.contains(need));
    let (even, odd): (Vec<_>, Vec<_>) = optional.enumerate().partition(|(at, _)| at % 2 == 0);
    for half in [even, odd] {
        let half: Vec<Need> = half.into_iter().map(|(_, need)| need).collect();
        assert_eq!(level_without(&half), Some(Level::Share), "without {half:?}");
    }
}

#[test]
fn a_provider_without_any_facet_fails() {
    let report = report(ReferenceHarness::new().without(Need::Kv), &Options::default().with_filter("cap."));
    assert_eq!(report.cases.failed, report.cases.total);
    assert!(report.failed[0].why.contains("no facet"), "{}", report.failed[0].why);
}

#[test]
fn one_failure_costs_its_level_and_shows_in_table_and_badge() {
    let report = report(mutant("quota.one-more"), &Options::default());
    assert_eq!(report.level, Some(Level::Find));
    assert!(!report.is_success());
    let markdown = report.to_markdown();
    assert!(markdown.contains("Level reached: **find**."), "{markdown}");
    assert!(markdown.contains("| share | no |"), "{markdown}");
    assert!(report.failed.iter().all(|failed| markdown.contains(&format!("| `{}` |", failed.id))));
    let badge: serde_json::Value = serde_json::from_str(&report.to_badge()).unwrap();
    assert_eq!(badge["schemaVersion"], 1);
    assert_eq!(badge["color"], "yellow");
}

#[test]
fn a_filtered_run_claims_no_level() {
    let report = report(ReferenceHarness::new(), &Options::default().with_filter("list."));
    assert!(report.is_success() && report.level.is_none());
    assert!(report.cases.total > 0);
}

#[test]
fn a_run_can_be_broken_off() {
    let mut seen = 0;
    let report = run(Arc::new(ReferenceHarness::new()), &Options::default().with_threads(1), |event| {
        seen += usize::from(matches!(event, Event::Case(_)));
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(report.cancelled && !report.is_success() && report.level.is_none());
    // Of hundreds; those that end before the run learns of it are reported too.
    assert!((3..100).contains(&report.cases.total), "{}", report.cases.total);
}

/// A harness that cannot open, in one way or another.
struct Stuck(fn() -> Result<Box<dyn Provider>>);

#[async_trait]
impl Harness for Stuck {
    fn name(&self) -> &str {
        "stuck"
    }

    async fn open(&self, _: Fixture) -> Result<Box<dyn Provider>> {
        (self.0)()
    }
}

fn only_why(open: fn() -> Result<Box<dyn Provider>>, timeout: Duration) -> String {
    let options = Options::default().with_filter("cap.flags.constant").with_timeout(timeout);
    let report = report(Stuck(open), &options);
    assert_eq!(report.cases.failed, 1);
    report.failed[0].why.clone()
}

#[test]
fn errors_panics_and_hangs_are_failures_with_a_reason() {
    let unavailable = || Err(Error::new(memory_core::ErrorKind::Unavailable, "nobody answers"));
    let long = Duration::from_secs(60);
    assert!(only_why(unavailable, long).contains("unavailable: nobody answers"));
    assert!(only_why(|| panic!("a wheel came off"), long).contains("panicked: a wheel came off"));
    let hang = || loop {
        std::thread::park();
    };
    assert!(only_why(hang, Duration::from_millis(200)).contains("did not end within 0.2 s"));
}
