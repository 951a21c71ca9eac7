//! Where the store is.

use std::path::{Path, PathBuf};

use memory::Config;
use memory_core::{Error, Result, Retry};
use serde::Serialize;

use super::global::{Global, named};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// An option or an environment variable.
    CommandLine,
    /// `memory.toml`.
    Configuration,
    /// The default.
    Default,
}

impl Origin {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::CommandLine => "command line or environment",
            Self::Configuration => "memory.toml",
            Self::Default => "default",
        }
    }
}

/// The variable that names a SQLite file if nothing else names a store.
const FILE: &str = "AGENT_MEMORY_DB_PATH";

/// Where the store is.
pub(super) enum Store {
    Url(String),
    /// A name under `[backends]`; relative paths are relative to the configuration file.
    Named(String),
    /// A file in the user's data folder.
    DataFile(PathBuf),
}

/// The store named on the command line, or else in `memory.toml`, or else by `AGENT_MEMORY_DB_PATH`, or else a file in
/// the data folder.
pub(super) fn store(global: &Global, config: Option<&Config>) -> Result<(Store, Origin)> {
    let (url, backend) = (named(global.url.as_deref()), named(global.backend.as_deref()));
    match (url, backend, config) {
        (Some(_), Some(_), _) => {
            return Err(Error::invalid(
                "--url (or MEMORY_URL) and --backend (or MEMORY_BACKEND) both name a store; give one",
            ));
        }
        (Some(url), None, _) => return Ok((Store::Url(url.to_owned()), Origin::CommandLine)),
        (None, Some(name), Some(config)) => {
            config.check_backend_name(name)?;
            return Ok((Store::Named(name.to_owned()), Origin::CommandLine));
        }
        (None, Some(_), None) => {
            return Err(Error::invalid(
                "--backend names a store under [backends] of memory.toml, and there is no memory.toml; write one with `memory config init`, or give --url",
            ));
        }
        (None, None, _) => {}
    }
    if let Some(name) = config.and_then(Config::default_backend) {
        return Ok((Store::Named(name.to_owned()), Origin::Configuration));
    }
    if let Some(config) = config
        && config.backends().next().is_some()
    {
        return Err(Error::invalid(format!(
            "{} defines several backends but no default; set `backend` under [default], or give --url",
            config.origin().display()
        )));
    }
    if let Some(file) = std::env::var_os(FILE).filter(|file| !file.is_empty()) {
        return Ok((Store::DataFile(file.into()), Origin::CommandLine));
    }
    let folder = data_folder().ok_or_else(|| {
        Error::invalid("there is no home folder for a database; give --url, as in --url sqlite:memory.db")
    })?;
    Ok((Store::DataFile(folder.join("memory.db")), Origin::Default))
}

/// The user's folder for data with no configured place: `memory` in `$XDG_DATA_HOME`, or `~/.local/share` if unset (XDG
/// Base Directory Specification: relative paths are ignored).
pub(crate) fn data_folder() -> Option<PathBuf> {
    folder("XDG_DATA_HOME", "share")
}

/// The user's folder for data that may be lost: `memory` in `$XDG_STATE_HOME`, or `~/.local/state` if unset.
pub(crate) fn state_folder() -> Option<PathBuf> {
    folder("XDG_STATE_HOME", "state")
}

fn folder(variable: &str, below: &str) -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = path(variable).or_else(|| path("HOME").map(|home| home.join(".local").join(below)));
    base.map(|base| base.join("memory"))
}

/// Creates a folder that only its owner may enter, and its missing parents.
pub(crate) fn create_private_folder(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder).map_err(|error| {
        Error::unavailable(format!(
            "the folder {} cannot be created: {error}; create it, or give --url",
            folder.display()
        ))
        .with_retry(Retry::Never)
        .with_source(error)
    })
}

/// The URL of a file, with special characters percent-encoded.
///
/// # Errors
/// `invalid_argument` for a path that is not UTF-8.
pub fn sqlite_url(file: &Path) -> Result<String> {
    use std::fmt::Write as _;
    let text = file
        .to_str()
        .ok_or_else(|| Error::invalid("the path of the database is not UTF-8; give another with --url"))?;
    let mut url = "sqlite:".to_owned();
    for character in text.chars() {
        if matches!(character, '%' | '?' | '#') || character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                let _ = write!(url, "%{byte:02X}");
            }
        } else {
            url.push(character);
        }
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use memory::BackendUrl;

    use super::*;

    #[test]
    fn paths_survive_being_a_url() {
        let path = Path::new("/data/50% off?/#1\n.db");
        let url = sqlite_url(path).unwrap();
        assert_eq!(BackendUrl::parse(&url).unwrap().decoded_path().unwrap(), path.to_str().unwrap());
    }
}
