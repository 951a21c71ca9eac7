//! Memory for AI agents on embedded SQLite.
//!
//! [`SqliteProvider`] serves key/value, search and SQL from one file that several processes may share, or from memory.
//! The file format is documented in `docs/spec/sqlite-file.md`.
//!
//! - Concurrent writes commit in groups: each caller gets its own answer, all share one commit and one sync.
//! - Short reads run on the caller's thread; slow operations run on the crate's own threads.
//! - Text search is [`memory_core::lexical`]: scores depend only on the scope's own entries.
//! - With an embedder ([`SqliteProvider::with_embedder`]) it also searches by vectors: they are stored next to the
//!   entries, scanned in memory within a budget, and scored exactly from what is stored. No write leaves a stale
//!   vector.
//!
//! It needs no particular async runtime. Without the feature `sql` (on by default), it serves no SQL to agents, and
//! neither the SQL grammar nor the sandbox is compiled; a store that holds agents' databases is then refused.

#![cfg_attr(
    not(feature = "sql"),
    allow(dead_code, reason = "much of what a commit does is for the SQL facet too")
)]

mod commit;
mod config;
mod error;
mod file;
mod kv;
mod lifecycle;
#[cfg(not(feature = "sql"))]
mod no_sql;
mod provider;
#[cfg(feature = "sql")]
mod sandbox;
mod search;
#[cfg(feature = "sql")]
mod sql;
mod vector;

pub use config::{Durability, SharedDatabase, SqlConfig, SqliteConfig};
pub use file::repair::{RepairOptions, Repaired, SchemaObject, quick_check, repair};
pub use provider::{SqliteProvider, wait_until_closed};

/// Prepares SQLite for agents' statements, whose memory is metered. Opening a provider does this too. A process that
/// uses SQLite for something else first must call this before, or it gets no SQL for agents. Only the first call has an
/// effect.
pub fn prepare_process() {
    #[cfg(feature = "sql")]
    sandbox::heap::install();
}

/// Switches off layers of the SQL sandbox, to see what each one stops. Never for production.
#[cfg(feature = "lab")]
pub mod lab {
    pub use crate::sandbox::{Layers, ScratchDatabase};
    pub use crate::sql::lab::{
        Measured, database_file, dump_text, engine_bytes, forget_peak, last_peak_bytes, load_script,
        resting_connections,
    };
    pub use memory_validator::{Mode, Stages};

    /// Included in every program built with this feature, so that a release can be searched for it.
    #[used]
    static MARK: [u8; 48] = *b"sandbox layers can be switched off in this build";
}
