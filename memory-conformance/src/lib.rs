//! The conformance suite that holds every backend to the same rules.
//!
//! The rules for backends are numbered in `docs/spec/backend.md`, those for SQL in `docs/spec/sql.md`, and those for
//! the conversational layer in `docs/spec/layer.md`. This crate is one table of [cases](cases::all), each of which
//! proves some of the rules on any [`Provider`](memory_core::Provider). A vendor writes a [`Harness`], which opens the
//! provider with the parts of a [`Fixture`], and runs the suite in one of two ways:
//!
//! - [`conformance_tests!`] makes a test for every case, with names, filters and a strict list of
//!   [expected failures](ExpectedFailures);
//! - [`run`] returns a [`Report`] as JSON, Markdown or a badge.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//!
//! use memory_conformance::{Fixture, Harness, Options, Reference, async_trait, run};
//! use memory_core::{Provider, Result};
//!
//! struct Mine;
//!
//! #[async_trait]
//! impl Harness for Mine {
//!     fn name(&self) -> &str {
//!         "mine"
//!     }
//!
//!     async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
//!         Ok(Box::new(Reference::new(fixture.clock)))
//!     }
//! }
//!
//! let options = Options::default().with_filter("ttl.");
//! let report = run(Arc::new(Mine), &options, |_| ControlFlow::Continue(()));
//! assert_eq!(report.cases.failed, 0);
//! ```
//!
//! A provider need not serve every capability. If it does not advertise one, the cases that need it prove instead that
//! all its operations are refused.
//!
//! # Features
//! - `tokio` (default): cases run inside a multi-threaded tokio runtime. Without it they run on a plain executor.
//! - `reference`: the `Reference` provider, an in-memory store simple enough to verify by reading.
//! - `mutants`: providers with one defect each, most of them based on the reference provider. Tests of this crate fail
//!   if a mutant passes every case, or if a case catches no mutant. Vendors do not need them.
//! - `governed`: the cases about shared state of several agents, which run the stages of `memory-governed` over the
//!   provider. A vendor needs them only to claim that shared state works on its store.
//! - `hierarchical`: the cases about sessions and graphs of agents, which run `memory-hierarchical` over the provider.

pub mod case;
pub mod cases;
mod check;
mod cx;
#[cfg(feature = "governed")]
pub mod governed;
pub mod harness;
pub mod linearizability;
#[cfg(feature = "mutants")]
pub mod mutants;
pub mod near_duplicates;
pub mod random;
#[cfg(feature = "reference")]
pub mod reference;
mod refusals;
pub mod stream;
pub mod suite;

pub use case::{Case, Level, Need};
pub use harness::embedder::{EmbedFault, Hold, TestEmbedder};
pub use harness::fixture::{Fixture, TestClock, TestIds};
pub use harness::{Harness, SHARED_DATA, SqlSetup};
#[cfg(feature = "mutants")]
pub use mutants::{Mutant, MutantHarness};
#[cfg(feature = "reference")]
pub use reference::{LayerKind, Reference, ReferenceHarness};
pub use suite::expected::ExpectedFailures;
pub use suite::report::Report;
pub use suite::runner::{Outcome, Verdict, run_case};
pub use suite::{Event, Options, run, trials};

/// The macro that an `impl Harness` needs.
pub use memory_core::async_trait;
