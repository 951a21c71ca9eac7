//! The drift guard: a write that would overwrite someone else's change is refused.
//!
//! A [`DriftSession`] records what one run has seen. [`DriftSession::guard`] wraps a backend that serves drift checks
//! ([`Capabilities::drift`](memory_core::Capabilities::drift)): reads teach the session, writes carry what it saw, and
//! the backend compares in the write's own transaction. A refusal saves the scope first and teaches nothing; only a
//! read that returned the new state, or [`Guarded::ack`], does. `docs/spec/drift.md` numbers the behaviours.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> memory::Result<()> {
//! # #[cfg(feature = "sqlite")] {
//! use memory::drift::DriftSession;
//! use memory::{Backend as _, BackendExt as _, DriftPolicy, ErrorKind, Json, Key, Scope};
//!
//! let memory = memory::open("sqlite::memory:").await?;
//! let (scope, key) = (Scope::agent("acme", "planner")?, Key::new("city")?);
//! let backend = memory.backend().expect("SQLite keeps entries");
//! backend.put(&scope, &key, Json::string("Lisbon")).await?;
//!
//! let session = DriftSession::new(DriftPolicy::Row);
//! let mine = session.guard(backend);
//! mine.value(&scope, &key).await?;
//! backend.put(&scope, &key, Json::string("Porto")).await?;
//! let refused = mine.put(&scope, &key, Json::string("Faro")).await.unwrap_err();
//! assert_eq!(refused.kind(), ErrorKind::DriftDetected);
//! mine.value(&scope, &key).await?;
//! mine.put(&scope, &key, Json::string("Faro")).await?;
//! # }
//! # Ok(())
//! # }
//! ```

pub mod backup;
mod blocking;
mod guarded;
mod key_locks;
mod refusal;
mod session;
mod view;

pub use backup::{BackupLimits, Backups};
pub use guarded::{Guarded, Reading};
pub use session::{DEFAULT_CAPACITY, DriftSession, SessionStatus};
