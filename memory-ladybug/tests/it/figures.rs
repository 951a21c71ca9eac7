//! What graphs cost on the engine, and in tables of SQLite beside it: the figures of `docs/hierarchical.md`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_conformance::random::Random;
use memory_hierarchical::transfer::{Graph, Mode, import};
use memory_hierarchical::{GraphRecall, GraphStore, RecallOptions, Semantic};
use memory_ladybug::LadybugGraphs;
use memory_sqlite::{SqliteConfig, SqliteProvider};

use crate::support::{agent, semantic, similar};
use crate::transfer::{Still, graphs_in};

/// Memories in the graph.
const MEMORIES: usize = 2_000;
/// Edges that begin at each memory.
const DEGREE: usize = 5;
/// Rounds of whole graphs, and of everything else.
const FEW: usize = 3;
const MANY: usize = 21;

fn id(at: usize) -> String {
    format!("n{at:06}")
}

/// A memory of 40 words.
fn memory(at: usize) -> Semantic {
    let mut random = Random::new(at as u64);
    let words: Vec<String> = (0..40).map(|_| format!("w{}", random.below(20_000))).collect();
    Semantic { content: words.join(" "), ..semantic(&id(at)) }
}

fn graph() -> Graph {
    let mut graph = Graph::default();
    graph.semantic.extend((0..MEMORIES).map(memory));
    for at in 0..MEMORIES * DEGREE {
        graph.push(similar(&id(at / DEGREE), &id((at / DEGREE + at * 7_919) % MEMORIES)));
    }
    graph
}

/// The median of some rounds.
async fn took(rounds: usize, mut work: impl AsyncFnMut(usize)) -> Duration {
    let mut all = Vec::new();
    for round in 0..rounds {
        let begun = Instant::now();
        work(round).await;
        all.push(begun.elapsed());
    }
    all.sort();
    all[rounds / 2]
}

/// The rows of a table: what was done, and how long it took.
async fn rows(graphs: Arc<dyn GraphStore>) -> Vec<(&'static str, Duration)> {
    let (ada, options) = (agent("ada"), RecallOptions::default());
    let store = async |graph, mode| drop(import(&*graphs, &ada, graph, mode).await.unwrap());
    let whole = graph();
    let one = async |at: usize| {
        let mut more = Graph::default();
        more.push(similar(&id(MEMORIES + at), &id(at)));
        more.semantic.push(memory(MEMORIES + at));
        store(more, Mode::Merge).await;
    };
    let ask = async |recall: &GraphRecall, at: usize| {
        let content = memory(at * 7_919 % MEMORIES).content;
        let words: Vec<&str> = content.split(' ').take(5).collect();
        assert!(!recall.recall(&ada, &words.join(" "), &options).await.unwrap().hits.is_empty());
    };
    let recall = || GraphRecall::new(Arc::clone(&graphs), 256 << 20);
    let warm = recall();
    vec![
        ("replacing import", took(FEW, async |_| store(whole.clone(), Mode::Replace).await).await),
        ("merge of what is there", took(FEW, async |_| store(whole.clone(), Mode::Merge).await).await),
        (
            "reading the whole graph",
            took(FEW, async |_| drop(Graph::read(&*graphs, &ada).await.unwrap())).await,
        ),
        ("first recall", took(FEW, async |at| ask(&recall(), at).await).await),
        ("recall, two steps", {
            ask(&warm, 0).await;
            took(MANY, async |at| ask(&warm, at).await).await
        }),
        ("storing a memory and an edge", took(MANY, async |at| one(at).await).await),
        ("recall after that", {
            let mut all = Vec::new();
            for at in 0..MANY {
                one(MANY + at).await;
                all.push(took(1, async |_| ask(&warm, at).await).await);
            }
            all.sort();
            all[MANY / 2]
        }),
    ]
}

/// `cargo test --release -p memory-ladybug --features engine --test it figures -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a table to look at"]
async fn a_graph_on_the_engine_and_in_tables() {
    let folder = tempfile::tempdir().unwrap();
    let tables = tables(&folder.path().join("tables.db")).await;
    let engine = LadybugGraphs::new(folder.path().join("graphs"), None);
    let rows = [rows(Arc::new(engine)).await, rows(Arc::new(tables)).await];
    println!("| {MEMORIES} memories, {} edges | graph-db | sqlite |", MEMORIES * DEGREE);
    for ((name, engine), (_, tables)) in std::iter::zip(&rows[0], &rows[1]) {
        println!("| {name} | {engine:.1?} | {tables:.1?} |");
    }
    let file = folder.path().join("graphs/ada/graph_db");
    println!("| the engine's file | {} bytes | |", std::fs::metadata(file).unwrap().len());
}

async fn tables(path: &Path) -> memory_hierarchical::SqlGraphs {
    graphs_in(Arc::new(SqliteProvider::open(path, SqliteConfig::default(), Arc::new(Still)).unwrap())).await
}
