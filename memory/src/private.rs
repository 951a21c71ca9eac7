//! Files and folders that only their owner may read.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)
}

/// Creates a file that must not exist. An existing link counts, wherever it leads.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create_new(true), path)
}

/// Opens a file for writing, creating it if missing. Its content is kept.
#[cfg(feature = "sqlite")]
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(false), path)
}

/// Opens a file for appending, creating it if missing.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().append(true).create(true), path)
}

/// Creates a folder, and with `parents` those above it.
pub(crate) fn folder(path: &Path, parents: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(parents);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(path)
}
