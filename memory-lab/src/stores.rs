//! Stores that a command makes for itself.

use memory_core::Error;

/// A folder that is removed when it is dropped.
pub(crate) fn temporary() -> memory_core::Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| broken("make a temporary folder", error))
}

/// The URL of a fresh store in a folder.
pub(crate) fn fresh(folder: &tempfile::TempDir) -> memory_core::Result<String> {
    let path = folder.path().join("eval.db");
    let path = path.to_str().ok_or_else(|| {
        Error::invalid("the name of the system's temporary folder is not UTF-8; name a backend with --on")
    })?;
    let escaped = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    Ok(format!("sqlite:{escaped}"))
}

/// An error of the file system.
pub(crate) fn broken(doing: &str, error: std::io::Error) -> Error {
    Error::unavailable(format!("cannot {doing}: {error}")).with_source(error)
}
