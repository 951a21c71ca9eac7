//! Tools for shared state and graphs: one for each caller and agent, kept, since the first call of one opens the state.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use memory::{Memory, MemoryTool};
use memory_core::{ChatModel, Result, RunContext, ScopeId, TenantId};

use crate::caller::Caller;
use crate::rules::Rules;

/// Most tools that are kept.
const MOST: usize = 256;

type Whose = (String, TenantId, ScopeId);

/// The tools.
#[derive(Debug, Default)]
pub struct Tools {
    rules: Arc<Rules>,
    /// What reads notes; `None`: rules.
    interpreter: Option<Arc<dyn ChatModel>>,
    kept: Mutex<BTreeMap<Whose, Arc<MemoryTool>>>,
}

impl Tools {
    /// Tools within these rules; `interpreter` reads notes.
    #[must_use]
    pub fn new(rules: Arc<Rules>, interpreter: Option<Arc<dyn ChatModel>>) -> Self {
        Self { rules, interpreter, kept: Mutex::default() }
    }

    /// The tool of a caller that speaks for this agent, with the operator's policy for the agent within the caller's grant.
    ///
    /// # Errors
    /// `forbidden` for an agent of another backend; as [`MemoryTool::new`].
    pub(super) fn of(
        &self,
        memory: &Memory,
        caller: &Caller,
        tenant: &TenantId,
        agent: &ScopeId,
    ) -> Result<Arc<MemoryTool>> {
        let whose = (caller.id().to_owned(), tenant.clone(), agent.clone());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tool) = kept.get(&whose) {
            return Ok(Arc::clone(tool));
        }
        self.rules.serves(Some(agent), caller.id())?;
        let policy = caller.narrowed(&self.rules.policy(agent.as_str()));
        // What it writes names its token.
        let run = ScopeId::new(format!("{}-v1", caller.id()))?;
        let mut run = RunContext::new(tenant.clone(), agent.clone(), run);
        if let Some(user) = &caller.grant().user {
            run = run.with_user(user.clone());
        }
        let mut tool = MemoryTool::new(memory.clone(), policy, run)?.with_denied(caller.denied());
        if let Some(model) = &self.interpreter {
            tool = tool.with_interpreter_model(Arc::clone(model));
        }
        if kept.len() >= MOST {
            kept.clear();
        }
        let tool = Arc::new(tool);
        kept.insert(whose, Arc::clone(&tool));
        Ok(tool)
    }
}
