//! The MCP server with its one tool.

use std::sync::Arc;

use axum::http::request::Parts;
use memory::MemoryTool;
use memory::tool::TOOL_NAME;
use memory_core::Error;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::task::JoinSet;

use super::progress::{self, Beats};
use super::sessions::Sessions;
use super::wire::frame::Arguments;
use super::wire::transport::Share;

/// What a client may show its model besides the tool's description.
const INSTRUCTIONS: &str = "Long-term memory. Before answering about people, preferences, decisions or earlier work, \
    `search` it. Store what will matter later with `set`, one fact a key.";
/// The same for stores that keep facts instead of entries.
const INSTRUCTIONS_FOR_FACTS: &str = "Long-term memory. Before answering about people, preferences, decisions or \
    earlier work, `recall` it. Hand over with `add` what was said that will matter later.";

/// Serves the Memory tool of one connection.
#[derive(Debug)]
pub(crate) struct MemoryServer {
    sessions: Arc<Sessions>,
    definition: Tool,
}

impl MemoryServer {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        let definition = definition(sessions.default_tool());
        Self { sessions, definition }
    }

    fn instructions(&self) -> &'static str {
        let capabilities = self.sessions.default_tool().memory().capabilities();
        if capabilities.memory_layer && !capabilities.kv { INSTRUCTIONS_FOR_FACTS } else { INSTRUCTIONS }
    }
}

/// Name, description, schema and hints of the tool.
pub(super) fn definition(tool: &MemoryTool) -> Tool {
    let schema = match tool.schema() {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(TOOL_NAME, tool.description(), schema)
        .with_annotations(ToolAnnotations::with_title("Memory").destructive(true).open_world(false))
}

impl rmcp::ServerHandler for MemoryServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("memory", env!("CARGO_PKG_VERSION")).with_title("Memory"))
            .with_instructions(self.instructions())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![self.definition.clone()]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == TOOL_NAME).then(|| self.definition.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != TOOL_NAME {
            return Err(ErrorData::invalid_params(
                format!("there is no such tool; the only one is `{TOOL_NAME}`"),
                None,
            ));
        }
        // Over HTTP they came with the request.
        let of_request = || context.extensions.get::<Parts>()?.extensions.get::<Arguments>();
        let Some(Arguments(arguments)) = context.extensions.get::<Arguments>().or_else(of_request).cloned()
        else {
            return Err(ErrorData::internal_error("the call has no arguments", None));
        };
        let tool = match self.sessions.tool_for(&context.meta) {
            Ok(tool) => tool,
            Err(error) => return Ok(answered(Err(error))),
        };
        let beats = match (context.meta.get_progress_token(), progress::long_operation(&arguments)) {
            (Some(token), Some(op)) => Some(Beats::start(context.peer.clone(), token, op).await),
            _ => None,
        };
        let share = context.extensions.get::<Share>().cloned();
        // In a separate task: dropping the set cancels it at its next await, where a write is either complete or not
        // begun.
        let mut running = JoinSet::new();
        running.spawn(async move {
            let result = tool.try_call(&arguments).await;
            drop(share);
            result
        });
        let result = tokio::select! {
            biased;
            ended = running.join_next() => ended,
            () = context.ct.cancelled() => None,
        };
        drop(running);
        if let Some(beats) = beats {
            beats.stop().await;
        }
        match result {
            Some(Ok(result)) => Ok(answered(result)),
            Some(Err(_)) => {
                Ok(answered(Err(Error::internal("the operation failed because of a bug; please report it"))))
            }
            None => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    async fn on_custom_request(
        &self,
        _request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            "this server has no such method, or not with these parameters",
            None,
        ))
    }
}

/// The tool's answer, or its error for the model to read.
fn answered(result: memory_core::Result<String>) -> CallToolResponse {
    match result {
        Ok(answer) => CallToolResult::success(vec![ContentBlock::text(answer)]).into(),
        Err(error) => CallToolResult::error(vec![ContentBlock::text(memory::tool::refusal(&error))]).into(),
    }
}

#[cfg(test)]
mod tests {
    use memory::{GraphAccess, MemoryTool, Policy, RunContext, ScopeKind, SharedAccess};

    /// Bytes of the tool's description and schema on a file.
    async fn bytes(policy: Policy) -> usize {
        let memory = memory::open("sqlite::memory:").await.unwrap();
        let run = RunContext::new("acme".parse().unwrap(), "ann".parse().unwrap(), "run".parse().unwrap());
        let tool = MemoryTool::new(memory, policy, run.with_user("ada".parse().unwrap())).unwrap();
        tool.description().len() + tool.schema().to_string().len()
    }

    /// A model reads the tool with every message.
    #[tokio::test]
    async fn the_tool_stays_small_and_shared_state_and_graphs_cost_only_those_who_have_them() {
        let all = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
        let without = bytes(all.clone()).await;
        assert!(without <= 6_100, "{without} bytes");
        let with = bytes(all.clone().with_shared_state(SharedAccess::Authority)).await;
        assert!(with <= 7_000, "{with} bytes");
        let with = bytes(all.with_graph(GraphAccess::Supersede)).await;
        assert!(with <= 8_100, "{with} bytes");
    }
}
