//! A store of many small scopes.

use memory::sql::StatementOptions;
use memory::{BulkOptions, Json, Key, Memory, NewEntry, RunContext, Scope, ScopeId};

use crate::support::store::Store;

/// The tenants of the scopes, in turn.
pub(crate) const TENANTS: [&str; 3] = ["a", "b", "c"];

/// Fills a store with `count` scopes of three entries, every tenth with a database.
pub(crate) async fn filled(store: &Store, count: usize) -> Memory {
    let memory = store.open().await;
    for at in 0..count {
        let scope = Scope::user(TENANTS[at % 3], &format!("user-{at}")).unwrap();
        let items =
            (0..3).map(|at| NewEntry::new(Key::new(format!("k{at}")).unwrap(), Json::string("a few words")));
        memory.backend().unwrap().bulk_insert(&scope, items.collect(), BulkOptions::default()).await.unwrap();
        if at % 10 == 0 {
            let id = |id: &str| ScopeId::new(id).unwrap();
            let run = RunContext::new(scope.tenant.clone(), id("t"), id("r"));
            let sql = "CREATE TABLE t (a INTEGER)";
            let facet = memory.sql().unwrap();
            facet.exec(&run, &scope, sql, &[], StatementOptions::default()).await.unwrap();
        }
    }
    memory
}

/// The number of scopes in a test: from the environment, or `usual`.
pub(crate) fn count(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
