//! Closing what was opened stores what it holds, whatever wraps the store.

use std::path::Path;

use memory::fallback::{FallbackOptions, pair};
use memory::{GetOptions, Json, Key, Memory, Scope, SetOptions};

async fn open(file: &Path) -> Memory {
    memory::open(&format!("sqlite:{}", file.display())).await.unwrap()
}

/// How often the entry was read, according to the last stored count.
async fn accesses(memory: &Memory) -> u64 {
    let entry = memory.backend().unwrap().get(&scope(), &key(), GetOptions::uncounted()).await;
    entry.unwrap().unwrap().access_count
}

fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

async fn write_and_read(memory: &Memory) {
    let backend = memory.backend().unwrap();
    backend.set(&scope(), &key(), Json::null(), SetOptions::default()).await.unwrap();
    backend.get(&scope(), &key(), GetOptions::default()).await.unwrap().unwrap();
}

#[tokio::test]
async fn closing_a_pair_closes_both_stores() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["primary.db", "spare.db"].map(|name| folder.path().join(name));
    let (primary, spare) = (open(&files[0]).await, open(&files[1]).await);
    let memory = pair(primary.clone(), spare.clone(), FallbackOptions::new("spare")).unwrap();
    write_and_read(&primary).await;
    write_and_read(&spare).await;
    memory.close().await.unwrap();
    for file in &files {
        assert_eq!(accesses(&open(file).await).await, 1, "{}", file.display());
    }
}

#[cfg(feature = "sql-workers")]
mod with_workers {
    use std::sync::Arc;

    use memory::Registry;
    use memory::workers::WorkerOptions;
    use memory_conformance::TestEmbedder;

    use super::*;

    /// Its handles stay alive while it is asked, so that nothing is stored because they were dropped.
    #[tokio::test]
    async fn closing_an_opened_store_stores_the_access_counts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let memory = open(&file).await.with_sql_workers(WorkerOptions::new("none", ["none"])).unwrap();
        write_and_read(&memory).await;
        memory.close().await.unwrap();
        assert_eq!(accesses(&open(&file).await).await, 1);
    }

    #[tokio::test]
    async fn a_store_keeps_its_models_when_its_sql_runs_in_processes() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        let registry = Registry::default().with_embedder(Arc::new(TestEmbedder::new()));
        let models = |memory: &Memory| {
            [memory.embedding_model(), memory.conversation_model()].map(Option::<&_>::cloned)
        };
        let memory = registry.open(&url).await.unwrap();
        let known = models(&memory);
        assert!(known.iter().all(Option::is_some));
        let memory = memory.with_sql_workers(WorkerOptions::new("none", ["none"])).unwrap();
        assert_eq!(models(&memory), known);
    }
}
