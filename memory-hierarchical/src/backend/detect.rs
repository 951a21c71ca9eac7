//! Whether there are files of the graph engine. Symbolic links are never followed: they do not count.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::paths::Paths;
use super::probe::{MAX_ENTRIES, is_there};

/// How a file of the graph engine begins.
const MAGIC: &[u8; 4] = b"LBUG";

/// The first trace of the graph engine.
pub(super) fn graph_files(paths: &Paths) -> Option<PathBuf> {
    let root = paths.root();
    let named = paths.graph_override().and_then(|path| Some((path.parent()?.to_owned(), path.to_owned())));
    let below_home = |path: PathBuf| (paths.home().to_owned(), path);
    let known = ["memory_graph.db", "memory_kuzu.db"].map(|name| root.join(name));
    let known = known.into_iter().chain([paths.own_graphs()]).map(below_home);
    let direct = named.into_iter().chain(known).find(|(from, path)| is_there(from, path));
    direct.map(|(_, path)| path).or_else(|| of_agents(paths))
}

/// A graph below the folder of graphs: in an agent's folder, or the engine's file in the place of one.
fn of_agents(paths: &Paths) -> Option<PathBuf> {
    let folder = paths.graphs();
    if !is_there(paths.home(), &folder) {
        return None;
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(&folder).ok()?.take(MAX_ENTRIES).filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().find_map(|entry| {
        let kind = fs::symlink_metadata(&entry).ok()?.file_type();
        if kind.is_dir() {
            return ["graph_db", "kuzu_db"]
                .into_iter()
                .map(|name| entry.join(name))
                .find(|path| is_there(&entry, path));
        }
        (kind.is_file() && begins_as_graph(&entry)).then_some(entry)
    })
}

fn begins_as_graph(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok() && begin == *MAGIC
}
