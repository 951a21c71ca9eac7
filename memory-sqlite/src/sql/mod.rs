//! The SQL facet: a database of its own for each scope, on which agents run statements of their own writing.
//!
//! - One file for each scope; see [`files`]. Connections at rest are kept within a budget; see [`pool`].
//! - One statement at a time writes to a scope: who waits for its turn waits on a future, never on a thread.
//! - Every text is judged by `memory-validator`, then run in a [`sandbox`](crate::sandbox).
//! - A transaction owns a connection and the scope's turn, not a thread; see [`transactions`].

mod alarms;
mod arguments;
mod config;
mod descriptors;
mod dump;
mod dump_format;
mod empty;
mod engine;
mod facet;
mod files;
mod full_text;
#[cfg(feature = "lab")]
pub(crate) mod lab;
mod leaving;
mod levels;
mod pool;
mod restore;
mod running;
mod scopes;
mod statements;
mod transactions;
pub(crate) mod two_ages;
mod verdicts;
mod workers;

pub use config::{SharedDatabase, SqlConfig};
pub(crate) use engine::Engine;
