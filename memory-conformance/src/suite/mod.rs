//! Runs the cases: as tests of libtest, or as one run with a report.

pub mod expected;
#[cfg(all(feature = "governed", feature = "mutants"))]
mod hazards;
#[cfg(feature = "mutants")]
mod mutation;
mod options;
mod parallel;
pub mod report;
mod run;
pub mod runner;
pub mod trials;

#[cfg(feature = "mutants")]
pub use crate::mutants::MutantOutcome;
#[cfg(all(feature = "governed", feature = "mutants"))]
pub use hazards::{HazardOutcome, run_hazards};
#[cfg(feature = "mutants")]
pub use mutation::{
    cases_that_caught, idle_cases, idle_cases_around, run_mutants, run_mutants_around, sound_cases,
};
pub use options::{Event, Options};
pub use run::run;
