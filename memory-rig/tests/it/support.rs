//! Stores, scopes and models.

use memory::{Embedder, Memory, MemoryTool, Policy, Registry, RunContext, Scope, ScopeKind, SetOptions};
use memory_rig::AgentTool;
use rig_core::DynModel;
use rig_core::operation::Completion;
use rig_core::providers::openai::{OpenAI, OpenAIConfig};
use rig_reqwest::ReqwestClient;
use std::sync::Arc;

use crate::openai::{self, Rules};

pub(crate) fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

pub(crate) fn run() -> RunContext {
    RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "run-1".parse().unwrap())
}

pub(crate) async fn store() -> Memory {
    memory::open("sqlite::memory:").await.unwrap()
}

pub(crate) async fn store_with(embedder: impl Embedder + 'static) -> Memory {
    Registry::default().with_embedder(Arc::new(embedder)).open("sqlite::memory:").await.unwrap()
}

pub(crate) async fn set(memory: &Memory, key: &str, value: &str, metadata: &str) {
    let mut options = SetOptions::default();
    options.metadata = serde_json::from_str(metadata).unwrap();
    let backend = memory.backend().unwrap();
    backend.set(&scope(), &key.parse().unwrap(), value.parse().unwrap(), options).await.unwrap();
}

/// The Memory tool of a run that may use the agent's scope alone.
pub(crate) fn tool(memory: &Memory) -> AgentTool {
    let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
    AgentTool::new(MemoryTool::new(memory.clone(), policy, run()).unwrap())
}

pub(crate) async fn client(rules: Rules) -> OpenAI {
    let url = openai::serve(rules).await.unwrap();
    OpenAIConfig::new("no key").with_base_url(url).connect(ReqwestClient::default())
}

pub(crate) async fn model() -> DynModel<Completion> {
    client(openai::completion).await.chat("local").into()
}
