//! `graph`: sessions and a knowledge graph per agent.

mod backend;
mod glob;
mod reading;
mod sessions;
mod storage;
mod transfer;
mod writing;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use memory::hierarchical::backend::{
    BackendChoice, ChosenBy, Environment, Paths, Resolved, resolve_backend, resolve_transfer_backend,
};
use memory::hierarchical::{self, Agent, AgentMemory, GraphStore, SqlGraphs};
use memory::{Access, Config};
use memory_core::{Error, ErrorKind, Result, ScopeKind};

use crate::terminal::{Context, DEFAULT_ID, Exit, Failure, Opened, Out, Progress, is_unmade, note};

/// How often progress is shown.
const TICK: Duration = Duration::from_millis(500);
/// Most agents that a hint names.
const NAMED: usize = 5;

#[derive(Args, Debug)]
pub(crate) struct GraphArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    which: Which,
}

/// Which backend keeps the graphs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Which {
    /// What keeps graphs: `sqlite` (tables in the store) or `graph-db` [default: AMPLIHACK_MEMORY_BACKEND, else
    /// `graph-db` where files of the graph engine are found, else `sqlite`]
    #[arg(long, global = true, value_name = "TOKEN")]
    graph_backend: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show which backend is chosen, and why
    Backend,
    /// Show an agent's memories with their edges; without --agent those of every agent
    Tree(reading::TreeArgs),
    /// Show a memory and what is beside it
    Show(reading::ShowArgs),
    /// Show how what is known about an entity changed, the oldest first
    History(reading::HistoryArgs),
    /// Count an agent's memories and edges; without --agent those of every agent
    Stats,
    /// Store a memory
    Remember(writing::RememberArgs),
    /// Link two memories
    Relate(writing::RelateArgs),
    /// Find memories by words, and by edges what belongs to them
    Recall(reading::RecallArgs),
    /// Write an agent's graph to a file
    Export(transfer::ExportArgs),
    /// Read an agent's graph from a file, in the place of the one that is there or into it
    Import(transfer::ImportArgs),
    /// Take over databases of the original program: graphs, or sessions and their entries
    Migrate(transfer::MigrateArgs),
    /// List the sessions, or what is stored in one; with --agent those that this agent used, and what it stored
    Sessions(sessions::SessionsArgs),
    /// Remove sessions by a pattern, with --agent those that this agent alone used; without --yes only say which
    Clean(sessions::CleanArgs),
}

impl Action {
    /// Whether it names its agent itself rather than through the scope.
    const fn names_its_agent(&self) -> bool {
        matches!(self, Self::Backend | Self::Export(_) | Self::Import(_) | Self::Migrate(_))
    }
}

pub(crate) async fn graph(context: &Context, mut args: GraphArgs, out: &mut Out) -> Result<Exit, Failure> {
    let elsewhere = context.without_backend();
    let context = match named_as_backend(context, &args.which)? {
        Some(token) => {
            args.which.graph_backend = Some(token);
            &elsewhere
        }
        None => context,
    };
    let which = &args.which;
    let global = context.global();
    let scope = [&global.agent, &global.user, &global.run, &global.scope];
    if args.action.names_its_agent() && scope.iter().any(|option| option.is_some()) {
        return Err(Failure::invalid(
            "this command takes no --agent, --user or --run: `export` and `import` have the agent as an argument, `migrate` has \
             --only",
        ));
    }
    match args.action {
        Action::Backend => backend::backend(context, which, out),
        Action::Tree(args) => reading::tree(&open_to_read(context, which).await?, &args, out).await,
        Action::Show(args) => reading::show(&open(context, which, Access::Read).await?, &args, out).await,
        Action::History(args) => reading::history(&open_to_read(context, which).await?, &args, out).await,
        Action::Stats => reading::stats(&open_to_read(context, which).await?, out).await,
        Action::Remember(args) => {
            writing::remember(&open(context, which, Access::Create).await?, args, out).await
        }
        Action::Relate(args) => {
            writing::relate(&open(context, which, Access::Existing).await?, args, out).await
        }
        Action::Recall(args) => reading::recall(&open_to_read(context, which).await?, &args, out).await,
        Action::Export(args) if args.storage_path.is_some() => {
            serve_tables(which)?;
            storage::export(context, &args, out)
        }
        Action::Import(args) if args.storage_path.is_some() => {
            serve_tables(which)?;
            shown(context, "importing", storage::import(context, &args, out)).await
        }
        Action::Export(args) => {
            let graphs = open_for_transfer(context, which, Access::Read).await?;
            shown(context, "exporting", transfer::export(&graphs, &args, out)).await
        }
        Action::Import(args) => {
            let graphs = open_for_transfer(context, which, Access::Create).await?;
            shown(context, "importing", transfer::import(&graphs, &args, out)).await
        }
        Action::Migrate(args) => {
            let graphs = open_on(resolve_for_migration(which)?, context, Access::Create).await?;
            shown(context, "migrating", transfer::migrate(&graphs, &args, out)).await
        }
        Action::Sessions(args) => {
            sessions::sessions(&open(context, which, Access::Read).await?, &args, out).await
        }
        Action::Clean(args) => {
            let access = if args.yes { Access::Existing } else { Access::Read };
            sessions::clean(&open(context, which, access).await?, &args, out).await
        }
    }
}

/// The graph backend that `--backend` names, as the original's option did, unless memory.toml has a backend with that
/// name. Anything else is refused as a graph backend.
fn named_as_backend(context: &Context, which: &Which) -> Result<Option<String>> {
    let Some(name) = context.explicit_backend() else { return Ok(None) };
    let config = Config::discover(context.global().config.as_deref())?;
    let is_a_store = config.is_some_and(|config| config.file().backends.contains_key(name));
    if which.graph_backend.is_some() || is_a_store {
        return Ok(None);
    }
    BackendChoice::parse(name)?;
    Ok(Some(name.to_owned()))
}

/// Waits for slow work, and shows that it goes on.
async fn shown<T>(context: &Context, what: &str, work: impl Future<Output = T>) -> T {
    let (mut progress, begun) = (Progress::new(context.is_quiet()), Instant::now());
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                progress.finish();
                return done;
            }
            () = tokio::time::sleep(TICK) => {
                progress.update(0, || format!("{what}: {} s", begun.elapsed().as_secs()));
            }
        }
    }
}

/// The graphs of the opened store.
pub(super) struct Graphs {
    pub(super) opened: Opened,
    pub(super) graphs: Arc<dyn GraphStore>,
}

impl Graphs {
    /// The named agent, or the one in the configuration's scope.
    fn agent(&self) -> Result<Agent> {
        self.check_scope()?;
        Agent::new(self.opened.scope().id.as_str())
    }

    /// Refuses a scope on the command line that is not an agent's.
    fn check_scope(&self) -> Result<()> {
        let kind = self.opened.scope().kind;
        if kind == ScopeKind::Agent || !self.opened.settings.scope_is_chosen() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a graph belongs to an agent, not to a {kind}; name the agent with --agent"
        )))
    }

    /// The agents to show: the named one, or all.
    async fn agents(&self) -> Result<Vec<Agent>> {
        self.check_scope()?;
        match self.opened.scope().kind {
            ScopeKind::Agent => Ok(vec![self.agent()?]),
            _ => self.graphs.agents().await,
        }
    }

    /// Where a migration writes: our own files of the engine, even if the original has one for the agent.
    fn target(&self) -> Result<Arc<dyn GraphStore>> {
        #[cfg(feature = "ladybug")]
        if self.graphs.name() == "graph-db" {
            return backend::engine_graphs(false);
        }
        Ok(Arc::clone(&self.graphs))
    }

    fn memory_of(&self, agent: Agent) -> AgentMemory {
        hierarchical::memory_of(Arc::clone(&self.graphs), agent)
    }
}

/// The environment of this process.
fn environment() -> Environment {
    Environment::of(|name| std::env::var_os(name))
}

/// Opens the graphs in the store, if the chosen backend is served.
async fn open(context: &Context, which: &Which, access: Access) -> Result<Graphs> {
    open_on(resolve_backend(which.graph_backend.as_deref(), &environment())?, context, access).await
}

/// Opens the graphs, and notes which of the agents in question have one in files of the original alone.
async fn open_to_read(context: &Context, which: &Which) -> Result<Graphs> {
    let graphs = open(context, which, Access::Read).await?;
    let named = (graphs.opened.scope().kind == ScopeKind::Agent).then(|| graphs.agent()).transpose()?;
    let mut left = Vec::new();
    for agent in originals().into_iter().filter(|of| named.as_ref().is_none_or(|named| of == named)) {
        // What cannot be read, the command itself says.
        if graphs.graphs.revision(&agent).await.is_ok_and(|revision| revision == 0) {
            left.push(agent.to_string());
        }
    }
    if !left.is_empty() {
        let more = left.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        left.truncate(NAMED);
        note(&format!(
            "memory: only files of the original have a graph of {}{more}; take it over with `memory graph migrate`",
            left.join(", ")
        ));
    }
    Ok(graphs)
}

/// Like [`open`], but a variable with an unknown backend only causes a warning and means the graph engine.
async fn open_for_transfer(context: &Context, which: &Which, access: Access) -> Result<Graphs> {
    open_on(resolve_for_transfer(which)?, context, access).await
}

fn resolve_for_transfer(which: &Which) -> Result<Resolved> {
    match &which.graph_backend {
        Some(flag) => resolve_backend(Some(flag), &environment()),
        None => resolve_transfer_backend(&environment()),
    }
}

/// As for other commands, except that graph engine files that this build cannot read do not keep anything else from
/// being migrated.
fn resolve_for_migration(which: &Which) -> Result<Resolved> {
    let mut resolved = resolve_backend(which.graph_backend.as_deref(), &environment())?;
    let is_found = matches!(resolved.by, ChosenBy::Detected { .. });
    if is_found && backend::require_served(resolved.backend).is_err() {
        resolved.backend = BackendChoice::Sqlite;
        resolved.warnings.push(
            "this build has no graph engine, so what other files hold is taken over into the store; use it with \
             `--graph-backend sqlite`, or set AMPLIHACK_MEMORY_BACKEND to `sqlite`"
                .to_owned(),
        );
    }
    Ok(resolved)
}

/// The files of an installation of the original.
fn installation() -> Vec<PathBuf> {
    Paths::of(&environment()).and_then(|paths| paths.installation(None)).unwrap_or_default()
}

/// The agents of whom the original has a graph.
fn originals() -> BTreeSet<Agent> {
    let Ok(paths) = Paths::of(&environment()) else { return BTreeSet::new() };
    let folder = paths.graphs();
    let agent = |file: PathBuf| {
        let name = file.strip_prefix(&folder).ok()?.iter().next()?.to_str()?;
        Agent::new(name.strip_suffix(".db").unwrap_or(name)).ok()
    };
    installation().into_iter().filter_map(agent).collect()
}

/// Whether the original has sessions.
fn has_sessions_of_original() -> bool {
    let folder = Paths::of(&environment()).map(|paths| paths.graphs());
    folder.is_ok_and(|folder| installation().iter().any(|file| !file.starts_with(&folder)))
}

/// Adds to the error that nothing of ours exists how to take over the original's data, if it is here.
fn hinted(error: Error, is_here: impl FnOnce() -> bool) -> Error {
    if error.kind() == ErrorKind::NotFound && is_here() {
        return error
            .retold("there are files of the original here; take them over with `memory graph migrate`");
    }
    error
}

/// Refuses a folder of databases if the graph engine was chosen. Files found elsewhere choose nothing for a named
/// folder.
fn serve_tables(which: &Which) -> Result<()> {
    let resolved = resolve_for_transfer(which)?;
    warned(&resolved);
    if resolved.backend == BackendChoice::Sqlite || matches!(resolved.by, ChosenBy::Detected { .. }) {
        return Ok(());
    }
    Err(Error::invalid(
        "--storage-path names a folder of SQLite databases, which the backend `graph-db` does not write; add \
         `--graph-backend sqlite`, or leave --storage-path out",
    ))
}

/// The engine has one file per agent, whatever the tenant.
fn check_tenant(resolved: &Resolved, context: &Context) -> Result<()> {
    let tenant = context.settings()?.tenant;
    if resolved.backend == BackendChoice::GraphDb && tenant.as_str() != DEFAULT_ID {
        return Err(Error::invalid(format!(
            "the backend `graph-db` does not keep tenants apart, so it has none but `{DEFAULT_ID}`; add \
             `--graph-backend sqlite` for the tenant `{tenant}`, or leave --tenant out"
        )));
    }
    Ok(())
}

fn warned(resolved: &Resolved) {
    for warning in &resolved.warnings {
        note(&format!("memory: {warning}"));
    }
}

async fn open_on(resolved: Resolved, context: &Context, access: Access) -> Result<Graphs> {
    warned(&resolved);
    backend::require_served(resolved.backend).map_err(|error| match &resolved.by {
        ChosenBy::Detected { path } => error.retold(format!(
            "{} chose `graph-db`; add `--graph-backend sqlite` for the store, into which `memory graph migrate` takes over \
             what it can",
            path.display()
        )),
        _ => error,
    })?;
    check_tenant(&resolved, context)?;
    let opened = match context.open(access).await {
        // Graphs of the engine are read beside a store that was never made, such as those of the original.
        Err(error) if is_unmade(&error) && resolved.backend == BackendChoice::GraphDb => {
            let settings = context.settings()?;
            Opened { memory: settings.empty().await?, settings }
        }
        Err(error) if is_unmade(&error) => return Err(hinted(error, || !installation().is_empty())),
        opened => opened?,
    };
    let (tenant, provider) = (&opened.settings.tenant, Arc::new(opened.memory.clone()));
    let graphs: Arc<dyn GraphStore> = match resolved.backend {
        #[cfg(feature = "ladybug")]
        BackendChoice::GraphDb => backend::engine_graphs(true)?,
        _ if access == Access::Create || SqlGraphs::are_made(provider, tenant).await? => {
            hierarchical::open(&opened.memory, tenant).await?
        }
        // What was never created reads as empty.
        _ => hierarchical::open(&opened.settings.empty().await?, tenant).await?,
    };
    Ok(Graphs { opened, graphs })
}
