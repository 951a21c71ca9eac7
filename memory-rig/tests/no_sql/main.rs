//! SQLite in a build without SQL, as adopters of the facade's default features have it. Builds of the workspace have every
//! feature, and a build for this alone would compile everything once more, so it stands in this package outside the workspace.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests panic on anything unexpected")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use memory_conformance::{Fixture, Harness, Options, TestClock, async_trait, run};
use memory_core::{BackendExt as _, ErrorKind, GetOptions, Key, Provider, Result, Scope};
use memory_sqlite::{SqlConfig, SqliteConfig, SqliteProvider};

struct Memory;

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &str {
        "sqlite without SQL"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        let provider = SqliteProvider::open_in_memory(SqliteConfig::default(), fixture.clock.clone())?;
        Ok(Box::new(provider.with_embedder(fixture.embedder)))
    }
}

#[test]
fn everything_but_sql_passes_the_suite() {
    let report = run(Arc::new(Memory), &Options::default(), |_| ControlFlow::Continue(()));
    assert!(report.is_success(), "{}", report.to_markdown());
    let provider =
        SqliteProvider::open_in_memory(SqliteConfig::default(), Arc::new(TestClock::new())).unwrap();
    assert!(!provider.capabilities().sql);
    assert!(provider.sql().is_none());
}

fn open(path: &Path, config: SqliteConfig) -> Result<SqliteProvider> {
    SqliteProvider::open(path, config, Arc::new(TestClock::new()))
}

#[test]
fn a_store_with_databases_of_agents_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    drop(open(&path, SqliteConfig::default()).unwrap());
    let left = folder.path().join("memory.db.sql").join("0".repeat(32));
    std::fs::create_dir_all(&left).unwrap();
    let refused = open(&path, SqliteConfig::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.message().contains("feature `sql`"), "{refused}");
    assert!(left.exists());
}

#[test]
fn what_appears_meanwhile_stops_an_eviction_and_a_forget() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let provider = open(&path, SqliteConfig::default()).unwrap();
    std::fs::create_dir_all(folder.path().join("memory.db.sql").join("0".repeat(32))).unwrap();
    let scope = Scope::agent("acme", "ada").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let key = Key::new("note").unwrap();
    let entries = provider.backend().unwrap();
    runtime.block_on(entries.put(&scope, &key, true.into())).unwrap();
    let evicted = runtime.block_on(provider.evict(&scope, memory_core::Timestamp::MAX));
    assert_eq!(evicted.unwrap_err().kind(), ErrorKind::Unsupported);
    let target = memory_core::EraseTarget::Scope(scope.clone());
    let erased = runtime.block_on(provider.erase(&target));
    assert_eq!(erased.unwrap_err().kind(), ErrorKind::Unsupported);
    assert!(
        runtime.block_on(entries.get(&scope, &key, GetOptions::default())).unwrap().is_some(),
        "erased though refused"
    );
}

#[test]
fn options_of_sql_are_refused_rather_than_passed_over() {
    let mut sql = SqlConfig::default();
    sql.max_transactions = 1;
    let config = SqliteConfig::default().with_sql(sql);
    let refused = SqliteProvider::open_in_memory(config, Arc::new(TestClock::new())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
