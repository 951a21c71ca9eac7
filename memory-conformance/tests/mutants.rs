//! The suite has no hole and no dead weight: every mutant is caught, every case catches one.

use std::ops::ControlFlow;
use std::time::Duration;

use memory_conformance::suite::{catch_of, run_mutants};
use memory_conformance::{Options, cases, mutants};

fn options() -> Options {
    Options::default().with_timeout(Duration::from_secs(20))
}

#[test]
fn every_mutant_is_caught() {
    let (traps, _) = run_mutants(&mutants::all(), &cases::all(), &options(), |_| ControlFlow::Continue(()));
    let survivors: Vec<&str> =
        traps.iter().filter(|trap| trap.caught.is_none()).map(|trap| trap.mutant.id).collect();
    assert!(survivors.is_empty(), "{} mutants survive:\n{}", survivors.len(), survivors.join("\n"));
}

#[test]
fn every_case_catches_a_mutant() {
    let mutants = mutants::all();
    let idle: Vec<&str> = cases::all()
        .iter()
        .filter(|case| catch_of(case, &mutants, options().timeout).is_none())
        .map(|case| case.id)
        .collect();
    assert!(idle.is_empty(), "{} cases catch no mutant:\n{}", idle.len(), idle.join("\n"));
}
