//! An agent: the Memory tool of one run, and the only thing it can do is call it.

use memory::{Memory, MemoryTool, Policy, RunContext, ScopeKind};
use serde_json::Value;

/// A result with whatever went wrong.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

pub(crate) struct Agent {
    tool: MemoryTool,
}

impl Agent {
    /// Who it is comes from the runtime; it may use SQL in its user's database, and nothing else.
    pub(crate) fn new(memory: &Memory, name: &str, user: &str, run: &str) -> Outcome<Self> {
        let run = RunContext::new("acme".parse()?, name.parse()?, run.parse()?).with_user(user.parse()?);
        let policy = Policy::default().with_sql_scopes([ScopeKind::User]);
        Ok(Self { tool: MemoryTool::new(memory.clone(), policy, run)? })
    }

    /// Calls the tool as a model would: JSON in, JSON out.
    pub(crate) async fn call(&self, mut call: Value) -> Outcome<Value> {
        if let Some(call) = call.as_object_mut() {
            call.entry("scope").or_insert_with(|| "user".into());
        }
        let answer: Value = serde_json::from_str(&self.tool.call(&call.to_string()).await)?;
        match answer.get("error") {
            None => Ok(answer),
            Some(error) => Err(format!("{call} was refused: {error}").into()),
        }
    }

    /// Ends the run: what it left open is rolled back.
    pub(crate) async fn leave(self) -> Outcome<()> {
        let run = self.tool.run();
        Ok(self.tool.memory().end_run(&run.tenant, &run.root_run).await?)
    }
}
