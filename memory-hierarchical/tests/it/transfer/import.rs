//! Replace and merge.

use memory_core::{ErrorKind, Json, Timestamp};
use memory_hierarchical::GraphStore as _;
use memory_hierarchical::transfer::{
    Graph, MAX_BYTES, Mode, Outcome, import, read_json, read_raw_db_rows, write_json,
};

use super::files::{graph_of, multiset, shared, stored};
use crate::support::{agent, derives, episodic, on_both_stores, semantic, similar, supersedes};

pub(super) fn small() -> Graph {
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

    async fn an_id_that_the_graph_has_for_another_is_in_error(world) {
        let ada = agent("ada");
        import(&*world.graphs, &ada, small(), Mode::Replace).await.unwrap();
        let mut more = small();
        more.semantic[1].content = "something else".to_owned();
        more.semantic.push(semantic("c"));
        let other = Graph { semantic: vec![semantic("e")], ..Graph::default() };
        for (graph, rows, taken) in [(more, (1, 1, 1), "b"), (other, (0, 0, 1), "e")] {
            let merged = import(&*world.graphs, &ada, graph, Mode::Merge).await.unwrap();
            let found = merged.tables.semantic_nodes;
            assert_eq!((found.imported, found.skipped, found.errors), rows);
            assert_eq!(merged.taken, [taken]);
        }
        let mut expected = small();
        expected.semantic.push(semantic("c"));
        assert_eq!(multiset(&stored(&*world.graphs, &ada).await), multiset(&expected));
    }

    async fn a_circle_of_superseding_is_refused_with_its_place(world) {
        let ada = agent("ada");
        import(&*world.graphs, &ada, small(), Mode::Replace).await.unwrap();
        let mut half = small();
        half.push(supersedes("a", "b"));
        import(&*world.graphs, &ada, half.clone(), Mode::Merge).await.unwrap();
        let mut closing = Graph { semantic: vec![semantic("c")], ..Graph::default() };
        closing.push(supersedes("c", "a"));
        closing.push(supersedes("b", "c"));
        let mut whole = small();
        [supersedes("a", "b"), supersedes("b", "a")].into_iter().for_each(|edge| whole.push(edge));
        for (graph, mode, place) in
            [(closing, Mode::Merge, "[0]"), (whole.clone(), Mode::Merge, "[1]"), (whole, Mode::Replace, "[0]")]
        {
            let error = import(&*world.graphs, &ada, graph, mode).await.unwrap_err();
            let place = format!("supersedes_edges{place}");
            assert_eq!((error.kind(), &error.details()["place"]), (ErrorKind::Corrupt, &place.into()), "{error}");
        }
        // What already exists closes no circle.
        import(&*world.graphs, &ada, half.clone(), Mode::Merge).await.unwrap();
        assert_eq!(multiset(&stored(&*world.graphs, &ada).await), multiset(&half));
    }

    async fn an_edge_at_a_memory_of_the_other_kind_is_refused_with_its_place(world) {
        let ada = agent("ada");
        import(&*world.graphs, &ada, small(), Mode::Replace).await.unwrap();
        let mut other = Graph { semantic: vec![semantic("e")], ..Graph::default() };
        other.push(similar("e", "a"));
        let error = import(&*world.graphs, &ada, other, Mode::Merge).await.unwrap_err();
        assert_eq!(error.details()["place"], "similar_to_edges[0].source_id");
        assert!(error.message().contains("of the other kind"), "{error}");
    }

    async fn metadata_of_any_names_and_of_127_levels_come_back(world) {
        let ada = agent("ada");
        let mut graph = small();
        let levels = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let marker = |name: &str, json: &str| serde_json::json!({ format!("$serde_json::private::{name}"): json });
        graph.semantic[0].metadata = marker("RawValue", &levels(100));
        graph.semantic[1].metadata = marker("Number", "1");
        graph.episodic[0].metadata = levels(127).parse::<Json>().unwrap().to_value().unwrap();
        import(&*world.graphs, &ada, graph.clone(), Mode::Replace).await.unwrap();
        let held = stored(&*world.graphs, &ada).await;
        let mut file = Vec::new();
        write_json(&ada, &held, Timestamp::EPOCH, &mut file).unwrap();
        assert_eq!(read_json(&mut file.as_slice(), MAX_BYTES).unwrap().graph, graph);
        graph.episodic[0].metadata = levels(128).parse::<Json>().unwrap().to_value().unwrap();
        let error = import(&*world.graphs, &ada, graph, Mode::Replace).await.unwrap_err();
        assert_eq!(error.details()["place"], "episodic_nodes[0].metadata", "{error}");
    }

    async fn the_longest_row_of_a_file_fits(world) {
        let mut long = small();
        long.semantic[0].content = "\u{17c}".repeat(1_999_000);
        import(&*world.graphs, &agent("ada"), long.clone(), Mode::Replace).await.unwrap();
        assert_eq!(stored(&*world.graphs, &agent("ada")).await.semantic, long.semantic);
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
            assert_eq!(imported.tables.semantic_nodes, Outcome { imported: 2, ..Outcome::default() });
        }
        let none = Graph::default();
        import(&*world.graphs, &agent("ada"), none, Mode::Replace).await.unwrap();
        assert_eq!(multiset(&stored(&*world.graphs, &agent("bob")).await), multiset(&small()));
    }

    async fn what_a_file_repeats_is_skipped_and_counted(world) {
        let Some(doubled) = graph_of("json/my-agent.merged-twice.export.json") else { return };
        let Some(file) = shared("hierarchical/my-agent.merged-twice.db") else { return };
        for doubled in [doubled, read_raw_db_rows(&file, &agent("my-agent")).unwrap()] {
            let imported = import(&*world.graphs, &agent("ada"), doubled, Mode::Replace).await.unwrap();
            let rows = imported.tables.named().map(|(_, rows)| (rows.imported, rows.skipped));
            assert_eq!(rows, [(4, 0), (2, 0), (1, 1), (2, 2), (1, 1), (1, 1)]);
        }
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
