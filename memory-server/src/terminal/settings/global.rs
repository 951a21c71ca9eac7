//! The options that every command takes.

use std::path::PathBuf;

use clap::Args;
use memory::embedders::BUNDLED;
use memory::{Config, Registry};
use memory_core::{Error, Result};

/// Headings in the help, so that a command's own options stay together and come first.
const STORE: &str = "Store";
const SCOPE: &str = "Scope";

/// Options that every command takes.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// The store, as `sqlite:PATH`, `postgres://…`, `memory+https://HOST` or another [default: memory.toml's, else a file in
    /// the data folder]
    #[arg(long, global = true, value_name = "URL", env = "MEMORY_URL", hide_env_values = true, help_heading = STORE)]
    pub(crate) url: Option<String>,
    /// The store, by its name under [backends] in memory.toml
    #[arg(long, global = true, value_name = "NAME", env = "MEMORY_BACKEND", help_heading = STORE)]
    pub(crate) backend: Option<String>,
    /// Allow a service at this host although its address is private or it has no https, as localhost:8888; may be
    /// repeated
    #[arg(
        long = "allow-host",
        global = true,
        value_name = "HOST:PORT",
        env = "MEMORY_ALLOW_HOST",
        value_delimiter = ',',
        help_heading = STORE
    )]
    pub(crate) allow_hosts: Vec<String>,
    /// The configuration [default: MEMORY_CONFIG, ./memory.toml, ~/.config/memory/memory.toml]
    #[arg(long, global = true, value_name = "FILE", help_heading = STORE)]
    pub(crate) config: Option<PathBuf>,
    /// What gives entries vectors: `bundled`, the model that comes with the program; a name under [embedders] of memory.toml; or
    /// `static:FOLDER` with a local model [default: the one that memory.toml names for the store, else none]
    #[arg(long, global = true, value_name = "bundled|NAME|static:FOLDER", env = "MEMORY_EMBEDDER", help_heading = STORE)]
    pub(crate) embedder: Option<String>,
    /// The tenant [default: memory.toml's, else `default`; of gc, snapshot, restore and migrate: every tenant]
    #[arg(long, global = true, value_name = "ID", env = "MEMORY_TENANT", help_heading = SCOPE)]
    pub(crate) tenant: Option<String>,
    /// Use the memory of this agent
    #[arg(long, global = true, value_name = "ID", group = "which_scope", help_heading = SCOPE)]
    pub(crate) agent: Option<String>,
    /// Use the memory of this user [default: memory.toml's, else `default`]
    #[arg(long, global = true, value_name = "ID", group = "which_scope", help_heading = SCOPE)]
    pub(crate) user: Option<String>,
    /// Use the memory of this run
    #[arg(long, global = true, value_name = "ID", group = "which_scope", help_heading = SCOPE)]
    pub(crate) run: Option<String>,
    /// The scope as one option: `agent:ID`, `user:ID` or `run:ID`
    #[arg(long, global = true, value_name = "KIND:ID", group = "which_scope", help_heading = SCOPE)]
    pub(crate) scope: Option<String>,
    /// Print JSON: one document, or one a line for a stream
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

impl Global {
    /// These options, overridden by those on a shell line.
    pub(crate) fn with(&self, line: Self) -> Self {
        let names_store = line.url.is_some() || line.backend.is_some();
        let (store, scope) =
            (if names_store { &line } else { self }, if line.names_scope() { &line } else { self });
        Self {
            url: store.url.clone(),
            backend: store.backend.clone(),
            agent: scope.agent.clone(),
            user: scope.user.clone(),
            run: scope.run.clone(),
            scope: scope.scope.clone(),
            allow_hosts: if line.allow_hosts.is_empty() {
                self.allow_hosts.clone()
            } else {
                line.allow_hosts.clone()
            },
            config: line.config.clone().or_else(|| self.config.clone()),
            embedder: line.embedder.clone().or_else(|| self.embedder.clone()),
            tenant: line.tenant.clone().or_else(|| self.tenant.clone()),
            json: self.json || line.json,
            quiet: self.quiet || line.quiet,
        }
    }

    /// Whether a scope is named.
    pub(crate) fn names_scope(&self) -> bool {
        [&self.agent, &self.user, &self.run, &self.scope].iter().any(|named| named.is_some())
    }
}

/// The value, unless it is empty: an empty variable counts as unset.
pub(super) fn named(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

impl Global {
    pub(super) fn embedder(&self) -> Option<&str> {
        named(self.embedder.as_deref())
    }
}

/// Opens backends at the listed hosts, without an embedder.
pub(super) fn reaching(global: &Global) -> Registry {
    let listed = global.allow_hosts.iter().filter(|host| !host.is_empty());
    Registry::default().with_allowed_hosts(listed)
}

/// Opens backends at the listed hosts, with the named embedder: `bundled`, `static:FOLDER`, or a name under
/// `[embedders]` of the configuration, which is read only in that case.
pub(crate) fn registry(global: &Global, config: impl FnOnce() -> Result<Option<Config>>) -> Result<Registry> {
    let registry = reaching(global);
    let Some(chosen) = global.embedder() else { return Ok(registry) };
    let embedder = match chosen.strip_prefix("static:") {
        Some(folder) => memory::embedders::open_static(folder)?,
        None if chosen == BUNDLED => memory::embedders::open_bundled()?,
        None => config()?
            .ok_or_else(|| {
                Error::invalid(
                    "there is no memory.toml to define that embedder; give --embedder bundled or static:FOLDER, or write [embedders.NAME] (docs/embedders.md)",
                )
            })?
            .open_embedder(&registry, chosen)?,
    };
    Ok(registry.with_embedder(embedder))
}
