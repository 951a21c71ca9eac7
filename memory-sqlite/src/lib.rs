//! Memory for AI agents on embedded SQLite.
//!
//! [`SqliteProvider`] serves the key/value and search facet from one file that several processes may share,
//! or from memory. The file format is documented in `docs/spec/sqlite-file.md`.
//!
//! - Concurrent writes commit in groups: each caller gets its own answer, all share one commit and one sync.
//! - Short reads run on the caller's thread; whatever takes its time runs on the crate's own threads.
//! - Text search is [`memory_core::lexical`]: scores depend on the scope's own entries alone.
//! - With an embedder ([`SqliteProvider::with_embedder`]) it searches by meaning too: vectors lie beside the entries, are
//!   scanned in memory within a budget, and are scored exactly from what is stored. No write leaves a stale one.
//!
//! It needs no particular async runtime.

mod background;
mod batch;
mod block;
mod checkpoint;
mod config;
mod drift;
mod erase;
mod error;
mod file;
mod kv;
mod leave;
mod matrix;
mod moment;
mod pipe;
mod portable;
mod provider;
mod read;
mod readers;
mod repair;
mod row;
mod sandbox;
mod schema;
mod search;
mod shape;
mod space;
mod sql;
mod store;
mod sweep;
mod uses;
mod vector;
mod write;
mod writer;

pub use config::{Durability, SqliteConfig};
pub use provider::SqliteProvider;
pub use repair::{RepairOptions, Repaired, SchemaObject, repair};
pub use sql::{SharedDatabase, SqlConfig};

/// Taking the SQL sandbox apart, to see what each layer stops by itself. Never for production.
#[cfg(feature = "lab")]
pub mod lab {
    pub use crate::sandbox::{Layers, Trial};
    pub use crate::sql::lab::{
        Measured, database_file, dump_text, engine_bytes, forget_peak, last_peak_bytes, load_script,
        resting_connections,
    };
    pub use memory_validator::{Mode, Stages};
}
