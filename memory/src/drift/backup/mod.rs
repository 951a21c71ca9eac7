//! The scope as it was when a write was refused, in a file: `memory.bak.SECONDS.json`.
//!
//! The files of a scope lie in a folder of its own, named by the scope's digest, which nobody else may read. A file
//! beside a backup, with `.resolved` after its name, says that the drift it is about was cleared.

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
