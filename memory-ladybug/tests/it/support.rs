//! Graphs in a folder of their own.

#[path = "../../../memory-hierarchical/tests/it/support/rows.rs"]
mod rows;

pub(crate) use rows::*;

use std::sync::Arc;

use memory_ladybug::LadybugGraphs;
use tempfile::TempDir;

/// The bodies are those of the tests of `memory-hierarchical`, which name their stores so.
macro_rules! on_both_stores {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident) $body:block)+) => {
        $(mod $name {
            #[allow(unused_imports, reason = "not every body needs all")]
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_ladybug() {
                let $world = $crate::support::World::new();
                $body
            }
        })+
    };
}
pub(crate) use on_both_stores;

pub(crate) struct World {
    pub(crate) graphs: Arc<LadybugGraphs>,
    pub(crate) folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let world = Self { graphs: graphs_in(&folder), folder };
        std::fs::create_dir(world.original()).unwrap();
        world
    }

    /// The folder of the original's files.
    pub(crate) fn original(&self) -> std::path::PathBuf {
        self.folder.path().join("original")
    }

    /// The file of an agent's graph.
    pub(crate) fn file(&self, agent: &str) -> std::path::PathBuf {
        self.folder.path().join("graphs").join(agent).join("graph_db")
    }

    /// Other graphs in the same folders.
    pub(crate) fn others(&self) -> Arc<LadybugGraphs> {
        graphs_in(&self.folder)
    }
}

fn graphs_in(folder: &TempDir) -> Arc<LadybugGraphs> {
    let path = folder.path();
    Arc::new(LadybugGraphs::new(path.join("graphs"), Some(path.join("original"))))
}

/// Has the engine do these statements on a file, and leave them in its log.
pub(crate) fn logged(path: &std::path::Path, statements: impl Iterator<Item = String>) {
    let database = lbug::Database::new(path, lbug::SystemConfig::default().max_db_size(1 << 30)).unwrap();
    let connection = lbug::Connection::new(&database).unwrap();
    connection.query("CALL force_checkpoint_on_close = false").unwrap();
    for statement in statements {
        connection.query(&statement).unwrap();
    }
}
