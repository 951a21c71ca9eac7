//! Opens an in-memory database; writes, reads, searches, and writes only if nothing changed meanwhile.
//!
//! `cargo run -p memory --example quickstart`

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use memory::{
    Expect, GetOptions, Key, MemoryTool, Policy, RunContext, Scope, ScopeKind, SearchQuery, SetOptions,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = memory::open("sqlite::memory:").await?;
    let backend = memory.backend().ok_or("this provider has no key/value facet")?;
    let scope = Scope::agent("acme", "planner")?;
    let key: Key = "note/1".parse()?;

    let first =
        backend.set(&scope, &key, r#""Dinner in Lisbon on Friday""#.parse()?, SetOptions::default()).await?;
    println!("set {key}: version {}", first.version);

    let entry = backend.get(&scope, &key, GetOptions::default()).await?.ok_or("it was just written")?;
    println!("get {key}: {}", entry.value);

    for hit in backend.search(&scope, SearchQuery::new("where is dinner")).await?.hits {
        println!("search: {} with score {:.2}", hit.entry.key, hit.score);
    }

    let only_if_unchanged = SetOptions::default().with_expect(Expect::Version(first.version));
    let second = backend
        .set(&scope, &key, r#""Dinner moved to Saturday""#.parse()?, only_if_unchanged.clone())
        .await?;
    println!("compare-and-set: version {}", second.version);
    match backend.set(&scope, &key, r#""Dinner is cancelled""#.parse()?, only_if_unchanged).await {
        Ok(outcome) => return Err(format!("a stale write was accepted: {outcome:?}").into()),
        Err(error) => println!("compare-and-set again: {}: {error}", error.kind()),
    }

    // What a runtime gives its model: the same memory behind the operator's policy.
    let run = RunContext::new("acme".parse()?, "planner".parse()?, "run-1".parse()?);
    let tool = MemoryTool::new(memory, Policy::default().with_memory_scopes([ScopeKind::Agent]), run)?;
    println!("tool: {}", tool.call(r#"{"op": "get", "key": "note/1"}"#).await);
    println!("tool: {}", tool.call(r#"{"op": "get", "key": "note/1", "scope": "user"}"#).await);
    Ok(())
}
