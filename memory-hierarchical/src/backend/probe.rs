//! Looking at a file without following symbolic links.

use std::fs;
use std::path::Path;

/// Most entries of the folder of graphs that are looked at.
pub(super) const MAX_ENTRIES: usize = 10_000;

/// Whether a file or folder is there, and neither it nor a folder on the way from `base` is a symbolic link.
pub(super) fn is_there(base: &Path, path: &Path) -> bool {
    let Ok(rest) = path.strip_prefix(base) else { return false };
    let mut at = base.to_owned();
    rest.components().all(|part| {
        at.push(part);
        fs::symlink_metadata(&at).is_ok_and(|metadata| !metadata.file_type().is_symlink())
    })
}
