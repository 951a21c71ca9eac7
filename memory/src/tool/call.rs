//! A call: parsed, recorded, dispatched and answered.

use memory_core::{Error, Result};

use super::answer;
use super::input::Call;
use super::memory_tool::MemoryTool;
use super::ops::ToolOp;
use crate::audit::Facts;

impl MemoryTool {
    /// Answers one call. Whatever the input, the result is one JSON object: the operation's answer or `{"error":
    /// {"code", "message", "details", "retryable"}}`.
    pub async fn call(&self, input: &str) -> String {
        let mut facts = self.facts(input);
        let result = self.observed(input, facts.as_mut()).await;
        let refusal = result.as_ref().err().map(|error| answer::refusal(error, input));
        if let Some(facts) = &mut facts {
            let bytes_out = refusal.as_ref().or(result.as_ref().ok()).map_or(0, String::len);
            facts.ended(&result, bytes_out);
        }
        refusal.or(result.ok()).unwrap_or_default()
    }

    /// Like [`MemoryTool::call`], for input that may not be UTF-8.
    pub async fn call_bytes(&self, input: &[u8]) -> String {
        match std::str::from_utf8(input) {
            Ok(text) => self.call(text).await,
            Err(_) => {
                let error = Error::invalid("the input is not UTF-8; send JSON as UTF-8");
                let answered = answer::refusal(&error, "");
                if let Some(mut facts) = self.facts("") {
                    facts.ended(&Err(error), answered.len());
                }
                answered
            }
        }
    }

    /// Like [`MemoryTool::call`], with a refusal as an error.
    ///
    /// # Errors
    /// The operation's errors; `invalid_argument` for malformed input; `scope_denied` by policy.
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

    /// The answer, naming the backend if another one answered.
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

    async fn answer_to(&self, input: &str, mut facts: Option<&mut Facts<'_>>) -> Result<String> {
        let call = Call::parse(input, self.policy.max_input_bytes, || self.ops())?;
        if let Some(facts) = facts.as_deref_mut() {
            facts.called(call.op, call.takes("scope"), |name| call.field(name));
        }
        self.not_denied(call.op)?;
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
            ToolOp::Recall => self.recall(call.read()?, facts).await,
            ToolOp::Facts => self.list_facts(call.read()?).await,
            ToolOp::Event => self.event(call.read()?).await,
            ToolOp::Forget => self.forget(call.read()?).await,
            ToolOp::SqlExec => self.sql_exec(call.read()?).await,
            ToolOp::SqlQuery => self.sql_query(call.read()?).await,
            ToolOp::SqlBegin => self.sql_begin(call.read()?).await,
            ToolOp::SqlCommit => self.sql_commit(call.read()?).await,
            ToolOp::SqlRollback => self.sql_rollback(call.read()?).await,
            ToolOp::Note => self.note(call.read()?).await,
            ToolOp::Shared => self.shared(call.read()?).await,
            ToolOp::Why => self.why(call.read()?).await,
            ToolOp::Pending => self.pending(call.read()?).await,
            ToolOp::ForgetShared => self.forget_shared(call.read()?).await,
            ToolOp::Remember => self.remember(call.read()?).await,
            ToolOp::Relate => self.relate(call.read()?).await,
            ToolOp::RecallGraph => self.recall_graph(call.read()?).await,
            ToolOp::ListScopes => self.list_scopes(call.read()?).await,
            ToolOp::Describe => self.describe(call.read()?).await,
        }
    }
}
