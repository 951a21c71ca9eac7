//! Snapshots of a store, restoring them, and migrating between stores.
//!
//! [`write()`] streams every durable scope of a provider, with both durable facets, into one file of JSON Lines.
//! [`restore`] reads it back into a store of the same kind or, for entries, of another. [`migrate`] copies from store
//! to store without a file in between. All three use only a provider's facets, so they work with your own too.
//! `docs/spec/snapshot.md` specifies them as SNP-1 to SNP-24, and the file byte by byte.
//!
//! ```
//! # futures_executor_block_on(async {
//! use std::io::{BufReader, Cursor};
//! use std::sync::{Arc, Mutex};
//! use memory::snapshot::{Control, RestoreOptions, SnapshotOptions, restore, write};
//! use memory::{BackendExt as _, Json, Key, Scope};
//!
//! let from = memory::open("sqlite::memory:").await?;
//! let scope = Scope::user("acme", "ada")?;
//! from.backend().unwrap().put(&scope, &Key::new("tea")?, Json::parse("\"oolong\"")?).await?;
//!
//! let mut file = Vec::new();
//! write(&from, &mut file, &SnapshotOptions::default(), &Control::default()).await?;
//!
//! let to = memory::open("sqlite::memory:").await?;
//! let report = restore(&to, Cursor::new(file), &RestoreOptions::default(), &Control::default()).await?;
//! assert_eq!(report.entries.restored, 1);
//! # Ok::<(), memory::Error>(())
//! # }).unwrap();
//! # fn futures_executor_block_on<F: Future>(future: F) -> F::Output {
//! #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
//! # }
//! ```

mod control;
mod file;
mod format;
mod migrate;
mod report;
mod restore;
mod rewrite;
mod scopes;
mod target;
mod write;

pub use control::{Control, Progress};
pub use file::{FileOptions, Ledger, LedgerEntry, NewFile, to_file};
pub(crate) use file::{clean_last, is_under_way, last_name, locked};
pub use format::digest::{EntriesDigest, SqlDigest, entries_digest, sql_digest};
pub use format::lines::{MAX_LINE_BYTES, VERSION};
pub use format::scanner::check;
pub use migrate::{MigrateOptions, MigrateReport, migrate};
pub use report::{FacetReport, NotCarried, ScopeNote};
pub use restore::{RestoreOptions, RestoreReport, restore};
pub(crate) use rewrite::{Held, holds, rewrite};
pub(crate) use scopes::Holding;
pub use target::apply::OnDifferent;
pub use write::{SnapshotOptions, SnapshotReport, write};
