//! What every store does with a graph from a file, and a graph from store to store.

#[path = "../../../memory-hierarchical/tests/it/transfer/files.rs"]
pub(crate) mod files;
#[path = "../../../memory-hierarchical/tests/it/transfer/import.rs"]
mod import;

use std::sync::Arc;

use memory_core::{Clock, IdGen, Provider, Timestamp};
use memory_fakes::stores::Store;
use memory_hierarchical::transfer::{Mode, import as store, write_json};
use memory_hierarchical::{GraphStore, Sessions, SqlGraphs};
use memory_sqlite::{SqliteConfig, SqliteProvider};

use crate::support::{World, agent};
use files::{graph_of, multiset, stored};

#[derive(Debug)]
pub(crate) struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
    }
}

#[derive(Debug)]
struct NoIds;

impl IdGen for NoIds {
    fn fresh(&self) -> u128 {
        7
    }
}

pub(crate) async fn graphs_in(provider: Arc<dyn Provider>) -> SqlGraphs {
    SqlGraphs::open(provider, &"acme".parse().unwrap(), Arc::new(NoIds)).await.unwrap()
}

fn sqlite() -> Arc<dyn Provider> {
    Arc::new(SqliteProvider::open_in_memory(SqliteConfig::default(), Arc::new(Still)).unwrap())
}

/// Sessions in SQLite.
pub(crate) async fn sessions() -> Sessions {
    Sessions::open(sqlite(), &"acme".parse().unwrap(), Arc::new(Still), Arc::new(NoIds)).await.unwrap()
}

/// Through a file each time. Without a server, PostgreSQL is left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_every_store_and_back_it_is_the_same_graph() {
    let (ada, world, server) = (agent("ada"), World::new(), Store::postgres().await);
    let (sqlite, postgres) = (
        graphs_in(sqlite()).await,
        match &server {
            Some(server) => Some(graphs_in(server.provider.clone()).await),
            None => None,
        },
    );
    let graph = graph_of("json/my-agent.export.json").unwrap_or_else(import::small);
    store(&*world.graphs, &ada, graph.clone(), Mode::Replace).await.unwrap();
    let mut stores: Vec<&dyn GraphStore> = vec![&*world.graphs, &sqlite];
    stores.extend(postgres.as_ref().map(|graphs| graphs as &dyn GraphStore));
    stores.push(&*world.graphs);
    let mut files: Vec<Vec<u8>> = Vec::new();
    for graphs in stores {
        if let Some(bytes) = files.last() {
            let read = memory_hierarchical::transfer::read_json(&mut bytes.as_slice(), 1 << 20).unwrap();
            store(graphs, &ada, read.graph, Mode::Replace).await.unwrap();
        }
        let mut bytes = Vec::new();
        write_json(&ada, &stored(graphs, &ada).await, Timestamp::EPOCH, &mut bytes).unwrap();
        files.push(bytes);
    }
    assert!(files.iter().all(|file| *file == files[0]));
    assert_eq!(multiset(&stored(&*world.graphs, &ada).await), multiset(&graph));
}
