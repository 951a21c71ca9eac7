//! Prints how long 600,000 rows take: `cargo test -p memory-hierarchical --test it -- pace --ignored --nocapture`.

use std::time::Instant;

use memory_hierarchical::{Edge, GraphStore as _, Semantic};

use crate::support::*;

async fn load(world: World) {
    let ada = agent("ada");
    let (nodes, edges) = (100_000, 500_000);
    let begun = Instant::now();
    let mut write = world.graphs.write(&ada).await.unwrap();
    for from in (0..nodes).step_by(10_000) {
        let some: Vec<Semantic> = (from..from + 10_000).map(|at| semantic(&format!("n{at:06}"))).collect();
        write.add_semantic(&some).await.unwrap();
    }
    for from in (0..edges).step_by(10_000) {
        let end = |at: usize, step: usize| format!("n{:06}", at.wrapping_mul(step) % nodes);
        let some: Vec<Edge> =
            (from..from + 10_000).map(|at| similar(&format!("n{:06}", at / 5), &end(at, 7_919))).collect();
        write.add_edges(&some).await.unwrap();
    }
    write.commit().await.unwrap();
    println!("{}: 600,000 rows in {:?}", world.graphs.name(), begun.elapsed());
    assert_eq!(world.graphs.counts(&ada).await.unwrap().similar_to_edge_count, edges as u64);
    let begun = Instant::now();
    let mut write = world.graphs.write(&ada).await.unwrap();
    write.clear().await.unwrap();
    write.commit().await.unwrap();
    println!("{}: cleared in {:?}", world.graphs.name(), begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn on_sqlite() {
    load(World::on(Store::sqlite()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn on_postgres() {
    if let Some(store) = Store::postgres().await {
        load(World::on(store).await).await;
    }
}
