//! The command `memory`: agent memory from a terminal.
//!
//! What it does is in `docs/cli.md`, the formats it imports in `docs/importing.md`. The library holds
//! all of it, so that tests reach the parts; it is no interface for other crates.

// A command's future holds one of each layer down to the backend's connection, and the compiler counts them all.
#![recursion_limit = "256"]

mod bench;
mod cli;
mod commands;
mod credentials;
mod demo;
mod eval_cmd;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod import;
mod log;
mod output;
mod progress;
mod serve;
mod settings;
mod sql;
mod values;

pub use cli::main;
