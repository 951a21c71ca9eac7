//! `[definitions]` of `memory.toml`.

use std::path::PathBuf;

use serde::Deserialize;

/// `[definitions]`: allows backends to be defined at run time, and lists what they may reach. A missing list allows
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DefinitionsSection {
    /// The file of definitions, relative to the folder of `memory.toml`. Default: `memory.definitions.db` there,
    /// independent of the backends, since it must be found before any is opened.
    pub file: Option<PathBuf>,
    /// Schemes of URLs.
    pub schemes: Vec<String>,
    /// Hosts with ports, such as `mem0.example:443`.
    pub hosts: Vec<String>,
    /// Environment variables that a definition may name; a `*` at the end matches any suffix.
    pub env: Vec<String>,
    /// Folders that may contain files: databases, keys, certificates. Relative to the folder of `memory.toml`.
    pub paths: Vec<PathBuf>,
    /// Embedders, by name.
    pub embedders: Vec<String>,
    /// Backends that may be used as fallbacks, by name.
    pub fallbacks: Vec<String>,
}
