//! The identity, store and rules to serve. They come from the command line and `memory.toml`, never from the client.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory::audit::Auditor;
use memory::conversations::extract::ModelExtractor;
use memory::gc::GcOptions;
use memory::system::SystemClock;
use memory::{Access, Config, Memory, MemoryTool, OfferedTool, Policy};
use memory_core::{Error, Result, RunContext, Scope, ScopeId, ScopeKind, TenantId};

use super::extract::Plan;
use super::gc::Schedule;
use super::options::{OfferArgs, ServeArgs};
use super::sessions::Identity;
use super::workers::with_workers;
use crate::terminal::{Context, Settings, alone};

/// The default tenant, as for every command.
const DEFAULT_TENANT: &str = "default";
/// The agent whose tools are shown if none is named.
pub(super) const DEFAULT_AGENT: &str = "default";
/// The default user, as for every command.
const DEFAULT_USER: &str = "default";

/// What a connection needs.
pub(super) struct Served {
    pub(super) memory: Memory,
    /// Its location, without secrets.
    pub(super) store: String,
    pub(super) identity: Identity,
    pub(super) auditor: Option<Arc<Auditor>>,
    /// Shown at start.
    pub(super) warnings: Vec<String>,
    /// The garbage collection to run while serving.
    pub(super) gc: Option<Schedule>,
    /// The facts to extract while serving.
    pub(super) extract: Option<Plan>,
}

/// Reads the configuration and opens the store.
pub(super) async fn resolve(context: &Context, args: &ServeArgs, access: Access) -> Result<Served> {
    let global = context.global();
    if global.run.is_some() || global.scope.is_some() {
        return Err(Error::invalid("each connection is its own run; leave out --run and --scope"));
    }
    let config = Config::discover(global.config.as_deref())?;
    let default = config.as_ref().map(|config| &config.file().default);
    let tenant = match (&global.tenant, default.and_then(|section| section.tenant.clone())) {
        (Some(tenant), _) => TenantId::new(tenant.as_str())?,
        (None, Some(tenant)) => tenant,
        (None, None) => TenantId::new(DEFAULT_TENANT)?,
    };
    let agent = match (&args.offer.agent, default.and_then(|section| section.agent.clone())) {
        (Some(agent), _) => ScopeId::new(agent.as_str())?,
        (None, Some(agent)) => agent,
        (None, None) => return Err(no_agent()),
    };
    let user = match (&args.offer.user, default.and_then(|section| section.user.clone())) {
        (Some(user), _) => Some(ScopeId::new(user.as_str())?),
        (None, Some(user)) => Some(user),
        // The same user as for this terminal's commands, unless the configuration allows no user memory or calls name
        // their users.
        (None, None) => {
            let is_theirs = config.as_ref().is_none_or(|config| {
                !args.trust_meta && config.policy(agent.as_str()).memory_scopes.contains(&ScopeKind::User)
            });
            is_theirs.then(|| ScopeId::new(DEFAULT_USER)).transpose()?
        }
    };
    let scopes: Option<BTreeSet<ScopeKind>> =
        args.offer.scopes.as_ref().map(|kinds| kinds.iter().copied().collect());

    let mut warnings = Vec::new();
    let (memory, store, policy, auditor) = match &config {
        Some(config) => {
            warnings.extend(config.warnings());
            let own_backend = context.explicit_url().is_none() && config.backends().next().is_some();
            let (settings, backend) = if own_backend {
                let backend = match context.explicit_backend() {
                    Some(name) => name.to_owned(),
                    None => config.agent(agent.as_str())?.backend,
                };
                let mut global = context.global().clone();
                global.backend = Some(backend.clone());
                (context.settings_of(&global)?, Some(backend))
            } else {
                (context.settings()?, None)
            };
            let memory = with_workers(opened(&settings, access).await?, config, context, backend.as_deref())?;
            let policy = config.policy(agent.as_str());
            let policy = match scopes {
                Some(kinds) => narrowed(&policy, &kinds),
                None => policy,
            };
            let auditor = match access {
                Access::Create => config.auditor(Arc::new(SystemClock))?,
                _ => None,
            };
            (memory, settings.shown_url()?, policy, auditor)
        }
        // Without a configuration, the operator's command line grants access to the identities it names.
        None => {
            let named = || {
                let mut kinds = BTreeSet::from([ScopeKind::Agent, ScopeKind::Run]);
                kinds.extend(user.is_some().then_some(ScopeKind::User));
                kinds
            };
            let policy = Policy::default().with_memory_scopes(scopes.unwrap_or_else(named));
            let settings = context.settings()?;
            (opened(&settings, access).await?, settings.shown_url()?, policy, None)
        }
    };
    let policy = offering(policy, args, &memory)?;
    let gc = match &config {
        Some(config) => schedule(config, context, agent.as_str(), &memory, &mut warnings).await?,
        None => None,
    };
    let extract = match &config {
        Some(config) if config.file().recall.extract.enabled => {
            let scopes = durable(&policy, &tenant, &agent, user.as_ref());
            plan(config, context, (&memory, &policy), scopes, &mut warnings)?
        }
        _ => None,
    };
    let interpreter = match &config {
        Some(config) if policy.shared_state.is_some() => {
            config.open_interpreter_model(&context.registry()?)?
        }
        _ => None,
    };
    let (trust_meta, credentials) = (args.trust_meta, args.credentials.clone());
    let runs = "mcp-".to_owned();
    let identity = Identity {
        tenant,
        agent,
        user,
        policy,
        trust_meta,
        credentials,
        runs,
        denied: Vec::new(),
        interpreter,
    };
    Ok(Served { memory, store, identity, auditor, warnings, gc, extract })
}

/// The tool that a connection with these options would have, on a store opened for reading only.
pub(crate) async fn offered(context: &Context, mut offer: OfferArgs) -> Result<MemoryTool> {
    let config = Config::discover(context.global().config.as_deref())?;
    if config.is_none_or(|config| config.file().default.agent.is_none()) {
        offer.agent.get_or_insert_with(|| DEFAULT_AGENT.to_owned());
    }
    let args = ServeArgs { offer, ..ServeArgs::default() };
    let Served { memory, identity, .. } = resolve(context, &args, Access::Read).await?;
    let run = RunContext::new(identity.tenant, identity.agent, ScopeId::new("run")?);
    let run = match identity.user {
        Some(user) => run.with_user(user),
        None => run,
    };
    MemoryTool::new(memory, identity.policy, run)
}

/// Opens the store. If it is only read and does not exist, an empty one in memory replaces it.
async fn opened(settings: &Settings, access: Access) -> Result<Memory> {
    match access {
        Access::Create => settings.open(access).await,
        _ => settings.open_unmade(access).await,
    }
}

/// The schedule of `[gc]`, if the store supports it.
pub(crate) async fn schedule(
    config: &Config,
    context: &Context,
    agent: &str,
    memory: &Memory,
    warnings: &mut Vec<String>,
) -> Result<Option<Schedule>> {
    let section = &config.file().gc;
    if !section.policy().is_on() {
        return Ok(None);
    }
    if !memory.capabilities().eviction || !memory.capabilities().tenants {
        warnings.push(match alone(memory, "gc") {
            Err(why) => format!("[gc] is set, and nothing is collected: {why}"),
            Ok(()) => format!(
                "[gc] is set, but provider `{}` cannot drop scopes; nothing is collected",
                memory.name()
            ),
        });
        return Ok(None);
    }
    let folder = config.gc_snapshots();
    let ledger = match &folder {
        Some(_) => {
            let mut global = context.global().clone();
            if context.explicit_url().is_none() && context.explicit_backend().is_none() {
                // The agent's own backend, which may not be the default one.
                global.backend = config.agent(agent).ok().map(|binding| binding.backend);
            }
            context.settings_of(&global)?.ledger(memory).await?
        }
        None => None,
    };
    let options = GcOptions::new(section.policy()).with_snapshots(folder, ledger);
    Ok(Some(Schedule { options, interval: section.interval() }))
}

/// The scopes that outlive a connection, as far as its agent may use them.
fn durable(policy: &Policy, tenant: &TenantId, agent: &ScopeId, user: Option<&ScopeId>) -> Vec<Scope> {
    let agent = (ScopeKind::Agent, Some(agent));
    [agent, (ScopeKind::User, user)]
        .into_iter()
        .filter(|(kind, _)| policy.memory_scopes.contains(kind))
        .filter_map(|(kind, id)| Some(Scope::new(tenant.clone(), kind, id?.clone())))
        .collect()
}

/// What `[recall.extract]` asks for, if the store supports it.
fn plan(
    config: &Config,
    context: &Context,
    (memory, policy): (&Memory, &Policy),
    scopes: Vec<Scope>,
    warnings: &mut Vec<String>,
) -> Result<Option<Plan>> {
    let capabilities = memory.capabilities();
    if !capabilities.kv || !capabilities.compare_and_set || !capabilities.memory_layer {
        warnings.push(format!(
            "[recall.extract] is on, but provider `{}` keeps conversations of its own kind; no facts are drawn",
            memory.name()
        ));
        return Ok(None);
    }
    let extractor = ModelExtractor::new(config.open_chat_model(&context.registry()?)?);
    let mut options = config.extract_options();
    options.quota = policy.quota;
    Ok(Some(Plan { extractor, options, scopes }))
}

/// The configured policy, restricted to the chosen kinds of scope.
fn narrowed(policy: &Policy, kinds: &BTreeSet<ScopeKind>) -> Policy {
    let mut policy = policy.clone();
    policy.memory_scopes = policy.memory_scopes.intersection(kinds).copied().collect();
    policy.sql_scopes = policy.sql_scopes.intersection(kinds).copied().collect();
    policy
}

/// The policy with the tools of the command line, within those of memory.toml.
fn offering(policy: Policy, args: &ServeArgs, memory: &Memory) -> Result<Policy> {
    let Some(asked) = &args.offer.tools else { return Ok(policy) };
    let asked = policy.clone().with_tools(asked.iter().map(|tool| tool.offered()));
    let narrowed = policy.narrow(&asked);
    for tool in [OfferedTool::Memory, OfferedTool::Files] {
        if asked.offers(tool) && !narrowed.offers(tool) {
            return Err(Error::forbidden(
                "`tools` of memory.toml does not offer what --tools asks for; change one of them",
            ));
        }
    }
    if asked.offers(OfferedTool::Files) && !memory.capabilities().compare_and_set {
        return Err(Error::unsupported("files", memory.name()));
    }
    Ok(narrowed)
}

/// The error if no agent is named.
pub(super) fn no_agent() -> Error {
    Error::invalid(
        "no agent is named; give --agent ID, as in --agent claude, or `agent` under [default] of memory.toml",
    )
}
