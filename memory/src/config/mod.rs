//! `memory.toml`: named backends, agents and the operator's rules. `docs/configuration.md` describes every field.

mod audit;
mod check;
mod definitions;
mod discover;
mod embedders;
mod error;
mod fallback;
mod files;
mod models;
pub(crate) mod sections;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, Result, RunContext, ScopeId, ScopeKind, TenantId};

#[cfg(feature = "sqlite")]
pub(crate) use error::without_values;
#[cfg(feature = "sqlite")]
pub(crate) use files::real;

pub use discover::{CONFIG_VARIABLE, Discovery, FILE_NAME};
pub use sections::audit::AuditSection;
pub use sections::definitions::DefinitionsSection;
pub use sections::embedders::{EgressSection, EmbedderSection, StaticSection};
pub use sections::file::{
    AgentSection, BackendSection, ConfigFile, DefaultSection, FallbackWrites, LimitsSection, SqlOption,
    SqlSection,
};
pub use sections::gc::GcSection;
pub use sections::http::{HttpSection, JwtSection};
pub use sections::models::{
    Bm25Section, ChatSection, ExtractSection, GovernedSection, InterpreterKind, ModelsSection, RecallSection,
};
pub use sections::snapshot::SnapshotSection;

use sections::file::with_sql;
use sections::rules::Rules;

use crate::memory::Memory;
use crate::policy::{GraphAccess, Policy, SharedAccess};
use crate::registry::Registry;
use crate::url::BackendUrl;

/// Longest `memory.toml`, in bytes.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;

/// A checked `memory.toml`.
#[derive(Clone, Debug)]
pub struct Config {
    origin: PathBuf,
    file: ConfigFile,
}

/// The configuration of one agent: its backend and its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentBinding {
    /// The name under `[backends]`.
    pub backend: String,
    /// The agent's rules, within `[limits]`.
    pub policy: Policy,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// `not_found`, `forbidden` or `unavailable` if it cannot be read, `too_large` over 1 MiB; otherwise those of
    /// [`Config::parse`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let shown = path.display();
        let failed = |error: std::io::Error| {
            let (kind, advice) = match error.kind() {
                std::io::ErrorKind::NotFound => (ErrorKind::NotFound, "create it or name another"),
                std::io::ErrorKind::PermissionDenied => (ErrorKind::Forbidden, "make it readable"),
                _ => (ErrorKind::Unavailable, "see the cause"),
            };
            Error::new(kind, format!("the configuration {shown} cannot be read: {error}; {advice}"))
                .with_retry(memory_core::Retry::Never)
                .with_source(error)
        };
        let file = std::fs::File::open(path).map_err(failed)?;
        let limit = u64::try_from(MAX_CONFIG_BYTES).unwrap_or(u64::MAX);
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MAX_CONFIG_BYTES {
            return Err(Error::too_large("configuration", bytes.len(), MAX_CONFIG_BYTES, "bytes"));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            Error::invalid(format!("the configuration {shown} is not UTF-8; save it as UTF-8"))
        })?;
        Self::parse(&text, path)
    }

    /// Parses and checks the text of a file. Errors name `origin`, and relative paths in URLs are relative to its
    /// folder.
    ///
    /// # Errors
    /// `invalid_argument`, naming file, line and the allowed values. Values are never quoted.
    pub fn parse(text: &str, origin: impl Into<PathBuf>) -> Result<Self> {
        let origin = origin.into();
        if text.len() > MAX_CONFIG_BYTES {
            return Err(Error::too_large("configuration", text.len(), MAX_CONFIG_BYTES, "bytes"));
        }
        let mut file: ConfigFile =
            toml::from_str(text).map_err(|error| error::explain(&error, text, &origin))?;
        for section in file.backends.values_mut() {
            section.url = with_sql(&section.url, &section.sql);
        }
        let config = Self { origin, file };
        config.check().map_err(|error| error::in_file(error, &config.origin))?;
        Ok(config)
    }

    /// Reads the first file found by [`Discovery`]; `None` if there is none.
    ///
    /// # Errors
    /// `not_found` if a file named explicitly or by `MEMORY_CONFIG` does not exist; otherwise those of
    /// [`Config::load`].
    pub fn discover(explicit: Option<&Path>) -> Result<Option<Self>> {
        Discovery::from_environment(explicit).find()?.map(Self::load).transpose()
    }

    /// The file it was read from.
    #[must_use]
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// The contents; `Debug` redacts the URLs.
    #[must_use]
    pub fn file(&self) -> &ConfigFile {
        &self.file
    }

    /// The file of tokens for `memory serve --http`.
    #[must_use]
    pub fn tokens_file(&self) -> PathBuf {
        let folder = self.origin.parent().unwrap_or_else(|| Path::new(""));
        folder.join(self.file.http.tokens.as_deref().unwrap_or_else(|| Path::new("memory.tokens.jsonl")))
    }

    /// Names of the backends, in order.
    pub fn backends(&self) -> impl Iterator<Item = &str> {
        self.file.backends.keys().map(String::as_str)
    }

    /// The URL of a backend.
    ///
    /// # Errors
    /// `not_found`, listing the names.
    pub fn backend_url(&self, name: &str) -> Result<&BackendUrl> {
        self.file.backends.get(name).map(|section| &section.url).ok_or_else(|| {
            let names: Vec<&str> = self.backends().collect();
            let list = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::not_found(format!(
                "{} has no backend with that name; there are: {list}",
                self.origin.display()
            ))
            .with_detail("backends", names)
        })
    }

    /// Opens a backend by name with the default [`Registry`].
    ///
    /// # Errors
    /// As [`Config::backend_url`] and [`Registry::open`].
    pub async fn open_backend(&self, name: &str) -> Result<Memory> {
        self.open_backend_with(&Registry::default(), name).await
    }

    /// Opens a backend by name with another registry. Relative paths are relative to the configuration file. The
    /// registry's embedder takes precedence over the one in the file. If the backend has a `fallback`, both are opened,
    /// and the fallback answers while the backend cannot be reached, even at opening.
    ///
    /// # Errors
    /// Those of [`Config::backend_url`], [`Config::open_embedder`] and [`Registry::open`]; `conflict` if a journal
    /// holds writes for a backend that no longer uses it.
    pub async fn open_backend_with(&self, registry: &Registry, name: &str) -> Result<Memory> {
        self.open_paired(registry, name).await
    }

    /// Opens a backend by name, without its fallback. If it is not a file and serves drift checks, its drift backups go
    /// to the folder `NAME.drift` beside the configuration file.
    ///
    /// # Errors
    /// Those of [`Config::backend_url`], [`Config::open_embedder`] and [`Registry::open`].
    pub async fn open_alone(&self, registry: &Registry, name: &str) -> Result<Memory> {
        let (registry, url) = (self.registry_for(registry, name)?, self.backend_url(name)?);
        let memory = registry.open_from(url, self.base_dir()).await?;
        Ok(match self.drift_folder(name) {
            Some(folder) if !memory.capabilities().drift.is_empty() => memory.with_drift_backups(folder),
            _ => memory,
        })
    }

    /// The folder beside the configuration file for drift backups of a backend that is not a file, unless the program
    /// names another. `None` if the backend is a file or its name cannot be part of a file name.
    #[must_use]
    pub fn drift_folder(&self, backend: &str) -> Option<PathBuf> {
        let url = self.backend_url(backend).ok()?;
        let folder = self.origin.parent().unwrap_or_else(|| Path::new(""));
        let named = url.scheme() != "sqlite" && is_file_name(backend);
        named.then(|| folder.join(format!("{backend}.drift")))
    }

    /// The registry with the backend's embedder, the hosts listed in `[egress]`, and `bm25` of `[recall]` unless the
    /// registry has its own.
    fn registry_for(&self, registry: &Registry, name: &str) -> Result<Registry> {
        let registry = registry.clone().with_allowed_hosts(&self.file.egress.allow);
        #[cfg(feature = "recall")]
        let registry = match self.file.recall.bm25 {
            Some(bm25) if registry.context().weights.bm25().is_none() => {
                let bm25 = memory_recall::rank::Bm25::new(bm25.k1, bm25.b)?;
                let weights = registry.context().weights.clone().with_bm25(bm25);
                registry.with_weights(weights)
            }
            _ => registry,
        };
        let registry = &registry;
        Ok(match self.embedder_of(name)? {
            Some(embedder) if registry.context().embedder.is_none() => {
                registry.clone().with_embedder(self.open_embedder(registry, embedder)?)
            }
            _ => registry.clone(),
        })
    }

    /// The base of relative paths; `None`: the working directory.
    #[must_use]
    pub fn base_dir(&self) -> Option<PathBuf> {
        self.origin.parent().filter(|dir| !dir.as_os_str().is_empty()).map(Path::to_path_buf)
    }

    /// The same configuration with one more backend.
    #[cfg(feature = "sqlite")]
    fn insert_backend(&mut self, name: &str, section: BackendSection) -> Result<()> {
        self.file.backends.insert(name.to_owned(), section);
        self.check()
    }

    /// The backend of `[default]`, or the only one.
    #[must_use]
    pub fn default_backend(&self) -> Option<&str> {
        match &self.file.default.backend {
            Some(name) => Some(name),
            None => {
                let mut names = self.backends();
                names.next().filter(|_| names.next().is_none())
            }
        }
    }

    /// The binding of an agent: its own section, completed by `[default]`, within `[limits]`. Without a section it gets
    /// `[default]`.
    ///
    /// # Errors
    /// `invalid_argument` if neither names a backend and there is more than one.
    pub fn agent(&self, agent: &str) -> Result<AgentBinding> {
        let section = self.file.agents.get(agent);
        let backend = section
            .and_then(|section| section.backend.as_deref())
            .or_else(|| self.default_backend())
            .ok_or_else(|| {
                error::in_file(
                    Error::invalid("no backend is named for this agent; set `backend` under [default]"),
                    &self.origin,
                )
            })?;
        Ok(AgentBinding { backend: backend.to_owned(), policy: self.policy(agent) })
    }

    /// Only the rules of an agent, for a backend chosen elsewhere.
    #[must_use]
    pub fn policy(&self, agent: &str) -> Policy {
        let own = self.file.agents.get(agent).map(AgentSection::rules).unwrap_or_default();
        let rules = own.over(&self.file.default.rules());
        let limits = &self.file.limits;
        let ceiling = Policy {
            memory_scopes: ScopeKind::ALL.into(),
            sql_scopes: if self.file.sql.enabled { ScopeKind::ALL.into() } else { BTreeSet::new() },
            shared_state: Some(SharedAccess::Forget),
            shared_space: rules.shared_space.clone(),
            graph: Some(GraphAccess::Supersede),
            tools: None,
            quota: limits.quota,
            sql_max_bytes: limits.sql_max_bytes,
            drift: limits.drift,
            max_rows: limits.max_rows,
            max_answer_bytes: limits.max_answer_bytes,
            max_input_bytes: limits.max_input_bytes,
        };
        rules.policy(&ceiling).narrow(&ceiling)
    }

    /// The identity in `[default]`, for a process that serves one agent; `run` comes from the caller.
    ///
    /// # Errors
    /// `invalid_argument` if tenant or agent is missing.
    pub fn identity(&self, run: ScopeId) -> Result<RunContext> {
        let default = &self.file.default;
        let missing = |what: &str| {
            error::in_file(Error::invalid(format!("`{what}` is missing under [default]")), &self.origin)
        };
        let tenant: TenantId = default.tenant.clone().ok_or_else(|| missing("tenant"))?;
        let agent = default.agent.clone().ok_or_else(|| missing("agent"))?;
        let context = RunContext::new(tenant, agent, run);
        Ok(match &default.user {
            Some(user) => context.with_user(user.clone()),
            None => context,
        })
    }

    /// Warnings about allowed settings that look unintended, to show at startup.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let sections = || {
            std::iter::once(("[default]".to_owned(), self.file.default.rules())).chain(
                self.file.agents.iter().map(|(name, agent)| (format!("[agents.{name}]"), agent.rules())),
            )
        };
        let asks_for_sql = |rules: &Rules| rules.sql_scopes.as_ref().is_some_and(|kinds| !kinds.is_empty());
        if self.file.sql.enabled && !sections().any(|(_, rules)| asks_for_sql(&rules)) {
            warnings.push("SQL is enabled, but no `sql_scopes` allow it to anyone".to_owned());
        }
        for (name, rules) in sections() {
            if !self.file.sql.enabled && asks_for_sql(&rules) {
                warnings.push(format!(
                    "{name} has `sql_scopes`, but SQL is off; set `enabled = true` under [sql]"
                ));
            }
        }
        for name in self.embedders() {
            let used = |section: &BackendSection| section.embedder.as_deref() == Some(name);
            if !self.file.backends.values().any(used) {
                warnings.push(format!(
                    "no backend uses [embedders.{name}]; set `embedder` under [backends.NAME], otherwise search uses words only"
                ));
            }
        }
        let sql_is_allowed = self.file.sql.enabled && sections().any(|(_, rules)| asks_for_sql(&rules));
        let memory_is_allowed =
            sections().any(|(_, rules)| rules.memory_scopes.is_some_and(|kinds| !kinds.is_empty()));
        let shares = sections().any(|(_, rules)| rules.shared_state.is_some());
        if shares && !cfg!(feature = "governed") {
            warnings.push(
                "`shared_state` is set, but this build has no shared state; build with the cargo feature `governed`"
                    .to_owned(),
            );
        }
        let has_graph = sections().any(|(_, rules)| rules.graph.is_some());
        if has_graph && !cfg!(feature = "hierarchical") {
            warnings.push(
                "`graph` is set, but this build has no graphs; build with the cargo feature `hierarchical`"
                    .to_owned(),
            );
        }
        if !memory_is_allowed && !sql_is_allowed && !shares && !has_graph {
            warnings.push("no `memory_scopes` anywhere: every agent is denied everything".to_owned());
        }
        warnings
    }

    fn check(&self) -> Result<()> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }
}

/// Whether a backend's name may be part of a file name.
fn is_file_name(name: &str) -> bool {
    name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}
