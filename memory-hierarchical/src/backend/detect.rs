//! Whether there are files of the graph engine. Symbolic links are never followed and do not count.

use std::path::PathBuf;

use super::paths::Paths;
use super::probe::{engine_graph, entries, is_there};

/// The first trace of the graph engine.
pub(super) fn graph_files(paths: &Paths) -> Option<PathBuf> {
    let own = Some(paths.own_graphs()).filter(|folder| is_there(paths.home(), folder));
    paths.engine_sessions().into_iter().next().or(own).or_else(|| {
        let folder = paths.graphs();
        let entries = if is_there(paths.home(), &folder) { entries(&folder).ok()? } else { Vec::new() };
        entries.iter().find_map(|entry| engine_graph(entry))
    })
}
