//! An agent of rig remembers something; another, later, knows it. The model is a local server with rules, so that this runs without a
//! network and without a key: put your own in its place.
//!
//! `cargo run --example agent`

mod openai;

use memory::{MemoryTool, Policy, RunContext, ScopeKind};
use memory_rig::AgentTool;
use rig_agent::{Agent, AgentBuilder};
use rig_core::providers::openai::OpenAIConfig;
use rig_reqwest::ReqwestClient;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// An agent of the run that remembers in this store.
async fn agent(model_url: &str, store: &str, run: &str) -> Result<Agent> {
    let memory = memory::open(store).await?;
    let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
    let run = RunContext::new("acme".parse()?, "planner".parse()?, run.parse()?);
    let tool = AgentTool::new(MemoryTool::new(memory, policy, run)?);
    let openai = OpenAIConfig::new("no key").with_base_url(model_url).connect(ReqwestClient::default());
    Ok(AgentBuilder::new(openai.chat("local")).tool(tool).default_max_turns(5).build())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let model_url = openai::serve(openai::completion).await?;
    let folder = tempfile::tempdir()?;
    let store = format!("sqlite:{}", folder.path().join("memory.db").display());

    let first = agent(&model_url, &store, "run-1").await?;
    println!("{}", first.prompt("Remember: Dinner is in Lisbon on Friday.").await?.output());

    let second = agent(&model_url, &store, "run-2").await?;
    println!("{}", second.prompt("Where is dinner?").await?.output());
    Ok(())
}
