//! The SQL facet: a database of its own for each scope, on which agents run statements of their own writing.
//!
//! - Each scope has a file of its own; see [`files`]. Connections at rest are kept within a budget; see [`connections`].
//! - One statement at a time writes to a scope. Whoever waits for the write lock waits on a future, never on a thread.
//! - `memory-validator` judges every text, then it runs in a [`sandbox`](crate::sandbox).
//! - A transaction owns a connection and the scope's write lock, not a thread.

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
