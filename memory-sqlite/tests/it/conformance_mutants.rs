//! The SQL cases work with this provider: each mutant around it fails some case, and each case fails with some mutant.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use memory_conformance::suite::{idle_cases_around, run_mutants_around};
use memory_conformance::{Harness, Options, cases, mutants};

fn harness() -> Arc<dyn Harness> {
    Arc::new(crate::harness::Files::new(memory_sqlite::Durability::Normal))
}

fn options() -> Options {
    Options::default().with_timeout(Duration::from_secs(20))
}

#[test]
fn every_mutant_is_caught() {
    let (traps, _) = run_mutants_around(&harness(), &mutants::of_sql(), &cases::all(), &options(), |_| {
        ControlFlow::Continue(())
    });
    let survivors: Vec<&str> =
        traps.iter().filter(|trap| trap.caught.is_none()).map(|trap| trap.mutant.id).collect();
    assert!(survivors.is_empty(), "{} mutants survive:\n{}", survivors.len(), survivors.join("\n"));
}

#[test]
fn every_case_catches_a_mutant() {
    let idle = idle_cases_around(&harness(), &cases::all(), &mutants::of_sql(), &options());
    let idle: Vec<&str> = idle.iter().map(|case| case.id).collect();
    assert!(idle.is_empty(), "{} cases catch no mutant:\n{}", idle.len(), idle.join("\n"));
}
