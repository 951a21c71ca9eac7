//! A store of many small scopes.

use memory::{Memory, Scope};

use crate::support::store::{Store, exec, fill};

/// The tenants of the scopes, in turn.
pub(crate) const TENANTS: [&str; 3] = ["a", "b", "c"];

/// Fills a store with `count` scopes of three entries, every tenth with a database.
pub(crate) async fn filled(store: &Store, count: usize) -> Memory {
    let memory = store.open().await;
    for at in 0..count {
        let scope = Scope::user(TENANTS[at % 3], &format!("user-{at}")).unwrap();
        fill(&memory, &scope, (0..3).map(|at| (format!("k{at}"), "a few words".to_owned()))).await;
        if at % 10 == 0 {
            exec(&memory, &scope, "CREATE TABLE t (a INTEGER)").await;
        }
    }
    memory
}

/// The number of scopes in a test: from the environment, or `usual`.
pub(crate) fn count(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
