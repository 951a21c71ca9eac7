//! Tools for shared state and graphs: one per caller and agent, cached, because the first call opens the state.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use memory::{Memory, MemoryTool, StateOp};
use memory_core::{ChatModel, Error, Result, RunContext, ScopeId, TenantId};

use crate::boxed::Boxed;
use crate::caller::Caller;
use crate::rules::Rules;

/// Most tools that are kept.
const MOST: usize = 256;

type Whose = (String, TenantId, ScopeId);

/// [`MemoryTool::state`], passed in by the program around this crate: it is large, and would be compiled where it is
/// awaited.
pub type OnState = for<'a> fn(&'a MemoryTool, StateOp, &'a str) -> Boxed<'a, Result<String>>;

/// The tools.
#[derive(Debug)]
pub struct Tools {
    pub(super) on_state: OnState,
    rules: Arc<Rules>,
    /// The model that reads notes; `None` for rules.
    interpreter: Option<Arc<dyn ChatModel>>,
    kept: Mutex<BTreeMap<Whose, Arc<MemoryTool>>>,
}

/// The tools of a server without shared state and graphs.
impl Default for Tools {
    fn default() -> Self {
        let on_state: OnState =
            |_, op, _| Box::pin(ready(Err(Error::unsupported(op.as_str(), "this server"))));
        Self::new(Arc::default(), None, on_state)
    }
}

impl Tools {
    /// Tools within these rules; `interpreter` reads notes.
    #[must_use]
    pub fn new(rules: Arc<Rules>, interpreter: Option<Arc<dyn ChatModel>>, on_state: OnState) -> Self {
        Self { on_state, rules, interpreter, kept: Mutex::default() }
    }

    /// The tool of a caller that acts as this agent, with the operator's policy for the agent, narrowed by the caller's
    /// grant.
    ///
    /// # Errors
    /// `forbidden` for an agent of another backend; those of [`MemoryTool::new`].
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
        // Its writes name the token.
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
