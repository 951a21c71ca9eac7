//! SQL in worker processes, so that no tenant's statement takes memory or processor time from another's.
//!
//! SQLite counts the memory of a process as one. [`Memory::with_sql_workers`](crate::Memory::with_sql_workers) starts processes that each serve the SQL of a part of
//! the scopes; a statement that brings one down, or has to be ended from outside, costs the transactions of that
//! process and nothing else: it is started again with the next call. The key/value facet stays where it was.
//!
//! The process is any program that calls [`serve`] with a provider opened on the same store: the binary `memory` has
//! the command `sql-worker` for it.
//!
//! A caller learns what was lost with a process: a statement outside a transaction whose reply never came is
//! `outcome_unknown`, a transaction is `transaction_lost`, a read is `unavailable` and can be repeated.

mod child;
mod facet;
mod link;
mod options;
mod provider;
mod wire;

pub use child::{limit_memory, serve};
pub use options::WorkerOptions;
