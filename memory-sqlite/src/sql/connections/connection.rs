//! One connection to a scope's database, and what all users of the scope share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::{ErrorKind, Scope, ScopeDigest};
use tokio::sync::Semaphore;

use crate::file::location::FileId;
use crate::sandbox::{Role, Sandbox};
use crate::sql::files::Place;

/// Marks the database of a dropped scope. Connections that are still open to it must be closed.
pub(crate) const DROPPED: i32 = -1_145_198_416;
/// Marks a database in which something was committed.
pub(crate) const WRITTEN: i32 = 1;

/// What the users of a scope's database share.
#[derive(Debug)]
pub(crate) struct ScopeState {
    pub(crate) scope: Scope,
    pub(crate) digest: ScopeDigest,
    pub(crate) place: Place,
    /// The write lock, first come first served.
    pub(crate) writing: Arc<tokio::sync::Mutex<()>>,
    /// One permit for each reader.
    pub(crate) reading: Arc<Semaphore>,
    /// Raised when connections opened so far must not be used again.
    pub(super) epoch: AtomicU64,
    /// Length of the log from which it is checkpointed; raised when a checkpoint could not move all of it.
    pub(crate) log_tolerated: AtomicU64,
}

impl ScopeState {
    /// From now on no idle connection is used again.
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
    /// The database's mark when it was opened.
    pub(super) mark: i32,
    /// Whether it came from the pool.
    pub(super) rested: bool,
    /// Whether it is closed after use instead of being returned to the pool.
    pub(super) passes: bool,
}

impl Conn {
    pub(crate) fn is_writer(&self) -> bool {
        self.role == Role::Writer
    }

    pub(crate) fn file(&self) -> Option<FileId> {
        self.file
    }

    /// It serves a walk over many scopes: it must not push connections that agents use out of the pool, unless it came from
    /// there.
    pub(crate) fn pass(&mut self) {
        self.passes = !self.rested;
    }

    /// Whether the scope's connections were not invalidated since it was opened.
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

/// Whether another process holds the lock at this moment.
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
