//! Decides which SQL an agent may run.
//!
//! The agent writes SQL by right; what is decided here is whether a statement stays inside the scope it was given.
//! Everything is refused that the [`Policy`] does not allow by name. Three stages look at the text, each of them
//! able to refuse by itself: a *gate* before any parser (sizes, depths, tokens as the engine sees them, names), a
//! *grammar* (the engine's own where it can be had), and a *walk* over the tree that knows every kind of node.
//!
//! The verdict is about the text as it was given: run that text, never one rendered from a tree.
//!
//! ```
//! use memory_validator::{Dialect, Mode, Policy, Validator, Verdict};
//!
//! let policy = Policy::new(Dialect::Sqlite);
//! let verdict = Validator::check("SELECT name FROM people", Dialect::Sqlite, Mode::Query, &policy);
//! assert!(matches!(verdict, Verdict::Accepted(_)));
//!
//! let verdict = Validator::check("ATTACH 'other.db' AS o", Dialect::Sqlite, Mode::Exec, &policy);
//! let Verdict::Refused(refusal) = verdict else { panic!("accepted") };
//! assert_eq!(refusal.position.offset, 0);
//! ```

mod gate;
mod grammar;
mod literals;
mod modules;
mod policy;
mod refusals;
mod validator;
mod verdict;
mod walk;

pub use literals::without_literals;
pub use policy::{Dialect, Grammar, Limits, Mode, Policy};
pub use validator::{STACK_BYTES, Stages, Validator};
pub use verdict::{Accepted, Access, Position, Refusal, Relation, Stage, StatementKind, Verdict};
