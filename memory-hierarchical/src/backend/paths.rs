//! Where the original keeps its files.

use std::fs;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result};

use super::environment::Environment;
use super::probe::{engine_graph, entries, has_graph, is_there};
use crate::model::Agent;

/// The default places, below a home folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    home: PathBuf,
    graph: Option<PathBuf>,
}

impl Paths {
    /// The places in this environment.
    ///
    /// # Errors
    /// `invalid_argument` without a home folder, and for a malformed path of the graph engine's file.
    pub fn of(environment: &Environment) -> Result<Self> {
        Ok(Self { home: environment.home()?.to_owned(), graph: environment.graph_path()? })
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// The graph engine's session files: the one a variable names, and the newer of the default ones.
    pub(super) fn engine_sessions(&self) -> Vec<PathBuf> {
        let named = self.graph.clone();
        let named = named.filter(|path| path.parent().is_some_and(|folder| is_there(folder, path)));
        let known = ["memory_graph.db", "memory_kuzu.db"].map(|name| self.root().join(name));
        let known = known.into_iter().find(|path| is_there(&self.home, path));
        let known = known.filter(|path| named.as_ref() != Some(path));
        named.into_iter().chain(known).collect()
    }

    /// `~/.amplihack`
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.home.join(".amplihack")
    }

    /// The SQLite file of sessions: `~/.amplihack/memory.db`.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.root().join("memory.db")
    }

    /// The folder of graphs: `~/.amplihack/hierarchical_memory`.
    #[must_use]
    pub fn graphs(&self) -> PathBuf {
        self.root().join("hierarchical_memory")
    }

    /// The folder of the graph engine's files that are ours: `~/.amplihack/graphs`. The original writes nothing there.
    #[must_use]
    pub fn own_graphs(&self) -> PathBuf {
        self.root().join("graphs")
    }

    /// The SQLite file of an agent's graph: `<agent>.db` in the folder of graphs, or in the given one.
    #[must_use]
    pub fn sqlite_graph(&self, agent: &Agent, storage: Option<&Path>) -> PathBuf {
        storage.map_or_else(|| self.graphs(), Path::to_owned).join(format!("{agent}.db"))
    }

    /// The files of an installation: SQLite's and the graph engine's session files, then the graphs by name. With
    /// `storage`, only the graphs in that folder, and no sessions. Symbolic links are skipped.
    ///
    /// # Errors
    /// `not_found` if there are none, or the folder cannot be listed.
    pub fn installation(&self, storage: Option<&Path>) -> Result<Vec<PathBuf>> {
        let folder = storage.map_or_else(|| self.graphs(), Path::to_owned);
        let base = storage.unwrap_or(&self.home);
        let is_file = |path: &Path| {
            is_there(base, path) && fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
        };
        let mut files = Vec::new();
        if storage.is_none() {
            files.extend(Some(self.sessions()).filter(|path| is_file(path)));
            files.extend(self.engine_sessions());
        }
        if is_there(base, &folder) {
            let entries = entries(&folder).map_err(|error| none_in(&folder).with_source(error))?;
            let is_database =
                |path: &PathBuf| path.extension().is_some_and(|ending| ending == "db") && is_file(path);
            files.extend(
                entries
                    .into_iter()
                    .filter_map(|entry| engine_graph(&entry).or_else(|| Some(entry).filter(is_database))),
            );
        }
        if files.is_empty() { Err(none_in(&folder)) } else { Ok(files) }
    }

    /// The graph engine's session file: from a variable, or `~/.amplihack/memory_graph.db`.
    #[must_use]
    pub fn graph_sessions(&self) -> PathBuf {
        self.graph.clone().unwrap_or_else(|| self.root().join("memory_graph.db"))
    }

    /// The graph engine's files of an agent: `graph_db` below the agent's folder, or `kuzu_db` where only that exists.
    #[must_use]
    pub fn engine_graph(&self, agent: &Agent) -> PathBuf {
        let folder = self.graphs().join(agent.as_str());
        let (current, legacy) = (folder.join("graph_db"), folder.join("kuzu_db"));
        if !has_graph(&self.home, &current) && has_graph(&self.home, &legacy) { legacy } else { current }
    }
}

fn none_in(folder: &Path) -> Error {
    Error::not_found(format!("there are no databases of the original in {}; name a file", folder.display()))
}
