//! Checks files that somebody else wrote before SQLite sees them.

use std::fs;
use std::io::{ErrorKind as IoErrorKind, Read as _};
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, Result};

pub(super) fn io(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        IoErrorKind::NotFound => ErrorKind::NotFound,
        IoErrorKind::PermissionDenied => ErrorKind::Forbidden,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, "the file cannot be read; check its path and who may read it").with_source(error)
}

/// The file with its folder's real name, so that no link is followed.
pub(super) fn ordinary(path: &Path) -> Result<PathBuf> {
    let found = fs::symlink_metadata(path).map_err(io)?;
    if found.file_type().is_symlink() {
        let path = path.display();
        return Err(Error::invalid(format!(
            "{path} is a symbolic link, which is not followed; use the file itself"
        )));
    }
    if found.is_dir() {
        return Err(Error::invalid(
            "that is a folder; name the database file. A folder `graph_db` or `kuzu_db` belongs to a graph engine: export \
             the graph as JSON with the program that wrote it, and import that",
        ));
    }
    if !found.is_file() {
        return Err(Error::invalid("that is no ordinary file; name a database file"));
    }
    let Some(name) = path.file_name() else { return Err(Error::invalid("the path names no file")) };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok(fs::canonicalize(folder).map_err(io)?.join(name))
}

/// Refuses a file that does not start like a SQLite database.
pub(super) fn magic(path: &Path) -> Result<()> {
    let mut head = Vec::new();
    fs::File::open(path).map_err(io)?.take(16).read_to_end(&mut head).map_err(io)?;
    if head.starts_with(b"LBUG") || head.starts_with(b"KUZU") {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "that is the file of a graph engine (LadybugDB, formerly Kuzu), which this build does not read; export the graph \
             as JSON with the program that wrote it and use `memory graph import`, or take it over with a build that has \
             the engine",
        ));
    }
    if head != b"SQLite format 3\0" {
        return Err(Error::corrupt("that is no SQLite database; name one, or check the format"));
    }
    Ok(())
}

/// The file with this suffix appended to its name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

pub(super) fn has_bytes(path: &Path, ending: &str) -> bool {
    fs::metadata(beside(path, ending)).is_ok_and(|found| found.len() > 0)
}
