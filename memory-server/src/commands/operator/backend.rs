//! `backend`: backends defined at run time, and tests of any backend.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use memory::definitions::{Definition, DefinitionRef, DefinitionStore, StoredDefinition};
use memory::system::SystemClock;
use memory::{Access, Capabilities, Config, Health, HealthStatus, Memory, Registry, RunContext};
use memory_core::layer::FactsQuery;
use memory_core::{Error, ListQuery, Result, Scope, ScopeId, TenantId};
use serde::Serialize;

use crate::terminal::{Context, Exit, Failure, Out, bytes, counted, word};

/// Time limit of `test` for one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most writes that `journal` lists.
const MAX_LISTED: usize = 1_000;

#[derive(Args, Debug)]
pub(crate) struct BackendArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Define a backend for the tenant: the first version of a name
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        content: ContentArgs,
    },
    /// Create a new version of a definition, or a definition with a new name, from another one
    Fork {
        /// The definition to copy: NAME or NAME@VERSION
        from: String,
        /// The name of the new version [default: the same]
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        content: ContentArgs,
    },
    /// List the backends of memory.toml and the tenant's definitions
    List {
        /// Every version, not only the newest
        #[arg(long)]
        all: bool,
    },
    /// Show a definition, in use or not
    Show {
        /// NAME or NAME@VERSION
        which: String,
    },
    /// Retire a definition; its data stays
    Retire {
        /// NAME, with all its versions, or NAME@VERSION
        which: String,
        /// The definition that agents bound to it should use instead
        #[arg(long, value_name = "NAME")]
        successor: Option<String>,
    },
    /// Open a backend, check its health, read from it, and show its capabilities
    Test {
        /// A name under [backends], or a definition: NAME or NAME@VERSION
        which: String,
    },
    /// Show the writes that are queued for a backend while its fallback serves
    Journal {
        /// A name under [backends]
        name: String,
        /// Drop the writes that could not be replayed
        #[arg(long)]
        forget_set_aside: bool,
    },
}

/// The settings of a definition.
#[derive(Args, Debug)]
struct ContentArgs {
    /// Its URL; passwords and keys by reference only
    #[arg(value_name = "URL")]
    at: Option<String>,
    /// Its embedder, by its name in memory.toml
    #[arg(long, value_name = "NAME")]
    with_embedder: Option<String>,
    /// Its fallback, by its name in memory.toml
    #[arg(long, value_name = "NAME")]
    fallback: Option<String>,
}

impl ContentArgs {
    /// `definition` with these changes.
    fn over(&self, definition: &Definition) -> Definition {
        let mut changed = definition.clone();
        if let Some(url) = &self.at {
            changed.url.clone_from(url);
        }
        if self.with_embedder.is_some() {
            changed.embedder.clone_from(&self.with_embedder);
        }
        if self.fallback.is_some() {
            changed.fallback.clone_from(&self.fallback);
        }
        changed
    }
}

/// The configuration and the tenant.
struct Desk {
    config: Config,
    tenant: TenantId,
}

impl Desk {
    fn open(context: &Context) -> Result<Self> {
        let global = context.global();
        let config = Config::discover(global.config.as_deref())?.ok_or_else(|| {
            Error::not_found(
                "there is no memory.toml, which lists what definitions may reach; `memory config init` writes one",
            )
        })?;
        let tenant = match (&global.tenant, &config.file().default.tenant) {
            (Some(tenant), _) => TenantId::new(tenant.as_str())?,
            (None, Some(tenant)) => tenant.clone(),
            (None, None) => TenantId::new("default")?,
        };
        Ok(Self { config, tenant })
    }

    fn store(&self) -> Result<DefinitionStore> {
        self.config.definition_store(Arc::new(SystemClock))
    }

    /// The definitions, without creating their file.
    fn stored(&self) -> Result<DefinitionStore> {
        self.config.existing_definitions(Arc::new(SystemClock))
    }
}

pub(crate) async fn run(context: &Context, args: &BackendArgs, out: &mut Out) -> Result<Exit, Failure> {
    let desk = Desk::open(context)?;
    let (tenant, registry) = (&desk.tenant, Registry::default());
    match &args.action {
        Action::Create { name, content } => {
            let url = content.at.as_ref().ok_or_else(|| {
                Failure::invalid("a definition needs the backend's URL; give it after the name")
            })?;
            let definition = content.over(&Definition::new(url));
            desk.config.check_definition(&registry, name, &definition)?;
            show(&desk.store()?.create(tenant, name, &definition)?, out)
        }
        Action::Fork { from, name, content } => {
            let from = DefinitionRef::parse(from)?;
            let name = name.as_ref().unwrap_or(&from.name);
            let made = desk.stored()?.fork(tenant, &from, name, |parent| {
                let definition = content.over(parent);
                desk.config.check_definition(&registry, name, &definition)?;
                Ok(definition)
            })?;
            show(&made, out)
        }
        Action::List { all } => list(&desk, *all, out),
        Action::Show { which } => show(&desk.stored()?.show(tenant, &DefinitionRef::parse(which)?)?, out),
        Action::Retire { which, successor } => {
            let which = DefinitionRef::parse(which)?;
            if let Some(successor) = successor {
                check_successor(&desk, &which, successor)?;
            }
            show(&desk.stored()?.retire(tenant, &which, successor.as_deref())?, out)
        }
        Action::Test { which } => test(context, &desk, which, out).await,
        Action::Journal { name, forget_set_aside } => journal(&desk, name, *forget_set_aside, out),
    }
}

fn check_successor(desk: &Desk, which: &DefinitionRef, successor: &str) -> Result<()> {
    if desk.config.file().backends.contains_key(successor) {
        return Ok(());
    }
    let next = DefinitionRef::parse(successor)?;
    if next.name == which.name && (which.version.is_none() || next.version.is_none() || next == *which) {
        return Err(Error::invalid("a definition cannot be its own successor; name a different one"));
    }
    desk.stored()?.resolve(&desk.tenant, &next).map(drop)
}

fn show(stored: &StoredDefinition, out: &mut Out) -> Result<Exit, Failure> {
    if out.is_json() {
        out.document(stored)?;
        return Ok(Exit::Ok);
    }
    out.line(format!("{}@{} of {}", stored.name, stored.version, stored.tenant))?;
    out.line(format!("id        {}", stored.id))?;
    out.line(format!("url       {}", stored.definition.url))?;
    for (name, value) in [
        ("embedder ", &stored.definition.embedder),
        ("fallback ", &stored.definition.fallback),
        ("made from", &stored.parent),
    ] {
        if let Some(value) = value {
            out.line(format!("{name} {value}"))?;
        }
    }
    out.line(format!("made      {}", stored.created_at))?;
    if let Some(at) = stored.retired_at {
        let instead = match &stored.successor {
            Some(successor) => format!("; its successor is {successor}"),
            None => String::new(),
        };
        out.line(format!("retired   {at}{instead}"))?;
    }
    Ok(Exit::Ok)
}

#[derive(Serialize)]
struct Listed {
    tenant: TenantId,
    /// Backends of memory.toml by name, their URLs without secrets.
    configured: std::collections::BTreeMap<String, String>,
    defined: Vec<StoredDefinition>,
}

fn list(desk: &Desk, all: bool, out: &mut Out) -> Result<Exit, Failure> {
    let backends = &desk.config.file().backends;
    let configured = backends.iter().map(|(name, section)| (name.clone(), section.url.to_string())).collect();
    let defined = match desk.config.definitions() {
        Ok(_) => desk.stored()?.list(&desk.tenant, all)?,
        Err(_) => Vec::new(),
    };
    let listed = Listed { tenant: desk.tenant.clone(), configured, defined };
    if out.is_json() {
        out.document(&listed)?;
        return Ok(Exit::Ok);
    }
    let of_file =
        listed.configured.into_iter().map(|(name, url)| [name, "memory.toml".to_owned(), String::new(), url]);
    let of_tenant = listed.defined.into_iter().map(|stored| {
        let state = match (stored.retired_at, &stored.successor) {
            (None, _) => String::new(),
            (Some(_), None) => "retired".to_owned(),
            (Some(_), Some(successor)) => format!("retired for {successor}"),
        };
        let name = format!("{}@{}", stored.name, stored.version);
        [name, stored.tenant.to_string(), state, stored.definition.url]
    });
    let rows: Vec<[String; 4]> = of_file.chain(of_tenant).collect();
    out.table(["BACKEND", "OF", "STATE", "URL"], &rows)?;
    Ok(Exit::Ok)
}

#[derive(Serialize)]
struct Tested {
    backend: String,
    provider: String,
    health: Health,
    probe: Probe,
    capabilities: Capabilities,
}

#[derive(Serialize)]
struct Probe {
    operation: &'static str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

async fn test(context: &Context, desk: &Desk, which: &str, out: &mut Out) -> Result<Exit, Failure> {
    let registry = context.registry()?.with_access(Access::Read);
    let memory = context.closing(within(desk.config.open_backend_for(&registry, &desk.tenant, which)).await?);
    let health = match within(memory.health()).await {
        Ok(health) => health,
        Err(error) => Health::new(HealthStatus::Down, error.message().to_owned()),
    };
    let probe = probe(&memory, &desk.tenant).await?;
    let well = health.status == HealthStatus::Ok && probe.outcome == "ok";
    let tested = Tested {
        backend: which.to_owned(),
        provider: memory.name().to_owned(),
        health,
        probe,
        capabilities: memory.capabilities(),
    };
    out.tell(&tested, |out| {
        let Tested { backend, provider, health, probe, capabilities } = &tested;
        out.line(format!("{backend}: provider {provider}"))?;
        out.line(format!("health  {}: {}", word(&health.status), health.message))?;
        let message = probe.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
        out.line(format!("{}  {}{message}", probe.operation, probe.outcome))?;
        let capabilities = serde_json::to_value(capabilities)
            .map_err(|error| Error::internal("capabilities have no JSON form").with_source(error))?;
        let served = capabilities.as_object().into_iter().flatten();
        let served: Vec<[String; 2]> = served.map(|(name, value)| [name.clone(), word(value)]).collect();
        out.table(["CAPABILITY", "VALUE"], &served)
    })?;
    Ok(if well { Exit::Ok } else { Exit::Failed })
}

/// Reads at most one item from a scope that nothing uses.
async fn probe(memory: &Memory, tenant: &TenantId) -> Result<Probe> {
    let scope = Scope::agent(tenant.as_str(), "memory-backend-test")?;
    let run = RunContext::new(tenant.clone(), scope.id.clone(), ScopeId::new("memory-backend-test")?);
    let (operation, outcome) = if let Some(backend) = memory.backend() {
        let mut query = ListQuery::default();
        query.limit = 1;
        ("list", within(backend.list(&scope, query)).await.map(drop))
    } else if let Some(layer) = memory.layer() {
        let mut query = FactsQuery::default();
        query.limit = 1;
        ("facts", within(layer.facts(&run, &scope, query)).await.map(drop))
    } else if let Some(sql) = memory.sql() {
        ("sql_usage", within(sql.sql_usage(&scope)).await.map(drop))
    } else {
        ("none", Ok(()))
    };
    Ok(match outcome {
        Ok(()) => Probe { operation, outcome: "ok", message: None },
        Err(error) => {
            Probe { operation, outcome: error.kind().code(), message: Some(error.message().to_owned()) }
        }
    })
}

async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| Err(Error::timeout(format!("no answer within {} s", PATIENCE.as_secs()))))
}

fn journal(desk: &Desk, name: &str, forget: bool, out: &mut Out) -> Result<Exit, Failure> {
    use memory::fallback::{forget_set_aside, journal_counts, journal_entries};

    let file = desk.config.fallback_journal(name)?.ok_or_else(|| {
        Failure::invalid(format!(
            "[backends.{name}] does not journal writes; set `fallback_writes = \"journal\"`"
        ))
    })?;
    #[derive(Serialize, Default)]
    struct Shown {
        counts: memory::fallback::JournalCounts,
        writes: Vec<memory::fallback::JournalEntry>,
        #[serde(skip_serializing_if = "Option::is_none")]
        forgotten: Option<usize>,
    }
    let mut shown = Shown::default();
    if file.is_file() {
        if forget {
            shown.forgotten = Some(forget_set_aside(&file)?);
        }
        (shown.counts, shown.writes) = (journal_counts(&file)?, journal_entries(&file, MAX_LISTED)?);
    }
    if out.is_json() {
        out.document(&shown)?;
        return Ok(Exit::Ok);
    }
    let counts = shown.counts;
    out.line(format!(
        "{} queued in {}, {} set aside, {}",
        counted(counts.waiting, "write"),
        counted(counts.scopes, "scope"),
        counts.set_aside,
        bytes(counts.bytes)
    ))?;
    let rows: Vec<[String; 5]> = shown
        .writes
        .into_iter()
        .map(|write| {
            let state = format!("{} {}", word(&write.state), write.why.unwrap_or_default());
            let keys = write.keys.join(" ");
            [write.id.to_string(), write.scope.to_string(), write.op.to_owned(), state, keys]
        })
        .collect();
    if !rows.is_empty() {
        out.table(["WRITE", "SCOPE", "OP", "STATE", "KEYS"], &rows)?;
    }
    Ok(Exit::Ok)
}
