//! The Memory tool through its only entry point: JSON in, JSON out.

/// Runs a test's body on each store.
#[cfg(any(feature = "governed", feature = "hierarchical"))]
macro_rules! on_both_stores {
    ($($(#[$doc:meta])* async fn $name:ident($memory:ident) $body:block)+) => {
        $(mod $name {
            use super::*;

            $(#[$doc])*
            async fn body($memory: Memory) $body

            #[tokio::test]
            async fn on_sqlite() {
                let folder = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}", folder.path().join("memory.db").display());
                body(memory::open(&url).await.unwrap()).await;
            }

            #[cfg(all(feature = "postgres", unix))]
            #[tokio::test]
            async fn on_postgres() {
                if let Some(place) = crate::snapshot::postgres_place::Place::fresh().await {
                    body(place.open().await).await;
                }
            }
        })+
    };
}

mod facets;
mod fake;
mod files;
#[cfg(feature = "governed")]
mod governed;
#[cfg(feature = "hierarchical")]
mod graph;
mod hostile;
mod kv;
mod limits;
mod pages;
mod refusals;
mod schema;

use std::sync::Arc;

use memory::{Memory, MemoryTool, Policy, RunContext, ScopeKind};
use memory_conformance::TestClock;
use memory_conformance::reference::Reference;
use serde_json::{Map, Value};

/// A run of agent `planner` of tenant `acme`.
fn run(user: Option<&str>) -> RunContext {
    let run = RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "run-1".parse().unwrap());
    match user {
        Some(user) => run.with_user(user.parse().unwrap()),
        None => run,
    }
}

/// Every key/value provider of this build, each empty.
async fn providers(clock: &Arc<TestClock>) -> Vec<Memory> {
    let mut all = vec![Memory::new(Arc::new(Reference::new(clock.clone()))).unwrap()];
    if cfg!(feature = "sqlite") {
        let registry = memory::Registry::default().with_clock(clock.clone());
        all.push(registry.open("sqlite::memory:").await.unwrap());
    }
    all
}

/// A tool on each provider that may use every scope.
async fn tools(clock: &Arc<TestClock>) -> Vec<MemoryTool> {
    let policy = Policy::default().with_memory_scopes(ScopeKind::ALL);
    providers(clock)
        .await
        .into_iter()
        .map(|memory| MemoryTool::new(memory, policy.clone(), run(Some("ada"))).unwrap())
        .collect()
}

/// Calls the tool and requires one JSON object.
async fn call(tool: &MemoryTool, input: &str) -> Map<String, Value> {
    let answer = tool.call(input).await;
    match serde_json::from_str(&answer) {
        Ok(Value::Object(answer)) => answer,
        other => panic!("not an object: {answer}: {other:?}"),
    }
}

/// Calls the tool and requires success.
async fn ok(tool: &MemoryTool, input: &str) -> Map<String, Value> {
    let answer = call(tool, input).await;
    assert!(!answer.contains_key("error"), "{input}: {answer:?}");
    answer
}

/// Calls the tool and requires an error of the documented shape; returns code, message, details.
async fn refused(tool: &MemoryTool, input: &str) -> (String, String, Map<String, Value>) {
    let answer = call(tool, input).await;
    let shown: String = input.chars().take(200).collect();
    assert_eq!(answer.keys().collect::<Vec<_>>(), ["error"], "{shown}: {answer:?}");
    let error = answer["error"].as_object().unwrap();
    assert_eq!(error.len(), 4, "{error:?}");
    assert!(error["retryable"].is_boolean());
    (
        error["code"].as_str().unwrap().to_owned(),
        error["message"].as_str().unwrap().to_owned(),
        error["details"].as_object().unwrap().clone(),
    )
}

async fn code(tool: &MemoryTool, input: &str) -> String {
    refused(tool, input).await.0
}
