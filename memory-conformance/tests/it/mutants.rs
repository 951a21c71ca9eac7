//! The suite has no gap and no dead weight: every mutant of the reference provider is caught, and every case that the
//! provider can pass catches one. Cases and mutants about SQL need a provider that serves it, so the backends' own
//! tests check them against each other.

use std::ops::ControlFlow;

use memory_conformance::suite::{cases_that_caught, idle_cases, run_mutants};
use memory_conformance::{Case, Options, cases, mutants};

#[test]
fn every_mutant_is_caught_and_every_case_catches_one() {
    let (mutants, options) = (mutants::of_the_reference(), Options::default());
    let mut cases: Vec<Case> = cases::all().into_iter().filter(|case| !case.is_sql()).collect();
    let (traps, _) = run_mutants(&mutants, &cases, &options, |_| ControlFlow::Continue(()));
    let survivors: Vec<&str> =
        traps.iter().filter(|trap| trap.caught.is_none()).map(|trap| trap.mutant.id).collect();
    assert!(survivors.is_empty(), "{} mutants survive:\n{}", survivors.len(), survivors.join("\n"));
    let caught = cases_that_caught(&traps);
    cases.retain(|case| !caught.contains(case.id));
    let idle: Vec<&str> = idle_cases(&cases, &mutants, &options).iter().map(|case| case.id).collect();
    assert!(idle.is_empty(), "{} cases catch no mutant:\n{}", idle.len(), idle.join("\n"));
}
