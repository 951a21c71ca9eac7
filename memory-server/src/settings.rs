//! Which store, tenant and scope a command works on, and where each of them was said.

use std::path::{Path, PathBuf};

use clap::Args;
use memory::forget::Places;
use memory::snapshot::{FileOptions, Ledger};
use memory::{BackendUrl, Config, Memory, Registry};
use memory_core::{Error, ErrorKind, Result, Retry, Scope, ScopeId, ScopeKind, TenantId};
use serde::Serialize;

use crate::progress::note;

/// The scope where nothing names one.
const DEFAULT_ID: &str = "default";

/// Options that every command takes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// The store, as `sqlite:PATH` or `sqlite::memory:` [default: memory.toml's, else a file in the data folder]
    #[arg(long, global = true, value_name = "URL", env = "MEMORY_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The store, by its name under [backends] of memory.toml
    #[arg(long, global = true, value_name = "NAME", env = "MEMORY_BACKEND")]
    pub(crate) backend: Option<String>,
    /// Let a store's service be at this host although it has a private address or no https, as localhost:8888; may be
    /// given again
    #[arg(
        long = "allow-host",
        global = true,
        value_name = "HOST:PORT",
        env = "MEMORY_ALLOW_HOST",
        value_delimiter = ','
    )]
    pub(crate) allow_hosts: Vec<String>,
    /// The configuration [default: MEMORY_CONFIG, ./memory.toml, ~/.config/memory/memory.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What gives entries vectors: a name under [embedders] of memory.toml, or `static:FOLDER` with a local
    /// model [default: the one that memory.toml names for the store, else none]
    #[arg(long, global = true, value_name = "NAME|static:FOLDER", env = "MEMORY_EMBEDDER")]
    pub(crate) embedder: Option<String>,
    /// The tenant [default: memory.toml's, else `default`; of gc, snapshot, restore and migrate: every tenant]
    #[arg(long, global = true, value_name = "ID", env = "MEMORY_TENANT")]
    pub(crate) tenant: Option<String>,
    /// Work on the memory of this agent
    #[arg(long, global = true, value_name = "ID", group = "which_scope")]
    pub(crate) agent: Option<String>,
    /// Work on the memory of this user [default: memory.toml's, else `default`]
    #[arg(long, global = true, value_name = "ID", group = "which_scope")]
    pub(crate) user: Option<String>,
    /// Work on the memory of this run
    #[arg(long, global = true, value_name = "ID", group = "which_scope")]
    pub(crate) run: Option<String>,
    /// The scope in one word: `agent:ID`, `user:ID` or `run:ID`
    #[arg(long, global = true, value_name = "KIND:ID", group = "which_scope")]
    pub(crate) scope: Option<String>,
    /// Print JSON: one document, or one a line for a stream
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

impl Global {
    /// Whether a scope is named.
    pub(crate) fn names_scope(&self) -> bool {
        [&self.agent, &self.user, &self.run, &self.scope].iter().any(|named| named.is_some())
    }
}

/// Where a setting came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// An option or an environment variable.
    CommandLine,
    /// `memory.toml`.
    Configuration,
    /// Nothing said otherwise.
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

/// Where the store is.
enum Store {
    Url(String),
    /// A name under `[backends]`; its relative paths are relative to the file.
    Named(String),
    /// A file in the user's data folder.
    DataFile(PathBuf),
}

/// What the options, the environment and `memory.toml` come to.
pub(crate) struct Settings {
    pub(crate) config: Option<Config>,
    store: Store,
    pub(crate) store_origin: Origin,
    global: Global,
    pub(crate) tenant: TenantId,
    pub(crate) tenant_origin: Origin,
    pub(crate) scope: Scope,
    pub(crate) scope_origin: Origin,
}

impl Settings {
    /// Reads the configuration and decides; opens nothing.
    ///
    /// # Errors
    /// As of `memory.toml`; `invalid_argument` for a malformed id or scope, or where no store is named
    /// and there is no data folder.
    pub(crate) fn resolve(global: &Global) -> Result<Self> {
        let config = Config::discover(global.config.as_deref())?;
        let default = config.as_ref().map(|config| &config.file().default);
        let (store, store_origin) = store(global, config.as_ref())?;
        let (tenant, tenant_origin) =
            match (&global.tenant, default.and_then(|section| section.tenant.clone())) {
                (Some(tenant), _) => (TenantId::new(tenant.as_str())?, Origin::CommandLine),
                (None, Some(tenant)) => (tenant, Origin::Configuration),
                (None, None) => (TenantId::new(DEFAULT_ID)?, Origin::Default),
            };
        let (scope, scope_origin) =
            match (named_scope(global, &tenant)?, default.and_then(|section| section.user.clone())) {
                (Some(scope), _) => (scope, Origin::CommandLine),
                (None, Some(user)) => {
                    (Scope::new(tenant.clone(), ScopeKind::User, user), Origin::Configuration)
                }
                (None, None) => {
                    (Scope::new(tenant.clone(), ScopeKind::User, ScopeId::new(DEFAULT_ID)?), Origin::Default)
                }
            };
        let global = global.clone();
        Ok(Self { config, store, store_origin, global, tenant, tenant_origin, scope, scope_origin })
    }

    /// Whether the command line names the scope.
    pub(crate) fn scope_is_chosen(&self) -> bool {
        self.scope_origin == Origin::CommandLine
    }

    /// Opens the store, and says so where something that was to be forgotten may still be in it.
    ///
    /// # Errors
    /// As the registry, the embedder and the backend fail.
    pub(crate) async fn open(&self) -> Result<Memory> {
        let memory = self.open_to_resume().await?;
        // A store that cannot be asked who it is may be answered for by its fallback all the same.
        if let Ok(Some(folder)) = self.intents(&memory).await
            && memory::forget::unfinished(&folder) > 0
        {
            note(
                "memory: a `memory forget` of this store was begun and has not ended, so what it names may still be read; \
                 unless it is running now, end it with `memory forget --resume` on the same store",
            );
        }
        Ok(memory)
    }

    /// Opens the store to end what was begun.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) async fn open_to_resume(&self) -> Result<Memory> {
        let memory = self.open_store().await?;
        let is_file = self.backend_url().is_ok_and(|(url, _)| url.scheme() == "sqlite");
        // Those of a file lie beside it.
        if is_file || memory.drift_backups().is_some() || memory.capabilities().drift.is_empty() {
            return Ok(memory);
        }
        Ok(match self.in_data_folder("drift", &memory).await? {
            Some(folder) => memory.with_drift_backups(folder),
            None => memory,
        })
    }

    /// Opens a store that is only read: a file that is not there is not made.
    ///
    /// # Errors
    /// `not_found` for such a file; as [`open`](Self::open).
    pub(crate) async fn open_existing(&self) -> Result<Memory> {
        match self.missing_file()? {
            None => self.open().await,
            Some(file) => Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "there is no store: {} is not there; check the URL, or write something to it first",
                    file.display()
                ),
            )
            .with_retry(Retry::Never)),
        }
    }

    /// Opens the store to see what would be done to it: for a file that is not there, an empty store in memory.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) async fn open_unmade(&self) -> Result<Memory> {
        match self.missing_file()? {
            None => self.open().await,
            Some(_) => self.registry()?.open("sqlite::memory:").await,
        }
    }

    /// The store's file, where it is one and not there.
    fn missing_file(&self) -> Result<Option<PathBuf>> {
        let Ok((url, base)) = self.backend_url() else { return Ok(None) };
        if url.scheme() != "sqlite" {
            return Ok(None);
        }
        let file = memory::sqlite::file(&url, base.as_deref())?;
        Ok(file.filter(|file| {
            file.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        }))
    }

    async fn open_store(&self) -> Result<Memory> {
        let registry = self.registry()?;
        match (&self.store, &self.config) {
            (Store::Named(name), Some(config)) => {
                config.open_backend_for(&registry, &self.tenant, name).await
            }
            (Store::Named(name), None) => Err(Error::internal(format!("no configuration holds `{name}`"))),
            (Store::Url(url), _) => registry.open(url).await,
            (Store::DataFile(file), _) => {
                if let Some(folder) = file.parent() {
                    create_private_folder(folder)?;
                }
                registry.open(&sqlite_url(file)?).await
            }
        }
    }

    /// What opens backends, with the embedder that the command line or the environment names, reaching what they and
    /// `memory.toml` list.
    ///
    /// # Errors
    /// As [`registry`].
    pub(crate) fn registry(&self) -> Result<Registry> {
        let registry = registry(&self.global, || Ok(self.config.clone()))?;
        let listed = self.config.iter().flat_map(|config| &config.file().egress.allow);
        Ok(registry.with_allowed_hosts(listed))
    }

    /// The embedder of the store, as it was named, and where; `None`: its entries get no vectors.
    ///
    /// # Errors
    /// `not_found` where the store is a name that `memory.toml` lacks.
    pub(crate) fn shown_embedder(&self) -> Result<Option<(String, Origin)>> {
        if let Some(chosen) = self.global.embedder() {
            return Ok(Some((chosen.to_owned(), Origin::CommandLine)));
        }
        Ok(match (&self.store, &self.config) {
            (Store::Named(name), Some(config)) if config.file().backends.contains_key(name) => {
                config.embedder_of(name)?.map(|name| (name.to_owned(), Origin::Configuration))
            }
            _ => None,
        })
    }

    /// The store's URL, and what its relative paths are relative to.
    ///
    /// # Errors
    /// As [`shown_url`](Self::shown_url).
    pub(crate) fn backend_url(&self) -> Result<(BackendUrl, Option<PathBuf>)> {
        match (&self.store, &self.config) {
            (Store::Url(url), _) => Ok((BackendUrl::parse(url)?, None)),
            (Store::Named(name), Some(config)) => {
                let base = config.origin().parent().filter(|folder| !folder.as_os_str().is_empty());
                Ok((config.backend_url(name)?.clone(), base.map(Path::to_path_buf)))
            }
            (Store::Named(name), None) => Err(Error::internal(format!("no configuration holds `{name}`"))),
            (Store::DataFile(file), _) => Ok((BackendUrl::parse(&sqlite_url(file)?)?, None)),
        }
    }

    /// Where the store's snapshots are noted: beside a database file, else in the data folder; `None`: nowhere.
    ///
    /// # Errors
    /// As [`shown_url`](Self::shown_url), and as the store says which one it is.
    pub(crate) async fn ledger(&self, memory: &Memory) -> Result<Option<Ledger>> {
        if let Some(beside) = self.beside_file()? {
            return Ok(beside.ledger);
        }
        let Some(file) = self.in_data_folder("snapshots", memory).await? else { return Ok(None) };
        if let Some(folder) = file.parent() {
            create_private_folder(folder)?;
        }
        Ok(Some(Ledger::at(file.with_extension("jsonl"))))
    }

    /// The same, without opening a store that is a file.
    ///
    /// # Errors
    /// As [`ledger`](Self::ledger) and [`open`](Self::open).
    pub(crate) async fn ledger_alone(&self) -> Result<Option<Ledger>> {
        match self.beside_file()? {
            Some(beside) => Ok(beside.ledger),
            None => self.ledger(&self.open().await?).await,
        }
    }

    /// What lies beside the store's file, nothing where that is in memory; `None`: the store is no file.
    fn beside_file(&self) -> Result<Option<Places>> {
        let Ok((url, base)) = self.backend_url() else { return Ok(None) };
        if url.scheme() != "sqlite" {
            return Ok(None);
        }
        let file = memory::sqlite::file(&url, base.as_deref())?;
        Ok(Some(file.map(|file| Places::beside(&file)).unwrap_or_default()))
    }

    /// How a command writes a file: over one that is there only where it is told to, and never over the store's own.
    ///
    /// # Errors
    /// As [`shown_url`](Self::shown_url).
    pub(crate) fn file_options(&self, overwrite: bool) -> Result<FileOptions> {
        let mut own = match self.backend_url() {
            Ok((url, base)) if url.scheme() == "sqlite" => memory::sqlite::own_files(&url, base.as_deref())?,
            _ => Vec::new(),
        };
        if let (Store::Named(name), Some(config)) = (&self.store, &self.config)
            && config.file().backends.contains_key(name)
        {
            own.extend(config.fallback_journal(name)?);
        }
        Ok(FileOptions::default().with_overwrite(overwrite).with_own(own))
    }

    /// The place in the data folder, which need not be there yet, for what belongs to a store that is no file; `None`:
    /// there is no data folder.
    ///
    /// # Errors
    /// As [`store_key`](Self::store_key).
    async fn in_data_folder(&self, kind: &str, memory: &Memory) -> Result<Option<PathBuf>> {
        let Some(folder) = data_folder() else { return Ok(None) };
        Ok(Some(folder.join("memory").join(kind).join(self.store_key(memory).await?)))
    }

    /// What a store that is no file is known by, however its URL is spelled: the id that its database was given when it was
    /// made. Where a store has none, by what its URL says of which store it is.
    ///
    /// # Errors
    /// As [`Backend::drift_state`](memory_core::Backend::drift_state).
    async fn store_key(&self, memory: &Memory) -> Result<String> {
        if let Some(backend) = memory.backend()
            && !memory.capabilities().drift.is_empty()
        {
            let database = backend.drift_state(&self.scope).await?.token.database;
            return Ok(format!("{database:032x}"));
        }
        let identity = match self.backend_url() {
            Ok((url, _)) => url.identity(),
            Err(_) => format!("{} {}", self.tenant, self.shown_url()?),
        };
        let named = memory_core::entry::value_sha256(&memory_core::Json::string(&identity));
        Ok(named.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Where it is noted what was begun to be forgotten; `None`: nowhere.
    async fn intents(&self, memory: &Memory) -> Result<Option<PathBuf>> {
        match self.beside_file()? {
            Some(beside) => Ok(beside.intents),
            None => {
                let file = self.in_data_folder("snapshots", memory).await?;
                Ok(file.map(|file| file.with_extension("forget")))
            }
        }
    }

    /// What lies beside the fallback of a pair: backups of drift, and the ledger of snapshots.
    async fn beside_fallback(
        &self,
        config: &Config,
        fallback: &str,
    ) -> Result<(Option<PathBuf>, Option<Ledger>)> {
        let url = config.backend_url(fallback)?;
        if url.scheme() == "sqlite" {
            let base = config.origin().parent().filter(|folder| !folder.as_os_str().is_empty());
            let places =
                memory::sqlite::file(url, base)?.map(|file| Places::beside(&file)).unwrap_or_default();
            return Ok((places.drift_backups, places.ledger));
        }
        // One that is away is named by the erasing itself.
        let opened = config.open_backend_for(&self.registry()?, &self.tenant, fallback).await;
        let Ok(memory) = opened else { return Ok((None, None)) };
        if memory.backend().is_none() || memory.capabilities().drift.is_empty() {
            return Ok((None, None));
        }
        let ledger = self.in_data_folder("snapshots", &memory).await?;
        let ledger = ledger.map(|file| Ledger::at(file.with_extension("jsonl")));
        Ok((self.in_data_folder("drift", &memory).await?, ledger))
    }

    /// Where copies of what the store holds lie, and who records what is forgotten.
    ///
    /// # Errors
    /// As [`ledger`](Self::ledger), and as the audit file cannot be opened.
    pub(crate) async fn places(&self, memory: &Memory) -> Result<Places> {
        let mut places = match self.beside_file()? {
            Some(beside) => beside,
            None => {
                let mut places = Places::default();
                places.ledger = self.ledger(memory).await?;
                places.intents = places.ledger.as_ref().map(|ledger| ledger.path().with_extension("forget"));
                places.drift_backups = memory.drift_backups().map(Path::to_path_buf);
                places
            }
        };
        let Some(config) = &self.config else { return Ok(places) };
        if let Store::Named(name) = &self.store
            && let Some(section) = config.file().backends.get(name)
        {
            places = places.with_journal(config.fallback_journal(name)?);
            if let Some(fallback) = &section.fallback {
                let (backups, ledger) = self.beside_fallback(config, fallback).await?;
                places = places.with_fallback(backups, ledger);
            }
        }
        if config.file().definitions.is_some() {
            places = places.with_definitions(Some(config.definitions_file()?));
        }
        let folder = config.origin().parent().map(Path::to_path_buf).unwrap_or_default();
        let audit = config.file().audit.file.as_ref().map(|file| folder.join(file));
        let auditor = config.auditor(std::sync::Arc::new(memory::system::SystemClock))?;
        Ok(places.with_audit_file(audit).with_auditor(auditor))
    }

    /// The store's URL without what it carries in secret.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed URL.
    pub(crate) fn shown_url(&self) -> Result<String> {
        match (&self.store, &self.config) {
            (Store::Url(url), _) => Ok(BackendUrl::parse(url)?.to_string()),
            (Store::Named(name), Some(config)) => match config.file().backends.get(name) {
                Some(section) => Ok(section.url.to_string()),
                None => Ok(format!("the definition {name}")),
            },
            (Store::Named(name), None) => Ok(name.clone()),
            (Store::DataFile(file), _) => Ok(format!("sqlite:{}", file.display())),
        }
    }
}

fn store(global: &Global, config: Option<&Config>) -> Result<(Store, Origin)> {
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
            "{} names several backends and no default; set `backend` under [default], or give --url",
            config.origin().display()
        )));
    }
    let folder = data_folder().ok_or_else(|| {
        Error::invalid(
            "there is no home folder to keep a database in; give --url, as in --url sqlite:memory.db",
        )
    })?;
    Ok((Store::DataFile(folder.join("memory").join("memory.db")), Origin::Default))
}

/// Whether an option was typed, not taken from the environment.
pub(crate) fn is_typed(option: &str) -> bool {
    std::env::args_os().any(|argument| {
        argument
            .to_str()
            .and_then(|argument| argument.strip_prefix(option))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })
}

/// What was named; an empty variable names nothing.
fn named(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

impl Global {
    /// The embedder that was named.
    fn embedder(&self) -> Option<&str> {
        named(self.embedder.as_deref())
    }
}

/// What opens backends, at hosts that were listed and with the embedder that was named: `static:FOLDER`, or a name
/// under `[embedders]` of the configuration, which is read only then.
///
/// # Errors
/// `invalid_argument` for a name without a `memory.toml`; as the configuration and the embedder fail.
pub(crate) fn registry(global: &Global, config: impl FnOnce() -> Result<Option<Config>>) -> Result<Registry> {
    let listed = global.allow_hosts.iter().filter(|host| !host.is_empty());
    let registry = Registry::default().with_allowed_hosts(listed);
    let Some(chosen) = global.embedder() else { return Ok(registry) };
    let embedder = match chosen.strip_prefix("static:") {
        Some(folder) => memory::embedders::open_static(folder)?,
        None => config()?
            .ok_or_else(|| {
                Error::invalid(
                    "there is no memory.toml that could name an embedder; give --embedder static:FOLDER, or write [embedders.NAME] (docs/embedders.md)",
                )
            })?
            .open_embedder(&registry, chosen)?,
    };
    Ok(registry.with_embedder(embedder))
}

/// `$XDG_DATA_HOME`, `~/.local/share` where unset (XDG Base Directory Specification: relative paths
/// are ignored).
fn data_folder() -> Option<PathBuf> {
    let path = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("XDG_DATA_HOME").or_else(|| path("HOME").map(|home| home.join(".local").join("share")))
}

/// A folder that only its owner may enter, its parents included where they are made.
pub(crate) fn create_private_folder(folder: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder).map_err(|error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the folder {} cannot be made: {error}; make it, or give --url", folder.display()),
        )
        .with_retry(Retry::Never)
        .with_source(error)
    })
}

/// The URL of a file, with what a URL reads otherwise percent-encoded.
///
/// # Errors
/// `invalid_argument` for a path that is not UTF-8.
pub(crate) fn sqlite_url(file: &Path) -> Result<String> {
    use std::fmt::Write as _;
    let text = file.to_str().ok_or_else(|| {
        Error::invalid("the path of the database is not UTF-8; name one that is, with --url")
    })?;
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

fn named_scope(global: &Global, tenant: &TenantId) -> Result<Option<Scope>> {
    for (kind, id) in
        [(ScopeKind::Agent, &global.agent), (ScopeKind::User, &global.user), (ScopeKind::Run, &global.run)]
    {
        if let Some(id) = id {
            return Ok(Some(Scope::new(tenant.clone(), kind, ScopeId::new(id.as_str())?)));
        }
    }
    global.scope.as_deref().map(|text| scope_of(text, tenant)).transpose()
}

/// `user:ada`.
///
/// # Errors
/// `invalid_argument` for another form or a malformed id.
pub(crate) fn scope_of(text: &str, tenant: &TenantId) -> Result<Scope> {
    let (kind, id) = text
        .split_once(':')
        .ok_or_else(|| Error::invalid("a scope is given as agent:ID, user:ID or run:ID"))?;
    Ok(Scope::new(tenant.clone(), kind.parse()?, ScopeId::new(id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_being_a_url() {
        let path = Path::new("/data/50% off?/#1\n.db");
        let url = sqlite_url(path).unwrap();
        assert_eq!(BackendUrl::parse(&url).unwrap().decoded_path().unwrap(), path.to_str().unwrap());
    }

    #[test]
    fn a_scope_is_a_kind_and_an_id() {
        let tenant = TenantId::new("t").unwrap();
        assert_eq!(scope_of("user:a:b", &tenant).unwrap(), Scope::user("t", "a:b").unwrap());
        for bad in ["user", "user:", "team:x", "user:*", ":x"] {
            assert!(scope_of(bad, &tenant).is_err(), "{bad}");
        }
    }
}
