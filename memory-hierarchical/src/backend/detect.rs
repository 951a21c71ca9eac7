//! Whether there are files of the graph engine. Symbolic links are never followed: they do not count.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::paths::Paths;
use super::probe::{MAX_ENTRIES, is_there};

/// How a file of the graph engine begins.
const MAGIC: &[u8; 4] = b"LBUG";

/// The first trace of the graph engine.
pub(super) fn graph_files(paths: &Paths) -> Option<PathBuf> {
    let own = Some(paths.own_graphs()).filter(|folder| is_there(paths.home(), folder));
    engine_sessions(paths).into_iter().next().or(own).or_else(|| {
        let folder = paths.graphs();
        let entries = if is_there(paths.home(), &folder) { entries(&folder).ok()? } else { Vec::new() };
        entries.iter().find_map(|entry| engine_graph(entry))
    })
}

/// The graph engine's files of sessions: what a variable names, and of the default places the newer one.
pub(super) fn engine_sessions(paths: &Paths) -> Vec<PathBuf> {
    let named = paths.graph_override().map(Path::to_owned);
    let named = named.filter(|path| path.parent().is_some_and(|folder| is_there(folder, path)));
    let known = ["memory_graph.db", "memory_kuzu.db"].map(|name| paths.root().join(name));
    let known = known.into_iter().find(|path| is_there(paths.home(), path));
    let known = known.filter(|path| named.as_ref() != Some(path));
    named.into_iter().chain(known).collect()
}

/// What a folder holds, by name.
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
            .find(|path| is_there(entry, path));
    }
    (kind.is_file() && begins_as_graph(entry)).then(|| entry.to_owned())
}

fn begins_as_graph(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *MAGIC
}
