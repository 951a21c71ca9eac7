//! Files that the original program wrote.

use std::fs;
use std::path::Path;

use memory_core::ErrorKind;
use memory_hierarchical::migrate::Layout;
use memory_hierarchical::rows::{Order, Page, Table};
use memory_hierarchical::transfer::{Graph, Mode, import};
use memory_hierarchical::{Direction, EdgeKind, EntryQuery, GraphStore as _};
use serde_json::json;

use crate::support::{World, agent, logged, semantic};
use crate::transfer::files::{graph_of, multiset, shared, stored};
use crate::transfer::sessions;

const GRAPH: &str = "graph/hierarchical_my-agent.lbug-v40";

/// Puts the original's graph of `my-agent` where it would have it.
fn placed(world: &World, name: &str) -> Option<std::path::PathBuf> {
    let file = world.original().join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::copy(shared(GRAPH)?, &file).unwrap();
    Some(file)
}

fn beside(file: &Path) -> usize {
    fs::read_dir(file.parent().unwrap()).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_place_is_found_and_exports_what_the_original_exports() {
    for name in ["my-agent/graph_db", "my-agent/kuzu_db", "my-agent"] {
        let (world, agent) = (World::new(), agent("my-agent"));
        let Some(file) = placed(&world, name) else { return };
        if name.ends_with("kuzu_db") {
            // An empty folder holds no graph.
            fs::create_dir(file.with_file_name("graph_db")).unwrap();
        }
        let before = (fs::read(&file).unwrap(), beside(&file));
        assert_eq!(world.graphs.agents().await.unwrap(), std::slice::from_ref(&agent));
        let graph = Graph::read(&*world.graphs, &agent).await.unwrap();
        for export in ["json/my-agent.graph.export.json", "json/my-agent.export.json"] {
            assert_eq!(multiset(&graph), multiset(&graph_of(export).unwrap()));
        }
        let edges =
            world.graphs.edges(&agent, &["sem-004".to_owned()], Direction::Both, &EdgeKind::ALL).await;
        assert_eq!(edges.unwrap().len(), 2);
        for (table, count) in [(Table::Semantic, 4), (Table::Episodic, 2)] {
            let page = Page { order: Order::Added { from: 1, through: 1 }, ..Page::first(100) };
            assert_eq!(world.graphs.page(&agent, table, page).await.unwrap().len(), count);
        }
        drop(world.graphs);
        assert!((fs::read(&file).unwrap(), beside(&file)) == before, "{name} was changed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_not_written_until_they_are_taken_over() {
    let (world, agent) = (World::new(), agent("my-agent"));
    let Some(file) = placed(&world, "my-agent/graph_db") else { return };
    let before = fs::read(&file).unwrap();
    let refused = world.graphs.write(&agent).await.err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let source = memory_ladybug::read_source(&file, None).await.unwrap();
    let target = memory_ladybug::LadybugGraphs::new(world.folder.path().join("graphs"), None);
    let (graph, kept) = (world.others(), sessions().await);
    let migrated = source.store(&target, &kept).await.unwrap();
    let rows: Vec<_> =
        migrated.tables.iter().map(|table| (table.rows, table.stored, table.refused)).collect();
    assert_eq!(rows, [(4, 4, 0), (2, 2, 0), (1, 1, 0), (2, 2, 0), (1, 1, 0), (1, 1, 0)]);
    // From here on the graph is ours.
    assert_eq!(
        multiset(&stored(&*graph, &agent).await),
        multiset(&graph_of("json/my-agent.export.json").unwrap())
    );
    let more = Graph { semantic: vec![semantic("new")], ..Graph::default() };
    import(&*graph, &agent, more, Mode::Merge).await.unwrap();
    assert_eq!(graph.counts(&agent).await.unwrap().semantic_node_count, 5);
    assert!(fs::read(&file).unwrap() == before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_another_agent_is_foreign_and_counted() {
    let (world, bob) = (World::new(), agent("bob"));
    let Some(file) = placed(&world, "bob/graph_db") else { return };
    assert!(world.graphs.nodes(&bob, &["sem-001".to_owned()]).await.unwrap().is_empty());
    assert!(world.graphs.agents().await.unwrap().is_empty());
    let source = memory_ladybug::read_source(&file, None).await.unwrap();
    let migrated = source.store(&*world.graphs, &sessions().await).await;
    assert_eq!(migrated.unwrap().refused(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_learnings_are_taken_over() {
    let world = World::new();
    let Some(file) = shared("graph/memory_graph.lbug-v40.db") else { return };
    let copy = world.folder.path().join("memory_graph.db");
    fs::copy(file, &copy).unwrap();
    let kept = sessions().await;
    let source = memory_ladybug::read_source(&copy, None).await.unwrap();
    let migrated = source.store(&*world.graphs, &kept).await.unwrap();
    let rows: Vec<_> = migrated.tables.iter().map(|table| (table.rows, table.stored)).collect();
    assert_eq!(rows, [(2, 2), (2, 2), (2, 2)], "{migrated:?}");
    let mut found: Vec<String> = kept.list().await.unwrap().into_iter().map(|kept| kept.session_id).collect();
    found.sort();
    assert_eq!(found, ["sess-alpha", "sess-beta"]);
    let entries = kept.entries(&EntryQuery::default()).await.unwrap();
    let first = entries.iter().find(|entry| entry.id.starts_with("mem-be126af7")).unwrap();
    assert_eq!((first.session_id.as_str(), first.agent_id.as_str()), ("sess-alpha", "analyzer"));
    assert_eq!(first.created_at, "2026-11-21T20:33:47.63035+00:00");
    assert_eq!((&first.metadata["task"], &first.metadata["version"]), (&json!("fix uploader"), &json!(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_memory_and_its_edge_hold_without_a_column_is_in_the_metadata() {
    let world = World::new();
    let Some(file) = shared("graph/memory_graph.lbug-v40.db") else { return };
    let copy = world.folder.path().join("memory_graph.db");
    fs::copy(file, &copy).unwrap();
    let at = "timestamp('2026-01-02 03:04:05.5')";
    let memory = |label: &str, id: &str, more: &str, edge: &str| {
        format!(
            "MATCH (s:Session {{session_id: 'sess-alpha'}}) CREATE (s)-[:{edge}]->(:{label} {{memory_id: '{id}', agent_id: 'ada', \
             title: '', content: '{id}', metadata: '{{}}', tags: '[]', created_at: {at}, accessed_at: {at}, {more}}})"
        )
    };
    let statements = [
        memory(
            "ProspectiveMemory",
            "p",
            &format!("due_date: {at}"),
            &format!("CREATES_INTENTION {{timestamp: {at}}}"),
        ),
        memory(
            "ProceduralMemory",
            "q",
            &format!("last_used: {at}"),
            "USES_PROCEDURE {success: true, notes: 'quick'}",
        ),
        memory("WorkingMemory", "w", "ttl_seconds: 5", "CONTAINS_WORKING {activation_level: 0.5}"),
        memory("EpisodicMemory", "e", &format!("timestamp: {at}"), "CONTAINS_EPISODIC {sequence_number: 7}"),
    ];
    logged(&copy, statements.into_iter());
    let kept = sessions().await;
    let source = memory_ladybug::read_source(&copy, None).await.unwrap();
    assert_eq!(source.store(&*world.graphs, &kept).await.unwrap().refused(), 0);
    let entries = kept.entries(&EntryQuery::default()).await.unwrap();
    let of = |id: &str| entries.iter().find(|entry| entry.id == id).unwrap().metadata.clone();
    let at = "2026-01-02T03:04:05.5+00:00";
    assert_eq!(of("p"), json!({ "due_date": at, "timestamp": at }));
    assert_eq!(of("q"), json!({ "last_used": at, "success": true, "notes": "quick" }));
    assert_eq!(of("w"), json!({ "ttl_seconds": 5, "activation_level": 0.5 }));
    assert_eq!(of("e"), json!({ "timestamp": at, "sequence_number": 7 }));
}

/// It was refused as malformed, although the same file showed it where it was read in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_property_that_was_never_set_is_empty_in_place_and_taken_over() {
    let (world, agent) = (World::new(), agent("my-agent"));
    let Some(file) = placed(&world, "my-agent/graph_db") else { return };
    let bare = "CREATE (:SemanticMemory {memory_id: 'bare', content: 'c', agent_id: 'my-agent'})";
    let edge = "MATCH (a:SemanticMemory {memory_id: 'bare'}), (b:SemanticMemory {memory_id: 'sem-001'}) \
         CREATE (a)-[:SIMILAR_TO]->(b), (a)-[:TRANSITIONED_TO]->(b)";
    logged(&file, [bare, edge].map(str::to_owned).into_iter());
    let in_place = Graph::read(&*world.graphs, &agent).await.unwrap();
    let source = memory_ladybug::read_source(&file, None).await.unwrap();
    let target = memory_ladybug::LadybugGraphs::new(world.folder.path().join("graphs"), None);
    let migrated = source.store(&target, &sessions().await).await.unwrap();
    assert_eq!(migrated.refused(), 0, "{migrated:?}");
    assert_eq!(multiset(&stored(&target, &agent).await), multiset(&in_place));
    assert_eq!(in_place.semantic.len(), 5);
}

/// What the engine writes of a transaction last.
const COMMIT: &[u8] = b"\x02\x8a\x43\x64\x7d\x3c\xc6\x0f\x50";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_beside_one_is_read_up_to_where_a_kill_cut_it_off_and_nothing_is_changed() {
    let (world, agent) = (World::new(), agent("my-agent"));
    let Some(file) = placed(&world, "my-agent/graph_db") else { return };
    let node = |at: usize| {
        format!(
            "CREATE (:EpisodicMemory {{memory_id: 'late {at}', content: 'it happened', source_label: 's', \
             agent_id: 'my-agent', tags: '[]', metadata: '{{}}', created_at: '2026-01-02T03:04:05Z'}})"
        )
    };
    logged(&file, (0..40).map(node));
    let (log, path) = (fs::read(file.with_extension("wal")).unwrap(), file.with_extension("wal"));
    assert!(log.len() > 8_200, "{}", log.len());
    for cut in (4_096..4_140).step_by(4).chain(8_192..8_195).chain([0, 30, log.len() - 1, log.len()]) {
        fs::write(&path, &log[..cut]).unwrap();
        let before = (fs::read(&file).unwrap(), beside(&file));
        let committed = log[..cut].windows(COMMIT.len()).filter(|bytes| *bytes == COMMIT).count();
        let graphs = world.others();
        let found = graphs.counts(&agent).await.unwrap().episodic_node_count;
        assert_eq!(found, 2 + u64::try_from(committed).unwrap(), "{cut} bytes");
        let source = memory_ladybug::read_source(&file, None).await.unwrap();
        assert_eq!(source.layout(), Layout::Graph);
        drop(graphs);
        assert!(
            (fs::read(&file).unwrap(), beside(&file)) == before && fs::read(&path).unwrap() == log[..cut]
        );
    }
    // What was committed and is damaged is not passed over.
    let text = log.windows(11).position(|bytes| bytes == b"it happened").unwrap();
    fs::write(&path, [&log[..text], b"I", &log[text + 1..]].concat()).unwrap();
    let refused = world.others().counts(&agent).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert!(refused.message().contains("move the log away"), "{refused}");
}
