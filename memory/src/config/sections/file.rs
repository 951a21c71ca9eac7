//! The shape of `memory.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use memory_core::{DriftPolicy, Quota, Result, ScopeId, ScopeKind, TenantId};
use serde::{Deserialize, Deserializer, Serialize};

use super::audit::AuditSection;
use super::definitions::DefinitionsSection;
use super::embedders::{EgressSection, EmbedderSection};
use super::gc::GcSection;
use super::http::HttpSection;
use super::models::{GovernedSection, ModelsSection, RecallSection};
use super::snapshot::SnapshotSection;
use crate::policy::{
    DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_ANSWER_ROWS, DEFAULT_MAX_INPUT_BYTES, GraphAccess, OfferedTool,
    SharedAccess,
};
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
    /// Models besides embedders: the language model.
    pub models: ModelsSection,
    /// Conversations.
    pub recall: RecallSection,
    /// Shared state of several agents.
    pub governed: GovernedSection,
    /// What embedders, language models and backends may reach over HTTP.
    pub egress: EgressSection,
    /// Defaults for agents, with or without a section.
    pub default: DefaultSection,
    /// Agents by name.
    pub agents: BTreeMap<String, AgentSection>,
    /// Ceilings for every agent.
    pub limits: LimitsSection,
    /// Whether SQL may be used at all.
    pub sql: SqlSection,
    /// Where the records of operations go.
    pub audit: AuditSection,
    /// Which scopes are evicted.
    pub gc: GcSection,
    /// `memory serve --http`.
    pub http: HttpSection,
    /// What snapshots leave out.
    pub snapshot: SnapshotSection,
    /// Allows backends defined at run time; without it there are none.
    pub definitions: Option<DefinitionsSection>,
}

/// `[backends.NAME]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BackendSection {
    /// Its URL.
    #[serde(deserialize_with = "url")]
    pub url: BackendUrl,
    /// The embedder for its entries, by name.
    pub embedder: Option<String>,
    /// Options of its scopes' SQL databases, like `sql.NAME=value` in its URL.
    #[serde(default)]
    pub sql: BTreeMap<String, SqlOption>,
    /// The backend to use while this one cannot be reached, by name.
    pub fallback: Option<String>,
    /// What to do with writes meanwhile. Default: refuse them.
    pub fallback_writes: Option<FallbackWrites>,
    /// The file in which they are queued; relative to the folder of `memory.toml`. Default: `NAME.fallback.db` in it.
    pub fallback_journal: Option<PathBuf>,
    /// How long to wait before trying an unreachable backend again, in milliseconds. Default 1,000.
    pub fallback_rest_ms: Option<u32>,
}

/// What to do with writes while a backend cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FallbackWrites {
    /// Refuse them.
    #[default]
    Refuse,
    /// The fallback stores them, and they are replayed to this backend when it is back.
    Journal,
}

/// One option under `[backends.NAME.sql]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged, expecting = "a whole number, true or false, a string, or under `shared` files by name")]
#[non_exhaustive]
pub enum SqlOption {
    /// A switch.
    Switch(bool),
    /// A number of bytes, milliseconds, or other units.
    Number(u64),
    /// A string, such as a path.
    Text(String),
    /// Files by name: `shared`.
    Files(BTreeMap<String, String>),
}

impl BackendSection {
    /// A backend with this URL.
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

/// A URL with the options of `sql`.
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

/// `[default]`: identity and rules of agents unless they have their own.
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
    /// What may be done with shared state: `read`, `note`, `authority` or `forget`.
    pub shared_state: Option<SharedAccess>,
    /// The shared space of the tenant.
    pub shared_space: Option<ScopeId>,
    /// What may be done with the agent's graph: `read`, `add` or `supersede`.
    pub graph: Option<GraphAccess>,
    /// The tools that the model is offered: `memory`, `files` or both. Default: `memory`.
    pub tools: Option<BTreeSet<OfferedTool>>,
    /// Quota of each scope.
    pub quota: Option<Quota>,
    /// Quota of each scope's database, in bytes.
    pub sql_max_bytes: Option<u64>,
    /// The drift policy of writes: `off`, `row` or `strict`.
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
    /// What it may do with shared state: `read`, `note`, `authority` or `forget`.
    pub shared_state: Option<SharedAccess>,
    /// The shared space of the tenant.
    pub shared_space: Option<ScopeId>,
    /// What may be done with the agent's graph: `read`, `add` or `supersede`.
    pub graph: Option<GraphAccess>,
    /// The tools that the model is offered: `memory`, `files` or both. Default: `memory`.
    pub tools: Option<BTreeSet<OfferedTool>>,
    /// Quota of each of its scopes.
    pub quota: Option<Quota>,
    /// Quota of the database of each of its scopes, in bytes.
    pub sql_max_bytes: Option<u64>,
    /// The drift policy of its writes: `off`, `row` or `strict`.
    pub drift: Option<DriftPolicy>,
    /// Most rows of one answer.
    pub max_rows: Option<usize>,
    /// Most bytes of one answer.
    pub max_answer_bytes: Option<usize>,
}

/// `[limits]`: upper limits for every agent's section.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LimitsSection {
    /// Highest quota of any scope.
    pub quota: Quota,
    /// Highest quota of any scope's database, in bytes.
    pub sql_max_bytes: Option<u64>,
    /// The least strict drift policy allowed: `off`, `row` or `strict`.
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
    /// Worker processes for SQL: 1 to 64; 0: the serving process itself.
    pub workers: usize,
    /// Address space of each worker process, in bytes: at least 256 MiB.
    pub worker_memory_bytes: Option<u64>,
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BackendUrl, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
