//! The MCP server with its tools: the Memory tool, files, or both.

use std::sync::Arc;

use axum::http::request::Parts;
use memory::files::{FILES_TOOL_NAME, FilesAnswer, files_description, files_schema};
use memory::tool::TOOL_NAME;
use memory::{FilesTool, MemoryTool, OfferedTool};
use memory_core::Error;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, Implementation, JsonObject,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;
use tokio::task::JoinSet;

use super::progress::{self, Beats};
use super::resources;
use super::sessions::Sessions;
use super::wire::frame::Arguments;
use super::wire::transport::Share;

/// What a client may show its model in addition to the tool's description.
const INSTRUCTIONS: &str = "Long-term memory. Before answering about people, preferences, decisions or earlier work, \
    `search` it. Store what will matter later with `set`, one fact a key.";
/// The same for stores with conversations and entries.
const INSTRUCTIONS_FOR_BOTH: &str = "Long-term memory. Before answering about people, preferences, decisions or earlier \
    work, `recall` it. Hand over with `add` what was said that will matter later. What you want to look up or change by a \
    name of its own is an entry: `set`, `get` and `search` it, one fact a key.";
/// The same for stores that keep facts instead of entries.
const INSTRUCTIONS_FOR_FACTS: &str = "Long-term memory. Before answering about people, preferences, decisions or \
    earlier work, `recall` it. Hand over with `add` what was said that will matter later.";
/// The same for files only.
const INSTRUCTIONS_FOR_FILES: &str = "Long-term memory in files. View /memories before anything else, and keep in files \
    what will matter later.";

/// Serves the tools of one connection.
#[derive(Debug)]
pub(crate) struct MemoryServer {
    sessions: Arc<Sessions>,
    offered: Vec<Tool>,
}

impl MemoryServer {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Self {
        let tool = sessions.default_tool();
        let mut offered = Vec::new();
        if tool.policy().offers(OfferedTool::Memory) {
            offered.push(definition(tool));
        }
        if tool.policy().offers(OfferedTool::Files) && FilesTool::new(Arc::clone(tool)).is_served() {
            offered.push(files_definition());
        }
        Self { sessions, offered }
    }

    fn instructions(&self) -> &'static str {
        let capabilities = self.sessions.default_tool().memory().capabilities();
        match self.get(TOOL_NAME) {
            None => INSTRUCTIONS_FOR_FILES,
            Some(_) if capabilities.memory_layer && capabilities.kv => INSTRUCTIONS_FOR_BOTH,
            Some(_) if capabilities.memory_layer => INSTRUCTIONS_FOR_FACTS,
            Some(_) => INSTRUCTIONS,
        }
    }

    /// The tool of the run that a request for a resource or prompt belongs to.
    fn tool(&self, context: &RequestContext<RoleServer>) -> Result<Arc<MemoryTool>, ErrorData> {
        self.sessions.tool_for(&context.meta).map_err(|error| resources::refused(&error))
    }

    /// An offered tool.
    fn get(&self, name: &str) -> Option<&Tool> {
        self.offered.iter().find(|tool| tool.name == name)
    }
}

/// Name, description, schema and hints of the Memory tool.
pub(crate) fn definition(tool: &MemoryTool) -> Tool {
    described(TOOL_NAME, "Memory", tool.description(), tool.schema())
}

/// The same of files.
pub(crate) fn files_definition() -> Tool {
    described(FILES_TOOL_NAME, "Memory files", files_description().to_owned(), files_schema())
}

fn described(name: &'static str, title: &str, description: String, schema: Value) -> Tool {
    let schema = match schema {
        Value::Object(schema) => schema,
        _ => JsonObject::new(),
    };
    Tool::new(name, description, schema)
        .with_annotations(ToolAnnotations::with_title(title).destructive(true).open_world(false))
}

impl rmcp::ServerHandler for MemoryServer {
    fn get_info(&self) -> ServerConfig {
        let tool = self.sessions.default_tool();
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        capabilities.resources = (!resources::kinds(tool).is_empty()).then(Default::default);
        capabilities.prompts = (!resources::prompts(tool).is_empty()).then(Default::default);
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("memory", env!("CARGO_PKG_VERSION")).with_title("Memory"))
            .with_instructions(self.instructions())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.offered.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.get(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.get(&request.name).is_none() {
            let names: Vec<String> = self.offered.iter().map(|tool| format!("`{}`", tool.name)).collect();
            let text = match names.as_slice() {
                [] => {
                    "there is no such tool; the operator offers this agent none, as it has no scope for one"
                        .to_owned()
                }
                [only] => format!("there is no such tool; the only one is {only}"),
                names => format!("there is no such tool; offered: {}", names.join(", ")),
            };
            return Err(ErrorData::invalid_params(text, None));
        }
        // Over HTTP, they came with the request.
        let of_request = || context.extensions.get::<Parts>()?.extensions.get::<Arguments>();
        let Some(Arguments(arguments)) = context.extensions.get::<Arguments>().or_else(of_request).cloned()
        else {
            return Err(ErrorData::internal_error("the call has no arguments", None));
        };
        let tool = match self.sessions.tool_for(&context.meta) {
            Ok(tool) => tool,
            Err(error) => return Ok(answered(Err(error), "")),
        };
        let beats = match (context.meta.get_progress_token(), progress::long_operation(&arguments)) {
            (Some(token), Some(op)) => Some(Beats::start(context.peer.clone(), token, op).await),
            _ => None,
        };
        let share = context.extensions.get::<Share>().cloned();
        // Runs in a separate task: dropping the set cancels it at its next await, where a write is either complete or
        // not begun.
        let mut running = JoinSet::new();
        let of_files = request.name == FILES_TOOL_NAME;
        running.spawn(async move {
            let answer = match of_files {
                true => in_words(FilesTool::new(tool).call(&arguments).await),
                false => answered(tool.try_call(&arguments).await, &arguments),
            };
            drop(share);
            answer
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
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) => {
                let bug = Error::internal("the operation failed because of a bug; please report it");
                Ok(answered(Err(bug), ""))
            }
            None => Err(ErrorData::internal_error("the call was cancelled", None)),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        resources::list(&*self.tool(&context)?, cursor.as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates(&*self.tool(&context)?)))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&*self.tool(&context)?, &request.uri).await.map(Into::into)
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(resources::prompts(&*self.tool(&context)?)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        resources::prompt(&*self.tool(&context)?, &request.name, &arguments).await.map(Into::into)
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
fn answered(result: memory_core::Result<String>, sent: &str) -> CallToolResponse {
    match result {
        Ok(answer) => CallToolResult::success(vec![ContentBlock::text(answer)]).into(),
        Err(error) => {
            CallToolResult::error(vec![ContentBlock::text(memory::tool::refusal(&error, sent))]).into()
        }
    }
}

/// The answer of files.
fn in_words(answer: FilesAnswer) -> CallToolResponse {
    let content = vec![ContentBlock::text(answer.text)];
    match answer.is_error {
        true => CallToolResult::error(content).into(),
        false => CallToolResult::success(content).into(),
    }
}

#[cfg(test)]
mod tests {
    use memory::{GraphAccess, MemoryTool, Policy, RunContext, ScopeKind, SharedAccess};

    /// Size in bytes of the tool's description and schema, for a file store.
    async fn bytes(policy: Policy) -> usize {
        let memory = memory::open("sqlite::memory:").await.unwrap();
        let run = RunContext::new("acme".parse().unwrap(), "ann".parse().unwrap(), "run".parse().unwrap());
        let tool = MemoryTool::new(memory, policy, run.with_user("ada".parse().unwrap())).unwrap();
        tool.description().len() + tool.schema().to_string().len()
    }

    /// A model reads the tool's description with every message.
    #[tokio::test]
    async fn the_tool_stays_small_and_shared_state_and_graphs_cost_only_those_who_have_them() {
        let all = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
        let without = bytes(all.clone()).await;
        assert!(without <= 6_100, "{without} bytes");
        let with = bytes(all.clone().with_shared_state(SharedAccess::Authority)).await;
        assert!(with <= 7_000, "{with} bytes");
        let with = bytes(all.with_graph(GraphAccess::Supersede)).await;
        assert!(with <= 8_100, "{with} bytes");
        let files = super::files_definition();
        let bytes = serde_json::to_string(&files).unwrap().len();
        assert!(bytes <= 2_300, "{bytes} bytes");
    }
}
