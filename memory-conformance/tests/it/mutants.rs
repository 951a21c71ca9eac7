//! The suite has no hole and no dead weight: every mutant of the reference provider is caught, every case
//! that it can pass catches one. Cases and mutants about SQL need a provider that serves it: the backends'
//! own tests hold them against each other.

use std::ops::ControlFlow;

use memory_conformance::suite::{idle_cases, run_mutants};
use memory_conformance::{Case, Options, cases, mutants};

fn cases_of_the_reference() -> Vec<Case> {
    cases::all().into_iter().filter(|case| !case.is_sql()).collect()
}

#[test]
fn every_mutant_is_caught() {
    let (traps, _) =
        run_mutants(&mutants::of_the_reference(), &cases_of_the_reference(), &Options::default(), |_| {
            ControlFlow::Continue(())
        });
    let survivors: Vec<&str> =
        traps.iter().filter(|trap| trap.caught.is_none()).map(|trap| trap.mutant.id).collect();
    assert!(survivors.is_empty(), "{} mutants survive:\n{}", survivors.len(), survivors.join("\n"));
}

#[test]
fn every_case_catches_a_mutant() {
    let idle = idle_cases(&cases_of_the_reference(), &mutants::of_the_reference(), &Options::default());
    let idle: Vec<&str> = idle.iter().map(|case| case.id).collect();
    assert!(idle.is_empty(), "{} cases catch no mutant:\n{}", idle.len(), idle.join("\n"));
}
