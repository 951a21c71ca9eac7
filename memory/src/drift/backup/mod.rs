//! A scope as it was when a write was refused, saved as `memory.bak.SECONDS.json`.
//!
//! A scope's files are in a private folder named by the scope's digest. A file named like the backup plus `.resolved`
//! marks its drift as resolved.

mod backups;
mod catalog;
#[cfg(feature = "sqlite")]
mod database;
mod erase;
mod error;
mod file;
mod format;
mod read;
mod write;

pub use backups::{Backups, Saved};
pub use catalog::{BackupInfo, BackupLimits};
pub use read::{Backup, Difference, Restored};
