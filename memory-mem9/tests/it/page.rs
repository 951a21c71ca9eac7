//! The example of the documentation page compiles.

use std::sync::Arc;

use memory_core::layer::{AddOptions, Message, RecallQuery, Role};
use memory_core::{Checked, Clock, IdGen, MemoryLayer as _, RunContext, Scope, ScopeId, TenantId};
use memory_http::{EgressPolicy, KeyRef};
use memory_mem9::{Mem9Options, Mem9Provider};

async fn example(clock: Arc<dyn Clock>, ids: Arc<dyn IdGen>) -> memory_core::Result<()> {
    let mut options = Mem9Options::new("https://api.mem9.ai");
    options.preview = true;
    options.tenant_keys.insert("acme".into(), KeyRef::env("ACME_MEM9_KEY"));
    let memory = Checked::new(Mem9Provider::open(options, EgressPolicy::new(), clock, ids)?)?;

    let run = RunContext::new(TenantId::new("acme")?, ScopeId::new("planner")?, ScopeId::new("run-1")?);
    let scope = Scope::user("acme", "alice")?;
    let said = [Message::new(Role::User, "I live in Lisbon. I love green tea.")];
    memory.add(&run, &scope, &said, AddOptions::default()).await?;
    for fact in memory.recall(&run, &scope, RecallQuery::new("green tea")).await? {
        // I love green tea Some(0.97)
        println!("{} {:?}", fact.memory, fact.score);
    }
    Ok(())
}

#[test]
fn the_page_shows_this_example() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mem9.md");
    // A published crate does not contain the documentation.
    let Ok(page) = std::fs::read_to_string(page) else { return };
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let flat = |code: &str| code.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert!(flat(include_str!("page.rs")).contains(flat(shown).trim()));
}
