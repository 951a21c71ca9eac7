//! From store to store.

use memory_hierarchical::transfer::{Mode, import};

use super::files::{graph_of, multiset, stored};
use super::import::small;
use crate::support::{Store, World, agent};

/// From one store to the other and back, through a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_to_postgres_and_back_is_the_same_graph() {
    let Some(postgres) = Store::postgres().await else { return };
    let (postgres, sqlite) = (World::on(postgres).await, World::on(Store::sqlite()).await);
    let ada = agent("ada");
    let graph = graph_of("json/my-agent.export.json").unwrap_or_else(small);
    import(&*sqlite.graphs, &ada, graph.clone(), Mode::Replace).await.unwrap();
    let mut files = Vec::new();
    for world in [&sqlite, &postgres, &sqlite] {
        if let Some(bytes) = files.last() {
            let bytes: &Vec<u8> = bytes;
            let read = memory_hierarchical::transfer::read_json(&mut bytes.as_slice(), 1 << 20).unwrap();
            import(&*world.graphs, &ada, read.graph, Mode::Replace).await.unwrap();
        }
        let mut bytes = Vec::new();
        let now = memory_core::Timestamp::EPOCH;
        memory_hierarchical::transfer::write_json(&ada, &stored(&*world.graphs, &ada).await, now, &mut bytes)
            .unwrap();
        files.push(bytes);
    }
    assert!(files.iter().all(|file| *file == files[0]));
    assert_eq!(multiset(&stored(&*sqlite.graphs, &ada).await), multiset(&graph));
}
