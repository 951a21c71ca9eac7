//! The command `memory`: agent memory from a terminal.
//!
//! `docs/cli.md` describes its commands, `docs/importing.md` the formats it imports. Everything is in the library so
//! that tests and `memory-lab` can use it; it is not an interface for other crates.

// A command's future nests one future per layer down to the backend's connection, which counts against this limit.
#![recursion_limit = "256"]

mod cli;
mod commands;
mod demo;
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod http;
mod import;
mod serve;
mod sql;
#[doc(hidden)]
pub mod terminal;

#[doc(hidden)]
pub use cli::command_line;
pub use cli::main;
