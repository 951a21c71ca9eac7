//! Recall by words and along edges.

use std::sync::{Arc, Mutex};

use memory_core::{EraseTarget, ErrorKind, Hook, Interposed, Next, Reply, Request};
use memory_hierarchical::{
    Agent, DEFAULT_MEMORY_BYTES, Direction, Edge, EdgeKind, GraphHit, GraphRecall, GraphStore as _,
    RecallOptions, Semantic, SqlGraphs,
};

use crate::support::*;

fn says(id: &str, content: &str) -> Semantic {
    Semantic { concept: String::new(), content: content.to_owned(), tags: Vec::new(), ..semantic(id) }
}

async fn keep(world: &World, agent: &Agent, nodes: &[Semantic], edges: &[Edge]) {
    let mut write = world.graphs.write(agent).await.unwrap();
    write.add_semantic(nodes).await.unwrap();
    write.add_edges(edges).await.unwrap();
    write.commit().await.unwrap();
}

fn recaller(world: &World) -> GraphRecall {
    GraphRecall::new(world.graphs.clone(), DEFAULT_MEMORY_BYTES)
}

fn ids(hits: &[GraphHit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.node.id()).collect()
}

on_both_stores! {
    async fn a_graph_that_was_erased_meanwhile_is_recalled_as_it_is(world) {
        let (ada, recall) = (agent("ada"), recaller(&world));
        let options = RecallOptions::default();
        keep(&world, &ada, &[says("old", "the port is 8080")], &[]).await;
        assert_eq!(ids(&recall.recall(&ada, "port", &options).await.unwrap().hits), ["old"]);
        let erase = || async {
            world.provider().erase(&EraseTarget::Tenant(tenant())).await.unwrap();
        };
        erase().await;
        // Another handle, like that of another process, writes as many times as before.
        let other = SqlGraphs::open(world.provider(), &tenant(), world.ids.clone()).await.unwrap();
        let mut write = other.write(&ada).await.unwrap();
        write.add_semantic(&[says("new", "the port is 9090")]).await.unwrap();
        write.commit().await.unwrap();
        assert_eq!(ids(&recall.recall(&ada, "port", &options).await.unwrap().hits), ["new"]);
        // More was written since, so only what is new should be read.
        erase().await;
        for id in ["a", "b", "c"] {
            keep(&world, &ada, &[says(id, "the proxy")], &[]).await;
        }
        assert!(recall.recall(&ada, "port", &options).await.unwrap().hits.is_empty());
        assert_eq!(recall.recall(&ada, "proxy", &options).await.unwrap().hits.len(), 3);
        erase().await;
        assert!(recall.recall(&ada, "proxy", &options).await.unwrap().hits.is_empty());
    }

    async fn a_superseded_memory_comes_last_and_is_marked(world) {
        let ada = agent("ada");
        let nodes = [says("old", "port port port 8080"), says("new", "the port is 9090"), says("x", "harbour port")];
        keep(&world, &ada, &nodes, &[supersedes("new", "old")]).await;
        let hits = recaller(&world).recall(&ada, "port 8080", &RecallOptions::default()).await.unwrap().hits;
        assert_eq!(hits.len(), 3);
        assert_eq!((hits[2].node.id(), hits[2].is_superseded), ("old", true));
        assert!(hits[2].score > hits[1].score);
        assert!(!hits[0].is_superseded && !hits[1].is_superseded);
    }

    async fn recall_never_leaves_the_agent(world) {
        let (ada, bob) = (agent("ada"), agent("bob"));
        keep(&world, &ada, &[says("a", "secret deploy key")], &[]).await;
        keep(&world, &bob, &[says("b", "deploy")], &[]).await;
        let recall = recaller(&world);
        let options = RecallOptions::default();
        let alone = recall.recall(&bob, "deploy", &options).await.unwrap().hits;
        assert_eq!(ids(&alone), ["b"]);
        keep(&world, &ada, &[says("a2", "deploy deploy deploy")], &[]).await;
        assert_eq!(recall.recall(&bob, "deploy", &options).await.unwrap().hits, alone);
        assert!(recall.recall(&agent("nobody"), "deploy", &options).await.unwrap().hits.is_empty());
    }

    async fn an_index_without_memory_for_others_still_answers(world) {
        let recall = GraphRecall::new(world.graphs.clone(), 0);
        for name in ["ada", "bob", "ada"] {
            keep(&world, &agent(name), &[says(name, "deploy")], &[]).await;
            let hits = recall.recall(&agent(name), "deploy", &RecallOptions::default()).await.unwrap().hits;
            assert_eq!(ids(&hits), [name]);
        }
    }

    async fn options_out_of_range_are_refused(world) {
        let recall = recaller(&world);
        let long = "x".repeat((64 << 10) + 1);
        for (query, options, kind) in [
            ("x", RecallOptions::default().with_top_k(0), ErrorKind::InvalidArgument),
            ("x", RecallOptions::default().with_top_k(1_001), ErrorKind::TooLarge),
            ("x", RecallOptions::default().with_steps(5), ErrorKind::TooLarge),
            ("x", RecallOptions::default().with_looks(0), ErrorKind::InvalidArgument),
            ("x", RecallOptions::default().with_looks(50_001), ErrorKind::TooLarge),
            (long.as_str(), RecallOptions::default(), ErrorKind::TooLarge),
        ] {
            assert_eq!(recall.recall(&agent("ada"), query, &options).await.unwrap_err().kind(), kind);
        }
    }
}

/// A memory that many others resemble: lists stay as short as requested, and a path leads through it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_with_many_edges_is_walked_and_listed() {
    const MANY: usize = 3_000;
    let world = World::on(Store::sqlite()).await;
    let ada = agent("ada");
    let mut write = world.graphs.write(&ada).await.unwrap();
    write.add_semantic(&[says("hub", "the hub")]).await.unwrap();
    let spoke = |at: usize| says(&format!("n{at:04}"), "spoke");
    write.add_semantic(&(0..MANY).map(spoke).collect::<Vec<_>>()).await.unwrap();
    let edges: Vec<Edge> = (0..MANY).rev().map(|at| similar(&format!("n{at:04}"), "hub")).collect();
    write.add_edges(&edges).await.unwrap();
    write.commit().await.unwrap();
    let hits =
        recaller(&world).recall(&ada, "hub", &RecallOptions::default().with_steps(4)).await.unwrap().hits;
    assert_eq!((ids(&hits)[..3].to_vec(), hits.len()), (vec!["hub", "n0000", "n0001"], 10));
    let memory = memory_hierarchical::AgentMemory::new(
        world.graphs.clone(),
        ada,
        world.clock.clone(),
        world.ids.clone(),
    );
    let beside = memory.neighbours("hub", Direction::Both, &EdgeKind::ALL, 3).await.unwrap();
    let shown: Vec<&str> = beside.shown.iter().map(|one| one.node.id()).collect();
    assert_eq!((beside.total, shown), (MANY, vec!["n0000", "n0001", "n0002"]));
    let path = memory.path("n0000", "n2999", Direction::Both, 2).await.unwrap();
    assert_eq!(path.map(|path| path.len()), Some(2));
    // It supersedes many, too: whether that closes a circle is checked from the newer memory.
    let many: Vec<Edge> = (0..MANY).map(|at| supersedes("hub", &format!("n{at:04}"))).collect();
    keep(&world, memory.agent(), &[says("newest", "")], &many).await;
    assert!(memory.link(supersedes("newest", "hub")).await.unwrap());
    assert_eq!(memory.link(supersedes("n0007", "newest")).await.unwrap_err().kind(), ErrorKind::Conflict);
}

/// Answers of a few rows.
#[derive(Debug)]
struct Short;

#[async_trait::async_trait]
impl Hook for Short {
    async fn before(&self, request: &mut Request) -> memory_core::Result<Option<Reply>> {
        if let Request::Query { options, .. } = request {
            options.max_bytes = 2_000;
        }
        Ok(None)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edges_longer_than_one_answer_are_read_by_pages() {
    let world = World::on(Store::sqlite()).await;
    let ada = agent("ada");
    let ids: Vec<String> = (0..40).map(|at| format!("n{at:02}")).collect();
    let nodes: Vec<Semantic> = ids.iter().map(|id| says(id, "spoke")).collect();
    let edges: Vec<Edge> = ids.iter().map(|id| similar(id, "n07")).collect();
    keep(&world, &ada, &nodes, &edges).await;
    let short = Arc::new(Interposed::new(world.provider(), Short));
    let graphs = SqlGraphs::open(short, &tenant(), world.ids.clone()).await.unwrap();
    for (column, id) in [(Direction::Incoming, "n07"), (Direction::Both, "n07")] {
        let found = graphs.edges(&ada, &[id.to_owned()], column, &EdgeKind::ALL).await;
        assert_eq!(found.unwrap(), edges);
    }
    assert_eq!(graphs.edges(&ada, &ids, Direction::Outgoing, &EdgeKind::ALL).await.unwrap(), edges);
}

/// Explains every query before it runs, and keeps those that scan all rows of an agent.
#[derive(Debug, Default)]
struct Explained(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl Hook for Explained {
    async fn around(&self, request: Request, next: Next<'_>) -> memory_core::Result<Reply> {
        if let Request::Query { run, scope, sql, args, options } = &request {
            let (run, scope, args, options) = (run.clone(), scope.clone(), args.clone(), options.clone());
            let explained = format!("EXPLAIN QUERY PLAN {sql}");
            let plan = next.run(Request::Query { run, scope, sql: explained, args, options }).await?;
            let Reply::Query(plan) = plan else { panic!("{plan:?}") };
            let steps = plan.rows.iter().map(|step| format!("{step:?}"));
            // An agent's own row is found by its name.
            let steps = steps.filter(|step| !step.contains("graph_agents") && !step.contains("SEARCH g "));
            let scans = ["(agent_id=?)", "SCAN similar", "SCAN supersed"];
            let scans = steps.filter(|step| scans.iter().any(|scan| step.contains(scan)));
            self.0.lock().unwrap().extend(scans.map(|step| format!("{sql}: {step}")));
        }
        next.run(request).await
    }
}

/// Regression: SQLite looked for the edges that end at a memory among all edges of the agent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_question_about_a_memory_passes_over_the_whole_graph() {
    let world = World::on(Store::sqlite()).await;
    let ada = agent("ada");
    let nodes: Vec<Semantic> =
        ["a", "b", "c"].map(|id| Semantic { entity_name: "e".to_owned(), ..says(id, "spoke") }).into();
    keep(&world, &ada, &nodes, &[similar("a", "b"), supersedes("b", "c"), similar("c", "a")]).await;
    let scans = Arc::<Mutex<Vec<String>>>::default();
    let explained = Arc::new(Interposed::new(world.provider(), Explained(Arc::clone(&scans))));
    let graphs = Arc::new(SqlGraphs::open(explained, &tenant(), Arc::<TestIds>::default()).await.unwrap());
    let memory = memory_hierarchical::AgentMemory::new(
        graphs.clone(),
        ada.clone(),
        world.clock.clone(),
        world.ids.clone(),
    );
    let recall = GraphRecall::new(graphs.clone(), DEFAULT_MEMORY_BYTES);
    for limit in [1, 100] {
        memory.neighbours("a", Direction::Both, &EdgeKind::ALL, limit).await.unwrap();
    }
    assert!(memory.path("c", "b", Direction::Both, 16).await.unwrap().is_some());
    assert_eq!(memory.history("e").await.unwrap().len(), 3);
    assert!(memory.link(supersedes("a", "c")).await.unwrap());
    let seen = || std::mem::take(&mut *scans.lock().unwrap());
    assert_eq!(seen(), [""; 0]);
    // The first one reads the whole graph.
    recall.recall(&ada, "spoke", &RecallOptions::default()).await.unwrap();
    assert!(!seen().is_empty());
    for _ in 0..2 {
        recall.recall(&ada, "spoke", &RecallOptions::default()).await.unwrap();
        keep(&world, &ada, &[says("d", "")], &[]).await;
    }
    let ids: Vec<String> = ["a", "b"].map(str::to_owned).into();
    graphs.edges(&ada, &ids, Direction::Both, &EdgeKind::ALL).await.unwrap();
    assert_eq!(seen(), [""; 0]);
}

/// Replaces the graph right before a query.
#[derive(Debug)]
struct Replaced {
    other: SqlGraphs,
    at: Arc<Mutex<Option<usize>>>,
}

#[async_trait::async_trait]
impl Hook for Replaced {
    async fn before(&self, request: &mut Request) -> memory_core::Result<Option<Reply>> {
        let is_now = matches!(request, Request::Query { .. }) && {
            let mut left = self.at.lock().unwrap();
            let is_now = *left == Some(0);
            *left = left.and_then(|left| left.checked_sub(1));
            is_now
        };
        if is_now {
            replace(&self.other, &agent("ada"), "b").await;
        }
        Ok(None)
    }
}

/// Replaces a graph by ten memories.
async fn replace(graphs: &SqlGraphs, agent: &Agent, name: &str) {
    let nodes: Vec<Semantic> = (0..10).map(|at| says(&format!("{name}{at}"), "the proxy")).collect();
    let mut write = graphs.write(agent).await.unwrap();
    write.clear().await.unwrap();
    write.add_semantic(&nodes).await.unwrap();
    write.commit().await.unwrap();
}

/// Regression: it found nothing at all, because the index was of one graph and the memories of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_that_is_replaced_meanwhile_is_recalled_whole() {
    for is_known in [false, true] {
        for at in 0..8 {
            let world = World::on(Store::sqlite()).await;
            let ada = agent("ada");
            replace(&world.graphs, &ada, "a").await;
            let other = SqlGraphs::open(world.provider(), &tenant(), world.ids.clone()).await.unwrap();
            let at_query = Arc::new(Mutex::new(None));
            let hook = Replaced { other, at: Arc::clone(&at_query) };
            let provider = Arc::new(Interposed::new(world.provider(), hook));
            let graphs = SqlGraphs::open(provider, &tenant(), world.ids.clone()).await.unwrap();
            let recall = GraphRecall::new(Arc::new(graphs), DEFAULT_MEMORY_BYTES);
            let options = RecallOptions::default();
            if is_known {
                recall.recall(&ada, "proxy", &options).await.unwrap();
            }
            *at_query.lock().unwrap() = Some(at);
            let hits = recall.recall(&ada, "proxy", &options).await.unwrap().hits;
            assert_eq!(hits.len(), 10, "replaced before query {at}: {:?}", ids(&hits));
        }
    }
}
