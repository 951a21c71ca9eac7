//! The shape of `memory.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use memory_core::sql::DEFAULT_MAX_ROWS;
use memory_core::{DriftPolicy, Error, Quota, Result, ScopeId, ScopeKind, TenantId};
use serde::{Deserialize, Deserializer, Serialize};

use super::audit::AuditSection;
use super::complete;
use super::definitions::DefinitionsSection;
use super::embedders::{EgressSection, EmbedderSection};
use super::gc::GcSection;
use crate::policy::{
    DEFAULT_MAX_ANSWER_BYTES, DEFAULT_MAX_ANSWER_ROWS, DEFAULT_MAX_INPUT_BYTES, MAX_ANSWER_BYTES,
    MAX_INPUT_BYTES, MIN_ANSWER_BYTES, Policy, tighter,
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
    /// Which scopes are let go.
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
    /// What becomes of writes meanwhile. Default: they are refused.
    pub fallback_writes: Option<FallbackWrites>,
    /// The file in which they wait; relative to the folder of `memory.toml`. Default: `NAME.fallback.db` in it.
    pub fallback_journal: Option<PathBuf>,
    /// How long this backend is left alone after it could not be reached, in milliseconds. Default 1,000.
    pub fallback_rest_ms: Option<u32>,
}

/// What becomes of writes while a backend cannot be reached.
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

/// The rules that both `[default]` and `[agents.NAME]` can state.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    pub(super) memory_scopes: Option<BTreeSet<ScopeKind>>,
    pub(super) sql_scopes: Option<BTreeSet<ScopeKind>>,
    quota: Option<Quota>,
    sql_max_bytes: Option<u64>,
    drift: Option<DriftPolicy>,
    max_rows: Option<usize>,
    max_answer_bytes: Option<usize>,
}

macro_rules! rules_of {
    ($section:ty) => {
        impl $section {
            pub(super) fn rules(&self) -> Rules {
                Rules {
                    memory_scopes: self.memory_scopes.clone(),
                    sql_scopes: self.sql_scopes.clone(),
                    quota: self.quota,
                    sql_max_bytes: self.sql_max_bytes,
                    drift: self.drift,
                    max_rows: self.max_rows,
                    max_answer_bytes: self.max_answer_bytes,
                }
            }
        }
    };
}

rules_of!(DefaultSection);
rules_of!(AgentSection);

impl Rules {
    /// These rules, completed by `other`.
    pub(super) fn over(self, other: &Self) -> Self {
        Self {
            memory_scopes: self.memory_scopes.or_else(|| other.memory_scopes.clone()),
            sql_scopes: self.sql_scopes.or_else(|| other.sql_scopes.clone()),
            quota: complete(self.quota, other.quota),
            sql_max_bytes: self.sql_max_bytes.or(other.sql_max_bytes),
            drift: self.drift.or(other.drift),
            max_rows: self.max_rows.or(other.max_rows),
            max_answer_bytes: self.max_answer_bytes.or(other.max_answer_bytes),
        }
    }

    /// Default-deny where nothing is said; sizes as the ceiling has them.
    pub(super) fn policy(self, ceiling: &Policy) -> Policy {
        Policy {
            memory_scopes: self.memory_scopes.unwrap_or_default(),
            sql_scopes: self.sql_scopes.unwrap_or_default(),
            quota: self.quota.unwrap_or_default(),
            sql_max_bytes: self.sql_max_bytes,
            drift: self.drift,
            max_rows: self.max_rows.unwrap_or(ceiling.max_rows),
            max_answer_bytes: self.max_answer_bytes.unwrap_or(ceiling.max_answer_bytes),
            max_input_bytes: ceiling.max_input_bytes,
        }
    }

    /// Refuses what is out of range or would be cut by `[limits]` without a word.
    pub(super) fn check(&self, place: &str, limits: &LimitsSection) -> Result<()> {
        check_range(place, "max_rows", self.max_rows, 1, DEFAULT_MAX_ROWS)?;
        check_range(place, "max_answer_bytes", self.max_answer_bytes, MIN_ANSWER_BYTES, MAX_ANSWER_BYTES)?;
        if let (Some(own), Some(least)) = (self.drift, limits.drift)
            && own < least
        {
            return Err(Error::invalid(format!(
                "`drift` under {place} is `{own}`, looser than the `{least}` under [limits]; make it as strict, or loosen that"
            )));
        }
        let quota = self.quota.unwrap_or_default();
        for (name, own, limit) in [
            ("max_rows", wide(self.max_rows), wide(Some(limits.max_rows))),
            ("max_answer_bytes", wide(self.max_answer_bytes), wide(Some(limits.max_answer_bytes))),
            ("sql_max_bytes", self.sql_max_bytes, limits.sql_max_bytes),
            ("quota.max_entries", quota.max_entries, limits.quota.max_entries),
            ("quota.max_bytes", quota.max_bytes, limits.quota.max_bytes),
        ] {
            if let Some(own) = own
                && tighter(Some(own), limit) != Some(own)
            {
                return Err(Error::invalid(format!(
                    "`{name}` under {place} is over the one under [limits]; lower it or raise the limit"
                )));
            }
        }
        Ok(())
    }
}

impl LimitsSection {
    pub(super) fn check(&self) -> Result<()> {
        check_range("[limits]", "max_rows", Some(self.max_rows), 1, DEFAULT_MAX_ROWS)?;
        let bytes = Some(self.max_answer_bytes);
        check_range("[limits]", "max_answer_bytes", bytes, MIN_ANSWER_BYTES, MAX_ANSWER_BYTES)?;
        let bytes = Some(self.max_input_bytes);
        check_range("[limits]", "max_input_bytes", bytes, MIN_ANSWER_BYTES, MAX_INPUT_BYTES)
    }
}

fn wide(limit: Option<usize>) -> Option<u64> {
    limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX))
}

fn check_range(place: &str, name: &str, value: Option<usize>, low: usize, high: usize) -> Result<()> {
    match value {
        Some(value) if !(low..=high).contains(&value) => {
            Err(Error::invalid(format!("`{name}` under {place} is {value}; it must be {low} to {high}")))
        }
        _ => Ok(()),
    }
}
