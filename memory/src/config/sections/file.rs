//! The shape of `memory.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use memory_core::{DriftPolicy, Quota, Result, ScopeId, ScopeKind, TenantId};
use serde::{Deserialize, Deserializer, Serialize};

use super::audit::AuditSection;
use super::definitions::DefinitionsSection;
use super::embedders::{EgressSection, EmbedderSection};
use super::gc::GcSection;
use crate::policy::{DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_ANSWER_ROWS, DEFAULT_MAX_INPUT_BYTES};
use crate::url::BackendUrl;

/// A whole `memory.toml`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ConfigFile {
    /// Backends by name.
    pub backends: BTreeMap<String, BackendSection>,
    /// Embedders by name.
    pub embedders: BTreeMap<String, EmbedderSection>,
    /// What embedders and backends over HTTP may reach.
    pub egress: EgressSection,
    /// What agents leave out, and agents without a section.
    pub default: DefaultSection,
    /// Agents by name.
    pub agents: BTreeMap<String, AgentSection>,
    /// Ceilings for every agent.
    pub limits: LimitsSection,
    /// Whether SQL may be used at all.
    pub sql: SqlSection,
    /// Where the record of every operation goes.
    pub audit: AuditSection,
    /// Which scopes are evicted.
    pub gc: GcSection,
    /// What backends that are defined at run time may reach; without it there are none.
    pub definitions: Option<DefinitionsSection>,
}

/// `[backends.NAME]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BackendSection {
    /// Where it is.
    #[serde(deserialize_with = "url")]
    pub url: BackendUrl,
    /// The embedder that gives its entries vectors, by name.
    pub embedder: Option<String>,
    /// How the SQL databases of its scopes are kept: what its URL could say as `sql.NAME=value`.
    #[serde(default)]
    pub sql: BTreeMap<String, SqlOption>,
    /// The backend that is asked where this one cannot be reached, by name.
    pub fallback: Option<String>,
    /// What happens to writes meanwhile. Default: they are refused.
    pub fallback_writes: Option<FallbackWrites>,
    /// The file in which they wait; relative to the folder of `memory.toml`. Default: `NAME.fallback.db` in it.
    pub fallback_journal: Option<PathBuf>,
    /// How long this backend is not tried after it could not be reached, in milliseconds. Default 1,000.
    pub fallback_rest_ms: Option<u32>,
}

/// What happens to writes while a backend cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FallbackWrites {
    /// They are refused.
    #[default]
    Refuse,
    /// The fallback takes them, and they are written to this backend when it is back.
    Journal,
}

/// One option under `[backends.NAME.sql]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "a whole number, true or false, a text, or under `shared` files by name")]
#[non_exhaustive]
pub enum SqlOption {
    /// Whether something is so.
    Switch(bool),
    /// A number of bytes, milliseconds, or things.
    Number(u64),
    /// A text, such as a path.
    Text(String),
    /// Files by name: `shared`.
    Files(BTreeMap<String, String>),
}

impl BackendSection {
    /// A backend at this URL.
    #[must_use]
    pub fn new(url: BackendUrl) -> Self {
        Self {
            url,
            embedder: None,
            sql: BTreeMap::new(),
            fallback: None,
            fallback_writes: None,
            fallback_journal: None,
            fallback_rest_ms: None,
        }
    }
}

/// A URL with what `sql` says.
pub(crate) fn with_sql(url: &BackendUrl, sql: &BTreeMap<String, SqlOption>) -> BackendUrl {
    let mut parameters = Vec::new();
    for (name, option) in sql {
        match option {
            SqlOption::Switch(on) => parameters.push((format!("sql.{name}"), on.to_string())),
            SqlOption::Number(number) => parameters.push((format!("sql.{name}"), number.to_string())),
            SqlOption::Text(text) => parameters.push((format!("sql.{name}"), text.clone())),
            SqlOption::Files(files) => {
                let named = |(file, path): (&String, &String)| (format!("sql.{name}.{file}"), path.clone());
                parameters.extend(files.iter().map(named));
            }
        }
    }
    url.with_parameters(&parameters)
}

/// `[default]`: identity and rules of agents that say nothing else.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DefaultSection {
    /// The backend of agents that name none.
    pub backend: Option<String>,
    /// Tenant of a process that serves one agent.
    pub tenant: Option<TenantId>,
    /// Its agent.
    pub agent: Option<ScopeId>,
    /// Its user.
    pub user: Option<ScopeId>,
    /// Kinds of scope whose entries and facts may be used.
    pub memory_scopes: Option<BTreeSet<ScopeKind>>,
    /// Kinds of scope on whose database SQL may be run.
    pub sql_scopes: Option<BTreeSet<ScopeKind>>,
    /// How much each scope may hold.
    pub quota: Option<Quota>,
    /// How many bytes each scope's database may hold.
    pub sql_max_bytes: Option<u64>,
    /// What writes are refused for: `off`, `row` or `strict`.
    pub drift: Option<DriftPolicy>,
    /// Most rows of one answer.
    pub max_rows: Option<usize>,
    /// Most bytes of one answer.
    pub max_answer_bytes: Option<usize>,
}

/// `[agents.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AgentSection {
    /// Its backend, by name.
    pub backend: Option<String>,
    /// Kinds of scope whose entries and facts it may use.
    pub memory_scopes: Option<BTreeSet<ScopeKind>>,
    /// Kinds of scope on whose database it may run SQL.
    pub sql_scopes: Option<BTreeSet<ScopeKind>>,
    /// How much each of its scopes may hold.
    pub quota: Option<Quota>,
    /// How many bytes the database of each of its scopes may hold.
    pub sql_max_bytes: Option<u64>,
    /// What its writes are refused for: `off`, `row` or `strict`.
    pub drift: Option<DriftPolicy>,
    /// Most rows of one answer.
    pub max_rows: Option<usize>,
    /// Most bytes of one answer.
    pub max_answer_bytes: Option<usize>,
}

/// `[limits]`: what no agent's section can exceed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsSection {
    /// Most that any scope may hold.
    pub quota: Quota,
    /// Most bytes that any scope's database may hold.
    pub sql_max_bytes: Option<u64>,
    /// What every write is refused for at least: `off`, `row` or `strict`.
    pub drift: Option<DriftPolicy>,
    /// Most rows of one answer.
    pub max_rows: usize,
    /// Most bytes of one answer.
    pub max_answer_bytes: usize,
    /// Most bytes of one call's input.
    pub max_input_bytes: usize,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            quota: Quota::default(),
            sql_max_bytes: None,
            drift: None,
            max_rows: DEFAULT_MAX_ANSWER_ROWS,
            max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES,
            max_input_bytes: DEFAULT_MAX_INPUT_BYTES,
        }
    }
}

/// `[sql]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SqlSection {
    /// SQL is off unless this is true.
    pub enabled: bool,
    /// Processes that run it: 1 to 64; 0: the serving process itself.
    pub workers: usize,
    /// Most memory of such a process, in bytes of address space: 256 MiB and more.
    pub worker_memory_bytes: Option<u64>,
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BackendUrl, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
