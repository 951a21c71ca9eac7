//! Files of the original, and graphs for comparison.

use std::path::PathBuf;

use memory_hierarchical::transfer::{Graph, MAX_BYTES, read_json};
use memory_hierarchical::{Agent, EdgeKind, GraphStore};
use serde_json::{Value, json};

/// A file of the original, or `None` after printing why the data is missing.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let file = shared.join("data/amplihack").join(name);
    if !file.is_file() {
        println!("skipped: no data/amplihack/{name} under MEMORY_SHARED");
        return None;
    }
    Some(file)
}

/// A JSON file of the original.
pub(crate) fn graph_of(name: &str) -> Option<Graph> {
    let mut file = std::fs::File::open(shared(name)?).unwrap();
    Some(read_json(&mut file, MAX_BYTES).unwrap().graph)
}

/// Every node and edge as text, sorted.
pub(crate) fn multiset(graph: &Graph) -> Vec<String> {
    let line = |table: &str, row: Value| json!([table, row]).to_string();
    let mut all: Vec<String> = graph.semantic.iter().map(|row| line("semantic", json!(row))).collect();
    all.extend(graph.episodic.iter().map(|row| line("episodic", json!(row))));
    for kind in EdgeKind::ALL {
        all.extend(graph.edges(kind).map(|row| line("edge", json!(row))));
    }
    all.sort_unstable();
    all
}

/// The agent's graph.
pub(crate) async fn stored(graphs: &dyn GraphStore, agent: &Agent) -> Graph {
    Graph::read(graphs, agent).await.unwrap()
}
