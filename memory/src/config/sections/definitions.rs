//! `[definitions]` of `memory.toml`.

use std::path::PathBuf;

use serde::Deserialize;

/// `[definitions]`: backends may be defined at run time, and what they may reach. Nothing, where a list is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DefinitionsSection {
    /// Where they are kept; relative to the folder of `memory.toml`. Default: `memory.definitions.db` in it, whatever
    /// backends there are: it must be found again.
    pub file: Option<PathBuf>,
    /// Schemes of URLs.
    pub schemes: Vec<String>,
    /// Hosts with their ports, as `mem0.example:443`.
    pub hosts: Vec<String>,
    /// Environment variables that a definition may name; with a `*` at the end, all that begin so.
    pub env: Vec<String>,
    /// Folders in which files may lie: databases, keys, certificates. Relative to the folder of `memory.toml`.
    pub paths: Vec<PathBuf>,
    /// Embedders, by name.
    pub embedders: Vec<String>,
    /// Backends that may be fallbacks, by name.
    pub fallbacks: Vec<String>,
}
