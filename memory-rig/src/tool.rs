//! The Memory tool as a tool of rig.

use std::sync::Arc;

use memory::{Error, ErrorKind, MemoryTool};
use rig_core::tool::{Tool, ToolContext, ToolErrorKind, ToolExecutionError, ToolOutput};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The Memory tool of one run, for `AgentBuilder::tool`. Its name is `memory`; description, schema, limits and policy are those
/// of the [`MemoryTool`].
///
/// A refusal reaches the model as the Memory tool tells it, `{"error": {"code", "message", "details", "retryable"}}`, and the
/// host as a [`ToolExecutionError`] with the same code, whose source is the [`Error`].
#[derive(Clone, Debug)]
pub struct AgentTool(Arc<MemoryTool>);

impl AgentTool {
    /// Wraps the tool of a run.
    #[must_use]
    pub fn new(tool: impl Into<Arc<MemoryTool>>) -> Self {
        Self(tool.into())
    }
}

impl Tool for AgentTool {
    const NAME: &'static str = "memory";
    /// Raw, so that numbers arrive as they were written.
    type Args = Box<RawValue>;
    type Output = String;
    type Error = Error;

    fn description(&self) -> String {
        self.0.description()
    }

    fn parameters(&self) -> Value {
        self.0.schema()
    }

    fn map_error(&self, error: Error) -> ToolExecutionError {
        execution_error(error)
    }

    async fn call(&self, _: &mut ToolContext, args: Box<RawValue>) -> Result<String, Error> {
        self.0.try_call(args.get()).await
    }
}

fn execution_error(error: Error) -> ToolExecutionError {
    let retryable = error.retry().is_retryable();
    let told = json!({"error": {
        "code": error.kind().code(),
        "message": error.message(),
        "details": error.details(),
        "retryable": retryable,
    }});
    let execution = match error.kind() {
        ErrorKind::ScopeDenied | ErrorKind::Forbidden => ToolExecutionError::refused(error.message()),
        kind => ToolExecutionError::new(tool_error_kind(kind), error.message()),
    };
    execution
        .with_model_output(ToolOutput::json(told))
        .with_code(error.kind().code())
        .with_retryable(retryable)
        .with_source(error)
}

fn tool_error_kind(kind: ErrorKind) -> ToolErrorKind {
    match kind {
        ErrorKind::InvalidArgument
        | ErrorKind::WrongType
        | ErrorKind::TooLarge
        | ErrorKind::StatementRefused => ToolErrorKind::InvalidArgs,
        ErrorKind::NotFound => ToolErrorKind::NotFound,
        ErrorKind::Unauthenticated | ErrorKind::EgressDenied | ErrorKind::ReadOnly => {
            ToolErrorKind::PermissionDenied
        }
        ErrorKind::Timeout => ToolErrorKind::Timeout,
        ErrorKind::RateLimited => ToolErrorKind::RateLimited,
        ErrorKind::Unavailable => ToolErrorKind::Provider,
        _ => ToolErrorKind::Other,
    }
}
