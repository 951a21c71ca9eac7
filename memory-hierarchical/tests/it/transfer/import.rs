//! Replace and merge.

use memory_core::ErrorKind;
use memory_hierarchical::GraphStore as _;
use memory_hierarchical::transfer::{Graph, Mode, Outcome, import};

use super::files::{graph_of, multiset, stored};
use crate::support::{agent, derives, episodic, on_both_stores, semantic, similar};

fn small() -> Graph {
    let mut graph = Graph {
        semantic: vec![semantic("a"), semantic("b")],
        episodic: vec![episodic("e")],
        ..Graph::default()
    };
    [similar("a", "b"), derives("b", "e")].into_iter().for_each(|edge| graph.push(edge));
    graph
}

on_both_stores! {
    async fn a_merge_skips_nodes_and_edges_that_are_there(world) {
        let ada = agent("ada");
        import(&*world.graphs, &ada, small(), Mode::Replace).await.unwrap();
        let mut more = small();
        more.semantic.push(semantic("c"));
        more.push(similar("c", "a"));
        let merged = import(&*world.graphs, &ada, more.clone(), Mode::Merge).await.unwrap();
        let rows = merged.tables.named().map(|(_, rows)| (rows.imported, rows.skipped));
        assert_eq!(rows, [(1, 2), (0, 1), (1, 1), (0, 1), (0, 0), (0, 0)]);
        let again = import(&*world.graphs, &ada, more.clone(), Mode::Merge).await.unwrap();
        assert!(again.tables.named().iter().all(|(_, rows)| rows.imported == 0), "{again:?}");
        assert_eq!(multiset(&stored(&*world.graphs, &ada).await), multiset(&more));
    }

    async fn a_replace_leaves_only_what_the_file_has(world) {
        let ada = agent("ada");
        import(&*world.graphs, &ada, small(), Mode::Replace).await.unwrap();
        let other = Graph { semantic: vec![semantic("z")], ..Graph::default() };
        import(&*world.graphs, &ada, other.clone(), Mode::Replace).await.unwrap();
        assert_eq!(stored(&*world.graphs, &ada).await, other);
    }

    async fn ids_of_other_agents_are_free(world) {
        for name in ["ada", "bob"] {
            let imported = import(&*world.graphs, &agent(name), small(), Mode::Replace).await.unwrap();
            assert_eq!(imported.tables.semantic_nodes, Outcome { imported: 2, skipped: 0 });
        }
        let none = Graph::default();
        import(&*world.graphs, &agent("ada"), none, Mode::Replace).await.unwrap();
        assert_eq!(multiset(&stored(&*world.graphs, &agent("bob")).await), multiset(&small()));
    }

    async fn what_a_file_repeats_is_skipped_and_counted(world) {
        let Some(doubled) = graph_of("json/my-agent.merged-twice.export.json") else { return };
        let imported = import(&*world.graphs, &agent("ada"), doubled, Mode::Replace).await.unwrap();
        let rows = imported.tables.named().map(|(_, rows)| (rows.imported, rows.skipped));
        assert_eq!(rows, [(4, 0), (2, 0), (1, 1), (2, 2), (1, 1), (1, 1)]);
    }

    async fn an_import_that_never_commits_changes_nothing(world) {
        let ada = agent("ada");
        import(&*world.graphs, &ada, small(), Mode::Replace).await.unwrap();
        let mut write = world.graphs.write(&ada).await.unwrap();
        write.clear().await.unwrap();
        write.add_semantic(&[semantic("half")]).await.unwrap();
        drop(write);
        assert_eq!(multiset(&stored(&*world.graphs, &ada).await), multiset(&small()));
    }

    async fn an_agent_without_a_graph_has_nothing_to_export(world) {
        let error = Graph::read(&*world.graphs, &agent("nobody")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(world.graphs.agents().await.unwrap(), []);
    }

    async fn a_fault_leaves_no_graph_behind(world) {
        let mut broken = small();
        broken.push(similar("a", "nobody"));
        for mode in [Mode::Replace, Mode::Merge] {
            import(&*world.graphs, &agent("ada"), broken.clone(), mode).await.unwrap_err();
            assert_eq!(world.graphs.agents().await.unwrap(), []);
        }
    }
}

/// From one store to the other and back, through a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_to_postgres_and_back_is_the_same_graph() {
    use crate::support::{Store, World};
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
