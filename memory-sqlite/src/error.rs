//! Maps SQLite's errors to core errors.

use std::time::Duration;

use memory_core::DriftReason;
use memory_core::{Error, ErrorKind, Retry};
use rusqlite::ErrorCode;

/// The code of an engine error; `None` for errors of rusqlite.
pub(crate) fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

/// Whether another connection holds a lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// An engine error before the commit.
pub(crate) fn engine(error: rusqlite::Error) -> Error {
    let (kind, message, retry) = match code(&error) {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => return locked().with_source(error),
        Some(ErrorCode::DiskFull) => (
            ErrorKind::Unavailable,
            "the disk or the database is full and nothing was written; free space and try again",
            Some(Retry::After(Duration::from_secs(1))),
        ),
        Some(ErrorCode::SystemIoFailure) => (
            ErrorKind::Unavailable,
            "reading or writing the database file failed; check the disk and the file's permissions",
            None,
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Corrupt,
            "the database file is damaged; restore it from a copy, or recover it with SQLite's `.recover`",
            None,
        ),
        Some(ErrorCode::NotADatabase) => {
            (ErrorKind::Corrupt, "the file is not a SQLite database; name another file", None)
        }
        Some(ErrorCode::ReadOnly) => return read_only().with_source(error),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            ErrorKind::Unavailable,
            "the database file cannot be opened; check that its folder exists and may be read and written",
            Some(Retry::Never),
        ),
        Some(ErrorCode::OutOfMemory) => {
            (ErrorKind::Unavailable, "SQLite is out of memory; try again with less load", None)
        }
        Some(ErrorCode::OperationInterrupted) => {
            (ErrorKind::Unavailable, "the operation was interrupted as the database closes", None)
        }
        Some(ErrorCode::TooBig) => (ErrorKind::TooLarge, "a text is longer than SQLite can store", None),
        _ => (ErrorKind::Internal, "SQLite reports an unexpected error; please report it", None),
    };
    let converted = Error::new(kind, message).with_source(error);
    match retry {
        Some(retry) => converted.with_retry(retry),
        None => converted,
    }
}

/// An error of COMMIT. If the file system failed, it is unknown whether the commit is in the log.
pub(crate) fn commit(error: rusqlite::Error) -> Error {
    if code(&error) == Some(ErrorCode::SystemIoFailure) {
        return Error::outcome_unknown(
            "the disk failed during the commit; read the key to see whether the write was stored",
        )
        .with_source(error);
    }
    engine(error)
}

/// Another process held the lock for longer than the timeout.
pub(crate) fn locked() -> Error {
    Error::unavailable(
        "another process kept the database locked for the whole busy timeout; nothing was written, try again",
    )
}

/// This process may not write the file.
pub(crate) fn read_only() -> Error {
    Error::read_only(
        "the database file or its folder is read-only; give this process the right to write both",
    )
}

/// The provider was closed.
pub(crate) fn closed() -> Error {
    Error::unavailable("the database was closed; open it again").with_retry(Retry::Never)
}

/// The file was renamed or deleted: writes to it are lost when this process ends.
pub(crate) fn displaced() -> Error {
    Error::unavailable(DriftReason::FileReplaced.message())
        .with_retry(Retry::Never)
        .with_detail("reason", DriftReason::FileReplaced.as_str())
}

/// The queue is full.
pub(crate) fn overloaded(what: &'static str) -> Error {
    Error::unavailable(format!("too many {what} are waiting already; nothing was done, try again later"))
}

/// The thread that should have answered is gone.
pub(crate) fn lost() -> Error {
    Error::outcome_unknown(
        "the operation ended without an answer, which is a bug; read the key to see whether it was stored",
    )
}

/// A stored row that this crate would not have written.
pub(crate) fn malformed(what: &'static str) -> Error {
    Error::corrupt(format!(
        "a stored {what} is malformed; the file was changed by another program or is damaged"
    ))
}

/// A row of the table `scope`, identified by its `space`, that names no scope.
pub(crate) fn malformed_scope(space: i64) -> Error {
    Error::corrupt(
        format!(
            "the row with space {space} of the table scope names no scope: the file was changed by another program or is \
             damaged; correct or delete that row, then try again"
        ),
    )
    .with_detail("space", space)
}

/// A file that is not ours, or of a later version.
pub(crate) fn foreign(message: &'static str) -> Error {
    Error::corrupt(message)
}

/// An error of the file system while opening.
pub(crate) fn file(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        std::io::ErrorKind::NotADirectory | std::io::ErrorKind::InvalidInput => ErrorKind::InvalidArgument,
        _ => ErrorKind::Unavailable,
    };
    Error::new(
        kind,
        "the database file or its folder cannot be opened or created; check the path and its permissions",
    )
    .with_retry(Retry::Never)
    .with_source(error)
}

/// Why a row cannot be read: an engine error, or its contents.
#[derive(Debug)]
pub(crate) enum Unreadable {
    Engine(rusqlite::Error),
    Content(Error),
}

impl From<rusqlite::Error> for Unreadable {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Error> for Unreadable {
    fn from(error: Error) -> Self {
        Self::Content(error)
    }
}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Engine(error) => engine(error),
            Unreadable::Content(error) => error,
        }
    }
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was refused, before writing anything.
    Refused(Error),
    /// The engine failed; its writes must be rolled back.
    Engine(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Unreadable> for Fault {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Engine(error) => Self::Engine(error),
            Unreadable::Content(error) => Self::Refused(error),
        }
    }
}
