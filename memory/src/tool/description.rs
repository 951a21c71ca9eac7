//! The tool's description for a model.

use std::fmt::Write as _;

use memory_core::Capabilities;
use serde_json::Value;

use super::memory_tool::MemoryTool;
use super::ops::ToolOp;
use super::schema;
use crate::policy::SharedAccess;
use crate::schemas::flat;

impl MemoryTool {
    /// The operations that the backend serves and the policy allows in at least one scope.
    #[must_use]
    pub fn ops(&self) -> Vec<ToolOp> {
        let capabilities = self.memory.capabilities();
        ToolOp::ALL.iter().copied().filter(|op| self.serves(*op, &capabilities)).collect()
    }

    /// [`tool_schema`](crate::tool_schema) for [`MemoryTool::ops`] and the scopes of this run, to show to the model.
    #[must_use]
    pub fn schema(&self) -> Value {
        flat(&self.detailed_schema())
    }

    /// [`MemoryTool::schema`] with the complete schema of each field, for
    /// [`tool_in_form`](crate::schemas::tool_in_form).
    #[must_use]
    pub fn detailed_schema(&self) -> Value {
        let mut kinds = self.memory_kinds();
        kinds.extend(self.sql_kinds());
        let capabilities = self.memory.capabilities();
        schema::detailed_schema(&self.ops(), &Vec::from_iter(kinds), |op, field| {
            self.takes(op, field, &capabilities)
        })
    }

    /// [`tool_description`] for [`MemoryTool::ops`].
    #[must_use]
    pub fn description(&self) -> String {
        let capabilities = self.memory.capabilities();
        describe_ops(&self.ops(), |op, field| self.takes(op, field, &capabilities))
    }

    /// Whether a field of an operation is useful to this run.
    fn takes(&self, op: ToolOp, field: &str, capabilities: &Capabilities) -> bool {
        match (op, field) {
            (ToolOp::Recall, "scopes") => self.memory_kinds().len() > 1,
            (ToolOp::Pending, _) => self.policy.shared_state >= Some(SharedAccess::Authority),
            _ => takes(op, field, capabilities),
        }
    }
}

/// The tool's description for a model: one line per operation, with its fields.
#[must_use]
pub fn tool_description() -> String {
    describe_ops(ToolOp::ALL, |_, _| true)
}

/// Whether a field of an operation is useful with these capabilities.
fn takes(op: ToolOp, field: &str, capabilities: &Capabilities) -> bool {
    match (op, field) {
        (ToolOp::Add, "infer") => capabilities.layer_verbatim,
        (ToolOp::Add, "metadata") => capabilities.layer_metadata,
        (ToolOp::Add, "supersedes") | (ToolOp::Recall, "as_of") => capabilities.layer_supersede,
        (ToolOp::Add, "confirms") | (ToolOp::Recall, "unconfirmed_since") => capabilities.layer_confirm,
        (ToolOp::Add, "again") | (ToolOp::Recall, "explain") => capabilities.layer_idempotent,
        (ToolOp::Add, "ttl_seconds") => capabilities.layer_expiry,
        (ToolOp::Recall, "threshold") => capabilities.layer_threshold,
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
