//! The suite that holds every backend to the same words.
//!
//! What a backend does is written as numbered sentences in `docs/spec/backend.md`, and what its SQL does in
//! `docs/spec/sql.md`, and what its conversational layer does in `docs/spec/layer.md`. Here is one table of
//! [cases](cases::all), each of which proves some of them on any [`Provider`](memory_core::Provider).
//! A vendor writes a [`Harness`], which opens the provider with what a [`Fixture`] brings, and has
//! two doors:
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
//! A capability that is not advertised is not excused: the case proves the refusal instead.
//!
//! The [`Reference`] is the oracle, right by inspection. The [mutants] are the oracle broken in one
//! way each: tests of this crate fail where one of them passes every case, or where a case catches
//! none.

pub mod case;
pub mod cases;
pub mod check;
pub mod cx;
pub mod database;
pub mod dedup;
pub mod embedder;
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
pub mod talk;
pub mod trials;

pub use case::{Case, Level, Need};
pub use embedder::{EmbedFault, Hold, TestEmbedder};
pub use expected::ExpectedFailures;
pub use fixture::{Fixture, TestClock, TestIds};
pub use harness::{Harness, SHARED_DATA, SqlSetup};
pub use mutants::{Mutant, MutantHarness};
pub use reference::{LayerKind, Reference, ReferenceHarness};
pub use report::Report;
pub use runner::{Outcome, Verdict, run_case};

pub use suite::{Event, Options, run};

/// For harnesses: the macro that their `impl` needs.
pub use memory_core::async_trait;
