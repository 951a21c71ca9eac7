//! The environment that determines the backend, passed in rather than read.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use memory_core::{Error, Result};

/// The variable that chooses the backend.
pub(super) const BACKEND: &str = "AMPLIHACK_MEMORY_BACKEND";
const GRAPH_PATH: &str = "AMPLIHACK_GRAPH_DB_PATH";
const KUZU_PATH: &str = "AMPLIHACK_KUZU_DB_PATH";

/// Variables of an environment; an empty one counts as unset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    backend: Option<OsString>,
    graph_path: Option<OsString>,
    kuzu_path: Option<OsString>,
    home: Option<OsString>,
}

impl Environment {
    /// Asks for the variables that matter.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        Self {
            backend: set(BACKEND),
            graph_path: set(GRAPH_PATH),
            kuzu_path: set(KUZU_PATH),
            home: set("HOME"),
        }
    }

    pub(super) fn backend(&self) -> Option<&OsStr> {
        self.backend.as_deref()
    }

    /// The home folder.
    ///
    /// # Errors
    /// `invalid_argument` if `HOME` is unset, empty or not absolute: a folder relative to wherever a program happens to
    /// run would hide memories.
    pub fn home(&self) -> Result<&Path> {
        let home = self.home.as_deref().map(Path::new);
        home.filter(|home| home.is_absolute()).ok_or_else(|| {
            Error::invalid(
                "HOME is unset, empty or not an absolute path, so there is no place for memories; set it",
            )
        })
    }

    /// Where the graph engine's session file is, if a variable says so; the newer variable wins.
    ///
    /// # Errors
    /// `invalid_argument` for a path that is not absolute, contains `..`, or is in `/proc`, `/sys` or `/dev`.
    pub fn graph_path(&self) -> Result<Option<PathBuf>> {
        let set = [(GRAPH_PATH, &self.graph_path), (KUZU_PATH, &self.kuzu_path)];
        let Some((name, path)) = set.into_iter().find_map(|(name, path)| Some((name, path.as_ref()?))) else {
            return Ok(None);
        };
        let path = PathBuf::from(path);
        let why = if !path.is_absolute() {
            "is not absolute"
        } else if path.components().any(|part| part == Component::ParentDir) {
            "contains `..`"
        } else if ["/proc", "/sys", "/dev"].into_iter().any(|folder| path.starts_with(folder)) {
            "lies in a folder of the system"
        } else {
            return Ok(Some(path));
        };
        Err(Error::invalid(format!("the path in {name} {why}; give an absolute path of a file of your own"))
            .with_detail("variable", name))
    }
}
