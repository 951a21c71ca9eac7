//! File system errors with backups.

use memory_core::{Error, ErrorKind, Retry};

/// A file system error that names the failed action.
pub(super) fn io_error(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
            std::io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("{what}: {error}; check the folder of backups and its permissions"))
            .with_retry(Retry::Never)
            .with_source(error)
    }
}
