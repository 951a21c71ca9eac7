//! The tool of one run: its state, and the scopes it may use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

#[cfg(feature = "governed")]
use memory_core::ChatModel;
use memory_core::{Capabilities, DriftPolicy, Error, Result, RunContext, Scope, ScopeKind};

use super::ops::{DEFAULT_SCOPE, ToolOp};
use super::transaction::OpenTransaction;
use crate::audit::Auditor;
use crate::drift::{Backups, DriftSession};
#[cfg(feature = "governed")]
use crate::governed::{PromotionPipeline, Space};
use crate::memory::Memory;
use crate::policy::{GraphAccess, Policy, SharedAccess};

/// The tool of one run: a backend, the operator's policy, and who is calling.
///
/// Input from the model is data. The identity comes only from the [`RunContext`], and a call names only the *kind* of
/// scope. Use one tool per run: it keeps track of the open transaction in each scope, so that statements need not name
/// it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> memory::Result<()> {
/// # #[cfg(feature = "sqlite")] {
/// use memory::{MemoryTool, Policy, RunContext, ScopeKind};
///
/// let memory = memory::open("sqlite::memory:").await?;
/// let run = RunContext::new("acme".parse()?, "planner".parse()?, "run-1".parse()?);
/// let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
/// let tool = MemoryTool::new(memory, policy, run)?;
/// let answer = tool.call(r#"{"op": "set", "key": "city", "value": "Lisbon"}"#).await;
/// assert!(answer.starts_with(r#"{"version":1,"created":true"#), "{answer}");
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MemoryTool {
    pub(super) memory: Memory,
    pub(super) policy: Policy,
    pub(super) run: RunContext,
    pub(super) drift: DriftSession,
    pub(super) open_transactions: Mutex<BTreeMap<ScopeKind, OpenTransaction>>,
    pub(super) auditor: Option<Arc<Auditor>>,
    /// Operations that the caller's credentials do not allow.
    pub(super) denied: BTreeSet<ToolOp>,
    /// The shared space and its pipeline, once opened.
    #[cfg(feature = "governed")]
    pub(super) shared_space: Mutex<Option<(Space, PromotionPipeline)>>,
    /// The model that reads its notes; `None` for rules.
    #[cfg(feature = "governed")]
    pub(super) interpreter: Option<Arc<dyn ChatModel>>,
}

impl MemoryTool {
    /// A tool for one run.
    ///
    /// # Errors
    /// `capability_unsupported` if the policy has a quota that a key/value backend cannot enforce, or a drift policy
    /// that the backend does not serve.
    pub fn new(memory: Memory, policy: Policy, run: RunContext) -> Result<Self> {
        let capabilities = memory.capabilities();
        if capabilities.kv && !capabilities.quotas && !policy.quota.is_unlimited() {
            return Err(Error::unsupported("quota", memory.name()).with_detail("option", "quota"));
        }
        let drift = session(&memory, &policy, &capabilities)?;
        Ok(Self {
            memory,
            policy: policy.in_range(),
            run,
            drift,
            open_transactions: Mutex::default(),
            auditor: None,
            denied: BTreeSet::new(),
            #[cfg(feature = "governed")]
            shared_space: Mutex::default(),
            #[cfg(feature = "governed")]
            interpreter: None,
        })
    }

    /// Records every operation in this audit.
    #[must_use]
    pub fn with_auditor(mut self, auditor: Arc<Auditor>) -> Self {
        self.auditor = Some(auditor);
        self
    }

    /// Denies these operations in addition to what the policy denies: they are refused, and not shown to the model.
    #[must_use]
    pub fn with_denied(mut self, denied: impl IntoIterator<Item = ToolOp>) -> Self {
        self.denied.extend(denied);
        self
    }

    /// Lets this language model read the run's notes instead of rules. A `note` waits for its answer.
    #[cfg(feature = "governed")]
    #[must_use]
    pub fn with_interpreter_model(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.interpreter = Some(model);
        self
    }

    /// Makes the current state of this run's scopes its starting point: an entry that somebody else writes later, and
    /// that the run does not read, is then protected. Without this, the first call about a scope does it. Does nothing
    /// if the drift policy is `off`.
    ///
    /// # Errors
    /// As [`Backend::drift_state`](memory_core::Backend::drift_state).
    pub async fn begin(&self) -> Result<()> {
        let Some(backend) = self.memory.backend() else { return Ok(()) };
        let guarded = self.drift.guard(backend);
        for kind in self.usable(&self.policy.memory_scopes) {
            if let Some(scope) = self.run.scope(kind) {
                guarded.meet(&scope).await?;
            }
        }
        Ok(())
    }

    /// The backend.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What this run has seen; its writes are checked against it.
    #[must_use]
    pub fn drift(&self) -> &DriftSession {
        &self.drift
    }

    /// The auditor that records every operation, if any.
    pub(crate) fn auditor(&self) -> Option<&Auditor> {
        self.auditor.as_deref()
    }

    /// The rules.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The run that the tool acts for.
    #[must_use]
    pub fn run(&self) -> &RunContext {
        &self.run
    }

    pub(crate) fn memory_scope(&self, asked: Option<ScopeKind>) -> Result<Scope> {
        self.scope(asked, &self.policy.memory_scopes, "memory")
    }

    pub(super) fn sql_scope(&self, asked: Option<ScopeKind>) -> Result<Scope> {
        self.scope(asked, &self.policy.sql_scopes, "SQL")
    }

    pub(super) fn any_scope(&self, asked: Option<ScopeKind>) -> Result<Scope> {
        let either = self.policy.memory_scopes.union(&self.policy.sql_scopes).copied().collect();
        self.scope(asked, &either, "memory")
    }

    /// The scope of this kind that belongs to this run, if the policy allows it.
    fn scope(&self, asked: Option<ScopeKind>, allowed: &BTreeSet<ScopeKind>, what: &str) -> Result<Scope> {
        let kind = asked.unwrap_or(DEFAULT_SCOPE);
        let usable = self.usable(allowed);
        if usable.contains(&kind)
            && let Some(scope) = self.run.scope(kind)
        {
            return Ok(scope);
        }
        let names: Vec<&str> = usable.iter().map(|kind| kind.as_str()).collect();
        let message = if allowed.contains(&kind) {
            format!("this run has no {kind}, so it has no {kind} scope; use one of: {}", names.join(", "))
        } else if names.is_empty() {
            format!(
                "the operator allows this agent no {what} scope; continue without it, or ask the operator"
            )
        } else {
            format!(
                "the operator does not allow {what} in the {kind} scope; use one of: {}",
                names.join(", ")
            )
        };
        Err(Error::scope_denied(message).with_detail("scope", kind.as_str()).with_detail("allowed", names))
    }

    /// Refuses an operation that the caller's credentials do not allow.
    pub(crate) fn not_denied(&self, op: ToolOp) -> Result<()> {
        if !self.denied.contains(&op) {
            return Ok(());
        }
        let name = op.as_str();
        let message = format!("the operator does not allow this caller `{name}`; see `describe` for what is");
        Err(Error::forbidden(message).with_detail("operation", name))
    }

    /// Checks that the operator grants this operation on shared state or on the agent's graph.
    pub(super) fn granted(&self, op: ToolOp) -> Result<()> {
        self.granted_as(op, op.as_str())
    }

    /// Like [`granted`](Self::granted), for an operation called by another name.
    pub(super) fn granted_as(&self, op: ToolOp, name: &str) -> Result<()> {
        let (shared, graph) = (self.policy.shared_state, self.policy.graph);
        let (is_granted, instead) = match op {
            ToolOp::Note if shared.is_some() => {
                (shared >= Some(SharedAccess::Note), "only read shared state")
            }
            ToolOp::ForgetShared if shared.is_some() => {
                (shared >= Some(SharedAccess::Forget), "say in a note what has ended")
            }
            ToolOp::Remember | ToolOp::Relate if graph.is_some() => {
                (graph >= Some(GraphAccess::Add), "only recall from your graph")
            }
            ToolOp::Remember | ToolOp::Relate | ToolOp::RecallGraph => {
                (graph.is_some(), "continue without a graph")
            }
            _ => (shared.is_some(), "continue without shared state"),
        };
        if is_granted {
            return Ok(());
        }
        let message =
            format!("the operator does not allow this agent `{name}`; {instead}, or ask the operator");
        Err(Error::scope_denied(message).with_detail("operation", name))
    }

    /// The allowed kinds of scope that this run has.
    pub(super) fn usable(&self, allowed: &BTreeSet<ScopeKind>) -> BTreeSet<ScopeKind> {
        allowed.iter().copied().filter(|kind| self.run.scope(*kind).is_some()).collect()
    }
}

/// A new session that has seen nothing.
fn session(memory: &Memory, policy: &Policy, capabilities: &Capabilities) -> Result<DriftSession> {
    let drift = match policy.drift {
        Some(DriftPolicy::Off) => DriftPolicy::Off,
        Some(asked) if capabilities.drift.contains(&asked) => asked,
        Some(_) if capabilities.kv => {
            memory.refuse_with_fallback("drift", "leave out `drift`, or `fallback`")?;
            return Err(Error::unsupported("drift", memory.name()).with_detail("option", "drift"));
        }
        None if capabilities.drift.contains(&DriftPolicy::Row) => DriftPolicy::Row,
        _ => DriftPolicy::Off,
    };
    let session = DriftSession::new(drift);
    Ok(match memory.drift_backups() {
        Some(folder) => session.with_backups(Arc::new(Backups::new(folder))),
        None => session,
    })
}
