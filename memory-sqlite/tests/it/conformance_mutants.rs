//! The SQL cases work with this provider: each mutant around it fails some case, and each case fails with some mutant.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use memory_conformance::suite::{cases_that_caught, idle_cases_around, run_hazards, run_mutants_around};
use memory_conformance::{Fixture, Harness, Options, Verdict, async_trait, cases, mutants};
use memory_core::{Provider, Result};

fn harness() -> Arc<dyn Harness> {
    Arc::new(crate::harness::Files::new(memory_sqlite::Durability::Normal))
}

fn options() -> Options {
    Options::default().with_timeout(Duration::from_secs(20))
}

#[test]
fn every_mutant_is_caught_and_every_case_catches_one() {
    let (mutants, mut cases) = (mutants::of_sql(), cases::all());
    let (traps, _) =
        run_mutants_around(&harness(), &mutants, &cases, &options(), |_| ControlFlow::Continue(()));
    let survivors: Vec<&str> =
        traps.iter().filter(|trap| trap.caught.is_none()).map(|trap| trap.mutant.id).collect();
    assert!(survivors.is_empty(), "{} mutants survive:\n{}", survivors.len(), survivors.join("\n"));
    let caught = cases_that_caught(&traps);
    cases.retain(|case| !caught.contains(case.id));
    let idle = idle_cases_around(&harness(), &cases, &mutants, &options());
    let idle: Vec<&str> = idle.iter().map(|case| case.id).collect();
    assert!(idle.is_empty(), "{} cases catch no mutant:\n{}", idle.len(), idle.join("\n"));
}

/// One file for every case and every mutant.
struct OneFile(crate::harness::Files);

#[async_trait]
impl Harness for OneFile {
    fn name(&self) -> &str {
        "one file"
    }

    async fn open(&self, mut fixture: Fixture) -> Result<Box<dyn Provider>> {
        fixture.name = "one".to_owned();
        self.0.open(fixture).await
    }
}

#[test]
fn a_mutant_does_not_see_what_another_left_in_the_same_store() {
    let harness: Arc<dyn Harness> =
        Arc::new(OneFile(crate::harness::Files::new(memory_sqlite::Durability::Normal)));
    let mut cases = cases::all();
    cases.retain(|case| case.id == "sql.exec.rows-come-back");
    assert_eq!(cases.len(), 1);
    // It has nothing to do with that case.
    let mut mutants = mutants::of_sql();
    mutants.retain(|mutant| mutant.breaks.iter().all(|sentence| sentence.starts_with("DMP-")));
    let options = options();
    let (traps, _) = run_mutants_around(&harness, &mutants, &cases, &options, |_| ControlFlow::Continue(()));
    assert!(traps.len() > 1);
    let caught: Vec<_> = traps.iter().filter_map(|trap| trap.caught.as_ref()).collect();
    assert!(caught.is_empty(), "{caught:?}");
}

#[test]
fn every_hazard_of_shared_state_is_passed_and_its_mutants_are_caught_by_its_own_case() {
    let (outcomes, _) = run_hazards(&harness(), &options(), |_| ControlFlow::Continue(()));
    let unsound: Vec<_> = outcomes.iter().filter(|outcome| !outcome.is_sound()).collect();
    assert!(unsound.is_empty(), "{unsound:#?}");
    assert_eq!(outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Passed).count(), 42);
}
