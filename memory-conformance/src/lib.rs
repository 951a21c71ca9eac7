//! The suite that holds every backend to the same words.

pub mod case;
pub mod cases;
pub mod check;
pub mod cx;
pub mod executor;
pub mod fixture;
pub mod harness;
pub mod random;
mod refusals;
pub mod runner;
pub mod stream;

pub use case::{Case, Level, Need};
pub use fixture::{EmbedFault, Fixture, TestClock, TestEmbedder, TestIds};
pub use harness::Harness;
pub use runner::{Outcome, Verdict, run_case};

/// For harnesses: the macro that their `impl` needs.
pub use memory_core::async_trait;
