//! Replace and merge.

use memory_core::ErrorKind;
use memory_hierarchical::GraphStore as _;
use memory_hierarchical::transfer::{Graph, Mode, Outcome, import};

use super::files::{graph_of, multiset, stored};
use crate::support::{agent, derives, episodic, on_both_stores, semantic, similar};

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
