//! The example of the documentation page compiles.

use std::sync::Arc;

use memory_core::layer::{AddOptions, Message, RecallQuery, Role};
use memory_core::{Checked, Clock, IdGen, MemoryLayer as _, RunContext, Scope, ScopeId, TenantId};
use memory_http::EgressPolicy;
use memory_mem0::{Mem0Options, Mem0Provider};

async fn example(clock: Arc<dyn Clock>, ids: Arc<dyn IdGen>) -> memory_core::Result<()> {
    let mut options = Mem0Options::self_hosted("http://localhost:8888");
    options.api_key_env = Some("MEM0_API_KEY".into());
    // Only public https addresses can be reached unless others are listed.
    let policy = EgressPolicy::new().allow_host("localhost:8888")?;
    let memory = Checked::new(Mem0Provider::open(options, policy, clock, ids)?)?;

    let run = RunContext::new(TenantId::new("acme")?, ScopeId::new("planner")?, ScopeId::new("run-1")?);
    let scope = Scope::user("acme", "alice")?;
    let said = [Message::new(Role::User, "I live in Lisbon. I love green tea.")];
    let outcome = memory.add(&run, &scope, &said, AddOptions::default()).await?;
    // Done([…, …]): two facts, with their ids.
    for fact in memory.recall(&run, &scope, RecallQuery::new("where do I live")).await? {
        // User said: I live in Lisbon
        println!("{} {:?}", fact.memory, fact.score);
    }
    let _ = outcome;
    Ok(())
}

#[test]
fn the_page_shows_this_example() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mem0.md");
    // A published crate does not contain the documentation.
    let Ok(page) = std::fs::read_to_string(page) else { return };
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let flat = |code: &str| code.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert!(flat(include_str!("page.rs")).contains(flat(shown).trim()));
}
