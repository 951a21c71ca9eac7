//! SQL in worker processes, so that one tenant's statements cannot take memory or processor time from another's.
//!
//! SQLite accounts for memory per process. [`Memory::with_sql_workers`](crate::Memory::with_sql_workers) starts
//! processes that each serve the SQL of some of the scopes. A statement that crashes one, or has to be ended from
//! outside, loses only the transactions of that process, which is restarted by the next call. The key/value facet stays
//! in this process.
//!
//! A worker can be any program that calls [`serve`] with a provider opened on the same store; the binary `memory` has
//! the command `sql-worker` for this.
//!
//! Callers learn what was lost with a process: a statement outside a transaction whose reply never came is
//! `outcome_unknown`, a transaction is `transaction_lost`, and a read is `unavailable` and can be repeated.

mod child;
mod facet;
mod link;
mod options;
mod provider;
mod wire;

pub use child::{limit_memory, serve};
pub use options::WorkerOptions;
