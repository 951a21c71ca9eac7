//! Garbage collection: evicts scopes that have been unused for long, or that no longer fit into a store.
//!
//! [`sweep`] checks every scope of a provider that serves `eviction`, and the provider checks again at each eviction,
//! so a late or wrong policy evicts nothing that is in use. `docs/gc.md` is for operators; GCP-1 to GCP-10 in
//! `docs/spec/lifecycle.md` are the promises.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::time::Duration;
//! use memory::gc::{GcOptions, GcPolicy, sweep};
//! use memory::system::SystemClock;
//!
//! let store = memory::open("sqlite::memory:").await?;
//! let month = Duration::from_secs(30 * 86_400);
//! let options = GcOptions::new(GcPolicy::default().with_idle(Some(month))).with_dry_run(true);
//! let report = sweep(&store, &options, &SystemClock, &Default::default()).await?;
//! assert_eq!(report.evicted, 0);
//! # Ok::<(), memory::Error>(())
//! # }).unwrap();
//! ```

mod candidates;
mod last_snapshot;
mod policy;
mod report;
mod sweep;

pub use policy::{GcOptions, GcPolicy};
pub use report::{GcReason, GcReport, GcVictim, NotEvicted};
pub use sweep::{GcControl, GcProgress, sweep};
