//! One connection to a scope's database, and the state shared by all users of the scope.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::{ErrorKind, Result, Scope, ScopeDigest};
use tokio::sync::Semaphore;

use crate::file::location::{FileId, Still};
use crate::sandbox::{Role, Sandbox};
use crate::sql::files::Place;

/// The `user_version` of a dropped scope's database. Connections still open to it must be closed.
pub(crate) const DROPPED: i32 = -1_145_198_416;
/// The `user_version` of a database in which something was committed.
pub(crate) const WRITTEN: i32 = 1;

/// State shared by the users of a scope's database.
#[derive(Debug)]
pub(crate) struct ScopeState {
    pub(crate) scope: Scope,
    pub(crate) digest: ScopeDigest,
    pub(crate) place: Place,
    /// The write lock, first come, first served.
    pub(crate) writing: Arc<tokio::sync::Mutex<()>>,
    /// One permit per reader.
    pub(crate) reading: Arc<Semaphore>,
    /// Incremented when existing connections must not be used again.
    pub(super) epoch: AtomicU64,
    /// Length from which the log is checkpointed; raised when a checkpoint could not move all of it.
    pub(crate) log_tolerated: AtomicU64,
}

impl ScopeState {
    /// Prevents every idle connection from being used again.
    pub(crate) fn forget_connections(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

/// One connection to a scope's database.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) sandbox: Sandbox,
    pub(crate) state: Arc<ScopeState>,
    pub(super) role: Role,
    pub(super) epoch: u64,
    pub(super) file: Option<FileId>,
    /// Set if this process may not write the file.
    pub(super) still: Option<Still>,
    /// The database's `user_version` when it was opened.
    pub(super) version: i32,
    /// Whether it came from the pool.
    pub(super) rested: bool,
    /// Whether to close it after use instead of returning it to the pool.
    pub(super) passes: bool,
}

impl Conn {
    pub(crate) fn is_writer(&self) -> bool {
        self.role == Role::Writer
    }

    pub(crate) fn file(&self) -> Option<FileId> {
        self.file
    }

    /// Checks that what was read reflects a single state of the file. Fails as [`Still::check`] does.
    pub(crate) fn check_read(&self) -> Result<()> {
        self.still.map_or(Ok(()), |still| still.check(self.state.place.database()))
    }

    /// Marks a connection used by a walk over many scopes: unless it came from the pool, it must not push out
    /// connections that agents use.
    pub(crate) fn pass(&mut self) {
        self.passes = !self.rested;
    }

    /// Whether the scope's connections are still valid since it was opened.
    pub(super) fn is_of_this_epoch(&self) -> bool {
        self.epoch == self.state.epoch.load(Ordering::SeqCst)
    }

    /// Whether it refers to the file that now has the scope's name.
    pub(crate) fn is_current(&self) -> bool {
        if !self.is_of_this_epoch() {
            return false;
        }
        let now = self.state.place.file();
        self.file == now && (now.is_some() || cfg!(not(unix)))
    }
}

/// Whether the error means that another process holds the lock.
pub(crate) fn is_busy(error: &memory_core::Error) -> bool {
    error.kind() == ErrorKind::Unavailable
        && std::error::Error::source(error)
            .and_then(|source| source.downcast_ref::<rusqlite::Error>())
            .is_some_and(crate::error::is_busy)
}

/// Whether the disk is full.
pub(crate) fn is_out_of_room(error: &memory_core::Error) -> bool {
    use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<rusqlite::Error>())
        .and_then(crate::error::code)
        .is_some_and(|code| matches!(code, DiskFull | SystemIoFailure))
}
