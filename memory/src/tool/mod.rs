//! The Memory tool: one JSON object in, one JSON object out. Every operation, field and answer is
//! described in `docs/tool.md`.

mod answer;
mod describe;
mod input;
mod kv;
mod layer;
mod ops;
mod schema;
mod sql;
mod suggest;
mod unserved;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use memory_core::{Capabilities, DriftPolicy, Error, ErrorKind, Result, RunContext, Scope, ScopeKind};
use serde_json::Value;

pub use answer::refusal;
pub use ops::ToolOp;
pub use schema::{op_schema, tool_schema};

use crate::audit::{Auditor, Facts};
use crate::drift::{Backups, DriftSession};
use crate::memory::Memory;
use crate::policy::Policy;
use input::Call;

/// The name under which a runtime offers the tool.
pub const TOOL_NAME: &str = "memory";
/// The scope of a call that names none.
pub const DEFAULT_SCOPE: ScopeKind = ScopeKind::Agent;

/// The tool of one run: a backend, the operator's policy, and who is calling.
///
/// What comes from the model is data; who it acts for comes from the [`RunContext`] alone, and a
/// call names only the *kind* of scope. Keep one tool per run: it remembers the transaction that is
/// open in each scope, so that statements need not carry it.
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
    memory: Memory,
    policy: Policy,
    run: RunContext,
    drift: DriftSession,
    open_transactions: Mutex<BTreeMap<ScopeKind, sql::OpenTransaction>>,
    auditor: Option<Arc<Auditor>>,
}

impl MemoryTool {
    /// A tool for one run.
    ///
    /// # Errors
    /// `capability_unsupported` where the policy has a quota and the backend serves key/value but no
    /// quotas: it would not hold; likewise for a drift policy that the backend does not serve.
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
        })
    }

    /// Has every operation recorded.
    #[must_use]
    pub fn with_auditor(mut self, auditor: Arc<Auditor>) -> Self {
        self.auditor = Some(auditor);
        self
    }

    /// The backend.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What this run has seen, against which its writes are checked.
    #[must_use]
    pub fn drift(&self) -> &DriftSession {
        &self.drift
    }

    /// The rules.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Who is calling.
    #[must_use]
    pub fn run(&self) -> &RunContext {
        &self.run
    }

    /// The operations that the backend serves and the policy allows in at least one scope.
    #[must_use]
    pub fn ops(&self) -> Vec<ToolOp> {
        let capabilities = self.memory.capabilities();
        ToolOp::ALL.iter().copied().filter(|op| self.serves(*op, &capabilities)).collect()
    }

    /// [`tool_schema`] for [`MemoryTool::ops`] and the scopes of this run: what to show the model.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut kinds = self.memory_kinds();
        kinds.extend(self.sql_kinds());
        let capabilities = self.memory.capabilities();
        schema::flat_schema(&self.ops(), &Vec::from_iter(kinds), |op, field| takes(op, field, &capabilities))
    }

    /// [`tool_description`] for [`MemoryTool::ops`].
    #[must_use]
    pub fn description(&self) -> String {
        let capabilities = self.memory.capabilities();
        describe_ops(&self.ops(), |op, field| takes(op, field, &capabilities))
    }

    /// Answers one call. Whatever comes in, one JSON object comes out: the operation's answer or
    /// `{"error": {"code", "message", "details", "retryable"}}`.
    pub async fn call(&self, input: &str) -> String {
        let mut facts = self.facts(input);
        let result = self.observed(input, facts.as_mut()).await;
        let refusal = result.as_ref().err().map(answer::refusal);
        if let Some(facts) = &mut facts {
            let bytes_out = refusal.as_ref().or(result.as_ref().ok()).map_or(0, String::len);
            facts.ended(&result, bytes_out);
        }
        refusal.or(result.ok()).unwrap_or_default()
    }

    /// As [`MemoryTool::call`] for input that is not known to be UTF-8.
    pub async fn call_bytes(&self, input: &[u8]) -> String {
        match std::str::from_utf8(input) {
            Ok(text) => self.call(text).await,
            Err(_) => {
                let error = Error::invalid("the input is not UTF-8; send JSON as UTF-8");
                let answered = answer::refusal(&error);
                if let Some(mut facts) = self.facts("") {
                    facts.ended(&Err(error), answered.len());
                }
                answered
            }
        }
    }

    /// As [`MemoryTool::call`], with a refusal as an error.
    ///
    /// # Errors
    /// As the operation fails; `invalid_argument` for malformed input; `scope_denied` by policy.
    pub async fn try_call(&self, input: &str) -> Result<String> {
        let mut facts = self.facts(input);
        let result = self.observed(input, facts.as_mut()).await;
        if let Some(facts) = &mut facts {
            facts.ended(&result, result.as_ref().map_or(0, String::len));
        }
        result
    }

    fn facts<'a>(&'a self, input: &'a str) -> Option<Facts<'a>> {
        self.auditor
            .as_ref()
            .map(|auditor| Facts::begin(auditor, &self.run, self.memory.capabilities().sql_dialect, input))
    }

    /// The answer, which names the backend that gave it in the place of another.
    #[cfg(feature = "sqlite")]
    async fn observed(&self, input: &str, mut facts: Option<&mut Facts<'_>>) -> Result<String> {
        let (result, who) = crate::fallback::observe(self.answer_to(input, facts.as_deref_mut())).await;
        let Some(who) = who else { return result };
        let answer = answer::named(result?, &who, self.policy.max_answer_bytes);
        if let Some(facts) = facts {
            facts.fell_back(who);
        }
        answer
    }

    /// The answer; this build has no fallbacks.
    #[cfg(not(feature = "sqlite"))]
    async fn observed(&self, input: &str, facts: Option<&mut Facts<'_>>) -> Result<String> {
        self.answer_to(input, facts).await
    }

    async fn answer_to(&self, input: &str, facts: Option<&mut Facts<'_>>) -> Result<String> {
        let call = Call::parse(input, self.policy.max_input_bytes)?;
        if let Some(facts) = facts {
            facts.called(call.op, call.takes("scope"), |name| call.field(name));
        }
        match call.op {
            ToolOp::Get => self.get(call.read()?).await,
            ToolOp::Set => self.set(call.read()?).await,
            ToolOp::Delete => self.delete(call.read()?).await,
            ToolOp::List => self.list(call.read()?).await,
            ToolOp::Search => self.search(call.read()?).await,
            ToolOp::Incr => self.incr(call.read()?).await,
            ToolOp::Update => self.update(call.read()?).await,
            ToolOp::BulkInsert => self.bulk_insert(call.read()?).await,
            ToolOp::Add => self.add(call.read()?).await,
            ToolOp::Recall => self.recall(call.read()?).await,
            ToolOp::Facts => self.list_facts(call.read()?).await,
            ToolOp::Event => self.event(call.read()?).await,
            ToolOp::Forget => self.forget(call.read()?).await,
            ToolOp::SqlExec => self.sql_exec(call.read()?).await,
            ToolOp::SqlQuery => self.sql_query(call.read()?).await,
            ToolOp::SqlBegin => self.sql_begin(call.read()?).await,
            ToolOp::SqlCommit => self.sql_commit(call.read()?).await,
            ToolOp::SqlRollback => self.sql_rollback(call.read()?).await,
            ToolOp::ListScopes => self.list_scopes(call.read()?).await,
            ToolOp::Describe => self.describe(call.read()?).await,
        }
    }

    fn memory_scope(&self, asked: Option<ScopeKind>) -> Result<Scope> {
        self.scope(asked, &self.policy.memory_scopes, "memory")
    }

    fn sql_scope(&self, asked: Option<ScopeKind>) -> Result<Scope> {
        self.scope(asked, &self.policy.sql_scopes, "SQL")
    }

    fn any_scope(&self, asked: Option<ScopeKind>) -> Result<Scope> {
        let either = self.policy.memory_scopes.union(&self.policy.sql_scopes).copied().collect();
        self.scope(asked, &either, "memory")
    }

    /// The scope of that kind that belongs to this run, if the policy lets it be used.
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
            format!("the operator allows this agent no {what} scope; do without, or ask the operator")
        } else {
            format!(
                "the operator does not allow {what} in the {kind} scope; use one of: {}",
                names.join(", ")
            )
        };
        Err(Error::new(ErrorKind::ScopeDenied, message)
            .with_detail("scope", kind.as_str())
            .with_detail("allowed", names))
    }

    /// The allowed kinds that this run has.
    fn usable(&self, allowed: &BTreeSet<ScopeKind>) -> BTreeSet<ScopeKind> {
        allowed.iter().copied().filter(|kind| self.run.scope(*kind).is_some()).collect()
    }
}

/// What a run has seen: nothing yet.
fn session(memory: &Memory, policy: &Policy, capabilities: &Capabilities) -> Result<DriftSession> {
    let drift = match policy.drift {
        Some(DriftPolicy::Off) => DriftPolicy::Off,
        Some(asked) if capabilities.drift.contains(&asked) => asked,
        Some(_) if capabilities.kv => {
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

/// What a model is told about the tool: every operation in a line, with its fields.
#[must_use]
pub fn tool_description() -> String {
    describe_ops(ToolOp::ALL, |_, _| true)
}

/// Whether a field of an operation is any good with a backend that serves this.
fn takes(op: ToolOp, field: &str, capabilities: &Capabilities) -> bool {
    match (op, field) {
        (ToolOp::Add, "infer") => capabilities.layer_verbatim,
        (ToolOp::Add, "metadata") => capabilities.layer_metadata,
        _ => true,
    }
}

fn describe_ops(ops: &[ToolOp], takes: impl Fn(ToolOp, &str) -> bool) -> String {
    let mut text = String::from(
        "Memory that outlives this conversation. Send `op` and its fields (`?`: optional); `scope` says whose memory \
         (agent, user, run; default agent). A refusal is {\"error\":{\"code\",\"message\"}}.\n",
    );
    for op in ops {
        let required = schema::required(*op);
        let fields: Vec<String> = schema::fields(*op)
            .iter()
            .enumerate()
            .filter(|(_, name)| *name != "scope" && takes(*op, name))
            .map(|(index, name)| if index < required { name.clone() } else { format!("{name}?") })
            .collect();
        let _ = writeln!(text, "- {}({}): {}", op.as_str(), fields.join(", "), op.summary());
    }
    text
}
