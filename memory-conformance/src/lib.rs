//! The suite that holds every backend to the same words.

pub mod case;
pub mod cases;
pub mod check;
pub mod cx;
pub mod executor;
pub mod expected;
pub mod fixture;
pub mod harness;
pub mod linear;
pub mod mutants;
pub mod random;
pub mod reference;
mod refusals;
pub mod report;
pub mod runner;
pub mod stream;
pub mod suite;
pub mod trials;

pub use case::{Case, Level, Need};
pub use expected::ExpectedFailures;
pub use fixture::{EmbedFault, Fixture, TestClock, TestEmbedder, TestIds};
pub use harness::Harness;
pub use mutants::{Mutant, MutantHarness};
pub use reference::{Reference, ReferenceHarness};
pub use report::Report;
pub use runner::{Outcome, Verdict, run_case};

pub use suite::{Event, Options, run};

/// For harnesses: the macro that their `impl` needs.
pub use memory_core::async_trait;
