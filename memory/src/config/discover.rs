//! Where to look for `memory.toml`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result};

/// The environment variable with the path of a configuration.
pub const CONFIG_VARIABLE: &str = "MEMORY_CONFIG";
/// The file's name.
pub const FILE_NAME: &str = "memory.toml";

/// Where to look for a configuration, in this order: the file given by the caller, the one in `MEMORY_CONFIG`,
/// `./memory.toml`, `$XDG_CONFIG_HOME/memory/memory.toml` (`~/.config` if unset).
///
/// The first two must exist if given; the others need not.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// A file named by the caller.
    pub explicit: Option<PathBuf>,
    /// A file named by the environment.
    pub variable: Option<PathBuf>,
    /// The working directory.
    pub working_dir: PathBuf,
    /// The user's folder of configurations.
    pub config_home: Option<PathBuf>,
}

impl Discovery {
    /// From this process's environment.
    #[must_use]
    pub fn from_environment(explicit: Option<&Path>) -> Self {
        let path =
            |name: &str| std::env::var_os(name).filter(|text: &OsString| !text.is_empty()).map(PathBuf::from);
        Self {
            explicit: explicit.map(Path::to_path_buf),
            variable: path(CONFIG_VARIABLE),
            working_dir: PathBuf::new(),
            // The XDG specification says to ignore relative paths.
            config_home: path("XDG_CONFIG_HOME")
                .filter(|home| home.is_absolute())
                .or_else(|| path("HOME").map(|home| home.join(".config"))),
        }
    }

    /// The files in the order they are tried.
    #[must_use]
    pub fn candidates(&self) -> Vec<PathBuf> {
        if let Some(named) = self.explicit.as_ref().or(self.variable.as_ref()) {
            return vec![named.clone()];
        }
        std::iter::once(self.working_dir.join(FILE_NAME))
            .chain(self.config_home.as_ref().map(|home| home.join("memory").join(FILE_NAME)))
            .collect()
    }

    /// The first that exists.
    ///
    /// # Errors
    /// `not_found` if a named one does not exist.
    pub fn find(&self) -> Result<Option<PathBuf>> {
        let found = self.candidates().into_iter().find(|path| path.is_file());
        let named = self
            .explicit
            .as_ref()
            .map(|path| (path, "on the command line or by the caller"))
            .or_else(|| self.variable.as_ref().map(|path| (path, "in MEMORY_CONFIG")));
        match (found, named) {
            (None, Some((path, where_))) => Err(Error::not_found(format!(
                "the configuration {}, named {where_}, is not a file; create it or name another",
                path.display()
            ))),
            (found, _) => Ok(found),
        }
    }
}
