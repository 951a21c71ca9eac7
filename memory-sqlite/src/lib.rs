//! Memory for AI agents on embedded SQLite.
//!
//! [`SqliteProvider`] serves the key/value and text-search facet from one file that several processes may share,
//! or from memory. The file format is documented in `docs/spec/sqlite-file.md`.
//!
//! - Concurrent writes commit in groups: each caller gets its own answer, all share one commit and one sync.
//! - Short reads run on the caller's thread; whatever takes its time runs on the crate's own threads.
//! - Text search is [`memory_core::lexical`]: scores depend on the scope's own entries alone.
//!
//! It needs no particular async runtime.

mod access;
mod background;
mod batch;
mod block;
mod checkpoint;
mod config;
mod error;
mod file;
mod kv;
mod matrix;
mod portable;
mod provider;
mod read;
mod readers;
mod row;
mod schema;
mod search;
mod store;
mod sweep;
mod vector;
mod write;
mod writer;

pub use config::{Durability, SqliteConfig};
pub use provider::SqliteProvider;
