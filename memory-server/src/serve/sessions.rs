//! The identities on a connection. A connection is a run; with `--trust-meta`, a host may name the user and run of each
//! call, but nothing else.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory::audit::Auditor;
use memory::{IdGen, Memory, MemoryTool, Policy, ToolOp};
use memory_core::{ChatModel, Error, Result, Retry, RunContext, ScopeId, TenantId};
use rmcp::model::RequestMetaObject;
use tokio::sync::OnceCell;

use crate::terminal::CredentialArgs;

/// Names in a call's `_meta` that a trusted host may set.
pub(super) const META_USER: &str = "memory/user";
pub(super) const META_RUN: &str = "memory/run";

/// Most runs at a time on one connection.
const MAX_RUNS: usize = 256;

/// Identity and rules of a connection.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) tenant: TenantId,
    pub(crate) agent: ScopeId,
    pub(crate) user: Option<ScopeId>,
    pub(crate) policy: Policy,
    pub(crate) trust_meta: bool,
    /// API keys that its runs pass to a service.
    pub(crate) credentials: CredentialArgs,
    /// Prefix of the names of its runs.
    pub(crate) runs: String,
    /// Operations that its token does not allow.
    pub(crate) denied: Vec<ToolOp>,
    /// The model that reads their notes; `None` for rules.
    pub(crate) interpreter: Option<Arc<dyn ChatModel>>,
}

/// The user and run named by a host.
type Named = (Option<ScopeId>, Option<ScopeId>);

/// The tools of a connection: the default one, and those of runs that a trusted host named.
#[derive(Debug)]
pub(crate) struct Sessions {
    memory: Memory,
    identity: Identity,
    auditor: Option<Arc<Auditor>>,
    run: ScopeId,
    default_tool: Arc<MemoryTool>,
    named: Mutex<BTreeMap<Named, Arc<MemoryTool>>>,
    ended: OnceCell<()>,
}

impl Sessions {
    /// Starts the connection's run.
    pub(crate) fn begin(
        memory: Memory,
        identity: Identity,
        auditor: Option<Arc<Auditor>>,
        ids: &dyn IdGen,
    ) -> Result<Self> {
        let run = ScopeId::new(format!("{}{:032x}", identity.runs, ids.fresh()))?;
        let default_tool = tool(&memory, &identity, auditor.as_ref(), (identity.user.clone(), run.clone()))?;
        let (named, ended) = (Mutex::default(), OnceCell::new());
        Ok(Self { memory, identity, auditor, run, default_tool, named, ended })
    }

    pub(crate) fn default_tool(&self) -> &Arc<MemoryTool> {
        &self.default_tool
    }

    /// The tool of the run that a call belongs to.
    pub(super) fn tool_for(&self, meta: &RequestMetaObject) -> Result<Arc<MemoryTool>> {
        if !self.identity.trust_meta {
            return Ok(Arc::clone(&self.default_tool));
        }
        let named = (named(meta, META_USER)?, named(meta, META_RUN)?);
        if named == (None, None) {
            return Ok(Arc::clone(&self.default_tool));
        }
        let mut tools = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tools.len();
        match tools.entry(named) {
            Entry::Occupied(tool) => Ok(Arc::clone(tool.get())),
            Entry::Vacant(_) if known >= MAX_RUNS => Err(Error::unavailable(format!(
                "this connection has {MAX_RUNS} runs already; connect again for more"
            ))
            .with_retry(Retry::Never)),
            Entry::Vacant(place) => {
                let (user, run) = place.key().clone();
                let user = user.or_else(|| self.identity.user.clone());
                let run = run.unwrap_or_else(|| self.run.clone());
                let tool = tool(&self.memory, &self.identity, self.auditor.as_ref(), (user, run))?;
                Ok(Arc::clone(place.insert(tool)))
            }
        }
    }

    /// Ends every run of the connection and purges what was kept for the run only. Later callers wait for the first.
    pub(crate) async fn end(&self, patience: Duration) -> Result<()> {
        let mut runs = vec![self.run.clone()];
        {
            let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
            runs.extend(named.keys().filter_map(|(_, run)| run.clone()));
        }
        runs.sort_unstable();
        runs.dedup();
        let end_all = async {
            let mut outcome = Ok(());
            for run in &runs {
                let ended = self.memory.end_run(&self.identity.tenant, run).await;
                outcome = outcome.and(ended);
            }
            outcome
        };
        let ended = async { self.ended.get_or_try_init(|| end_all).await.copied() };
        tokio::time::timeout(patience, ended).await.unwrap_or_else(|_| {
            Err(Error::timeout("the run was not purged in time; its entries stay stored but are unreachable"))
        })
    }
}

fn tool(
    memory: &Memory,
    identity: &Identity,
    auditor: Option<&Arc<Auditor>>,
    (user, run): (Option<ScopeId>, ScopeId),
) -> Result<Arc<MemoryTool>> {
    let mut context = RunContext::new(identity.tenant.clone(), identity.agent.clone(), run);
    if let Some(user) = user {
        context = context.with_user(user);
    }
    identity.credentials.give(&mut context)?;
    let mut tool = MemoryTool::new(memory.clone(), identity.policy.clone(), context)?
        .with_denied(identity.denied.iter().copied());
    if let Some(model) = &identity.interpreter {
        tool = tool.with_interpreter_model(Arc::clone(model));
    }
    Ok(Arc::new(match auditor {
        Some(auditor) => tool.with_auditor(Arc::clone(auditor)),
        None => tool,
    }))
}

fn named(meta: &RequestMetaObject, name: &str) -> Result<Option<ScopeId>> {
    match meta.get(name) {
        None => Ok(None),
        Some(serde_json::Value::String(id)) => ScopeId::new(id.as_str()).map(Some),
        Some(_) => Err(Error::invalid(format!("`_meta` has a `{name}` that is no string; give an id"))),
    }
}
