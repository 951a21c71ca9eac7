//! Shared state of several agents on the provider under test: the stages of `memory-governed`, as its cases and mutants
//! see them, and the list of hazards the cases cover.

mod hazards;
mod state;

pub use hazards::{HAZARDS, Hazard};
pub use state::{Setup, SharedState, Stages};
