//! Looking at a file without following symbolic links.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The first bytes of a graph engine's file.
const MAGIC: &[u8; 4] = b"LBUG";
/// Most entries of the folder of graphs that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// Whether a file or folder exists, and neither it nor a folder on the way from `base` is a symbolic link.
pub(super) fn is_there(base: &Path, path: &Path) -> bool {
    let Ok(rest) = path.strip_prefix(base) else { return false };
    let mut at = base.to_owned();
    rest.components().all(|part| {
        at.push(part);
        fs::symlink_metadata(&at).is_ok_and(|metadata| !metadata.file_type().is_symlink())
    })
}

/// As [`is_there`], but an empty folder in the place of a graph does not count.
pub(super) fn has_graph(base: &Path, path: &Path) -> bool {
    is_there(base, path) && !fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// The contents of a folder, by name.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.take(MAX_ENTRIES).filter_map(|entry| Some(entry.ok()?.path()));
    let mut entries: Vec<PathBuf> = entries.collect();
    entries.sort();
    Ok(entries)
}

/// The graph engine's graph at an entry of the folder of graphs: in an agent's folder, or the file in the place of one.
pub(super) fn engine_graph(entry: &Path) -> Option<PathBuf> {
    let kind = fs::symlink_metadata(entry).ok()?.file_type();
    if kind.is_dir() {
        return ["graph_db", "kuzu_db"]
            .into_iter()
            .map(|name| entry.join(name))
            .find(|path| has_graph(entry, path));
    }
    (kind.is_file() && begins_as_graph(entry)).then(|| entry.to_owned())
}

fn begins_as_graph(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *MAGIC
}
