//! The command `memory`: agent memory from a terminal.
//!
//! What it does is in `docs/cli.md`, the formats it imports in `docs/importing.md`. The library holds
//! all of it, so that tests and `memory-lab` reach the parts; it is no interface for other crates.

// A command's future holds one of each layer down to the backend's connection, and the compiler counts them all.
#![recursion_limit = "256"]

mod cli;
mod commands;
mod demo;
#[doc(hidden)]
pub mod fuzzing;
mod import;
mod serve;
mod sql;
#[doc(hidden)]
pub mod terminal;

pub use cli::main;
