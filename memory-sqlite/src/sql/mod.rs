//! The SQL facet: a database for each scope, on which agents run their own statements.
//!
//! - Each scope has its own file; see [`files`]. Idle connections stay open within a budget; see [`connections`].
//! - Each scope has one writer at a time. Waiting for the write lock blocks a future, never a thread.
//! - `memory-validator` checks every statement, then it runs in a [`sandbox`](crate::sandbox).
//! - A transaction holds a connection and the scope's write lock, but no thread.

mod arguments;
mod connections;
mod dump;
mod engine;
mod eviction;
mod facet;
mod files;
#[cfg(feature = "lab")]
pub(crate) mod lab;
mod savepoints;
mod scopes;
mod statements;
mod threads;
mod verdicts;

pub(crate) use engine::Engine;
