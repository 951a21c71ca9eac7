//! `tool-schema`.

use clap::{Args, ValueEnum};
use memory::OfferedTool;
use memory::files::{FILES_TOOL_NAME, files_description, files_schema};
use memory::schemas::{SchemaForm, tool_in_form};
use memory::tool::TOOL_NAME;

use crate::serve::{OfferArgs, offered};
use crate::terminal::{Context, Exit, Failure, Out};

/// Who takes the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Taker {
    /// The Responses API: functions in strict mode
    Openai,
    /// The Chat Completions API: the same
    OpenaiChat,
    /// The Messages API
    Anthropic,
    /// The same, with a tool in strict mode where that takes all of its fields
    AnthropicStrict,
    /// Function declarations
    Gemini,
    /// `tools/list`
    Mcp,
}

#[derive(Args, Debug)]
pub(crate) struct ToolSchemaArgs {
    /// Whose form to print
    #[arg(long = "for", value_name = "PROVIDER")]
    taker: Taker,
    #[command(flatten)]
    offer: OfferArgs,
}

pub(crate) async fn run(context: &Context, args: ToolSchemaArgs, out: &mut Out) -> Result<Exit, Failure> {
    let tool = offered(context, args.offer).await?;
    let form = match args.taker {
        Taker::Openai => SchemaForm::Openai,
        Taker::OpenaiChat => SchemaForm::OpenaiChat,
        Taker::Anthropic => SchemaForm::Anthropic,
        Taker::AnthropicStrict => SchemaForm::AnthropicStrict,
        Taker::Gemini => SchemaForm::Gemini,
        Taker::Mcp => SchemaForm::Mcp,
    };
    let mut tools = Vec::new();
    if tool.policy().offers(OfferedTool::Memory) {
        tools.push(tool_in_form(form, TOOL_NAME, &tool.description(), &tool.detailed_schema()));
    }
    if tool.policy().offers(OfferedTool::Files) {
        tools.push(tool_in_form(form, FILES_TOOL_NAME, files_description(), &files_schema()));
    }
    out.document(&tools)?;
    Ok(Exit::Ok)
}
