//! What every graph store does.

use memory_core::ErrorKind;
use memory_hierarchical::rows::{Order, Page, Table};
use memory_hierarchical::{Agent, Counts, Direction, Edge, EdgeKind, GraphStore as _, Node, Semantic};
use serde_json::json;

use crate::support::*;

async fn keep(world: &World, agent: &Agent, semantics: &[Semantic], edges: &[Edge]) {
    let mut write = world.graphs.write(agent).await.unwrap();
    write.add_semantic(semantics).await.unwrap();
    write.add_edges(edges).await.unwrap();
    write.commit().await.unwrap();
}

async fn cleared_at(world: &World, agent: &Agent) -> u64 {
    world.graphs.changes(agent, 0).await.unwrap().cleared_at
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn semantics(ids: &[&str]) -> Vec<Semantic> {
    ids.iter().map(|id| semantic(id)).collect()
}

on_both_stores! {
    async fn what_is_stored_comes_back_whole(world) {
        let ada = agent("ada");
        let mut node = semantic("s1");
        node.metadata = json!({ "x": 0.30000000000000004, "big": u64::MAX, "text": "naïve \u{1F600} \"'\\ \n" });
        node.confidence = 0.30000000000000004;
        let mut write = world.graphs.write(&ada).await.unwrap();
        write.add_semantic(&[node.clone(), semantic("s2")]).await.unwrap();
        write.add_episodic(&[episodic("e1")]).await.unwrap();
        let edges = [similar("s1", "s2"), derives("s1", "e1"), supersedes("s2", "s1"), transitioned("s2", "s1")];
        assert_eq!(write.add_edges(&edges).await.unwrap().stored, 4);
        write.commit().await.unwrap();

        let found = world.graphs.nodes(&ada, &ids(&["s1", "e1", "unknown"])).await.unwrap();
        assert_eq!(found, [Node::Semantic(node), Node::Episodic(episodic("e1"))]);
        let all = world.graphs.edges(&ada, &ids(&["s1"]), Direction::Both, &EdgeKind::ALL).await.unwrap();
        assert_eq!(all, edges);
        let counts = world.graphs.counts(&ada).await.unwrap();
        assert_eq!((counts.semantic_node_count, counts.episodic_node_count), (2, 1));
        assert_eq!(counts.transitioned_to_edge_count, 1);
    }

    async fn two_agents_never_see_each_other(world) {
        let (ada, bob) = (agent("ada"), agent("bob"));
        keep(&world, &ada, &semantics(&["a", "b"]), &[similar("a", "b")]).await;
        keep(&world, &bob, &semantics(&["a"]), &[]).await;
        // One agent's memories do not exist for the other: it can neither read, link nor clear them.
        assert!(world.graphs.nodes(&bob, &ids(&["b"])).await.unwrap().is_empty());
        assert!(world.graphs.edges(&bob, &ids(&["a"]), Direction::Both, &EdgeKind::ALL).await.unwrap().is_empty());
        let mut write = world.graphs.write(&bob).await.unwrap();
        assert!(write.taken(&ids(&["b"])).await.unwrap().is_empty());
        let refused = write.add_edges(&[similar("a", "b")]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        write.rollback().await.unwrap();
        let mut write = world.graphs.write(&bob).await.unwrap();
        write.clear().await.unwrap();
        write.commit().await.unwrap();
        assert_eq!(world.graphs.counts(&ada).await.unwrap().semantic_node_count, 2);
        assert_eq!(world.graphs.counts(&bob).await.unwrap(), Counts::default());
        assert_eq!(world.graphs.agents().await.unwrap(), [ada]);
    }

    async fn an_id_that_is_taken_is_skipped_whatever_its_kind(world) {
        let ada = agent("ada");
        keep(&world, &ada, &semantics(&["a"]), &[]).await;
        let mut write = world.graphs.write(&ada).await.unwrap();
        let stored = write.add_semantic(&semantics(&["a", "b", "b"])).await.unwrap();
        assert_eq!((stored.stored, stored.skipped), (1, 2));
        let stored = write.add_episodic(&[episodic("a"), episodic("e")]).await.unwrap();
        assert_eq!((stored.stored, stored.skipped), (1, 1));
        assert_eq!(write.taken(&ids(&["e", "x", "a"])).await.unwrap(), ["a", "e"]);
        write.commit().await.unwrap();
    }

    async fn an_edge_to_what_is_missing_or_of_the_wrong_kind_names_the_id(world) {
        let ada = agent("ada");
        let mut write = world.graphs.write(&ada).await.unwrap();
        write.add_semantic(&semantics(&["s"])).await.unwrap();
        write.add_episodic(&[episodic("e")]).await.unwrap();
        for (edge, id) in [
            (similar("s", "nowhere"), "nowhere"),
            (similar("nowhere", "s"), "nowhere"),
            (similar("s", "e"), "e"),
            (derives("e", "e"), "e"),
            (derives("s", "s"), "s"),
            (supersedes("e", "s"), "e"),
        ] {
            let refused = write.add_edges(&[edge]).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotFound);
            assert_eq!(refused.details()["memory_id"], id);
            assert!(refused.message().contains(&format!("`{id}`")), "{refused}");
        }
        write.rollback().await.unwrap();
    }

    async fn nothing_of_a_write_is_seen_before_its_commit_or_after_its_rollback(world) {
        let ada = agent("ada");
        let mut write = world.graphs.write(&ada).await.unwrap();
        write.add_semantic(&semantics(&["a"])).await.unwrap();
        assert_eq!(world.graphs.counts(&ada).await.unwrap(), Counts::default());
        write.rollback().await.unwrap();
        assert_eq!(world.graphs.counts(&ada).await.unwrap(), Counts::default());
        assert_eq!(world.graphs.revision(&ada).await.unwrap(), 0);
    }

    async fn the_revision_grows_with_every_commit_and_survives_a_clear(world) {
        let ada = agent("ada");
        keep(&world, &ada, &semantics(&["a"]), &[]).await;
        let first = world.graphs.revision(&ada).await.unwrap();
        let mut write = world.graphs.write(&ada).await.unwrap();
        write.clear().await.unwrap();
        write.commit().await.unwrap();
        let second = world.graphs.revision(&ada).await.unwrap();
        assert!(second > first);
        assert_eq!(cleared_at(&world, &ada).await, second);
        assert_eq!(world.graphs.revision(&agent("bob")).await.unwrap(), 0);
    }

    async fn what_each_revision_added_is_read_in_order(world) {
        let ada = agent("ada");
        keep(&world, &ada, &semantics(&["b", "c"]), &[similar("b", "c")]).await;
        let first = world.graphs.revision(&ada).await.unwrap();
        keep(&world, &ada, &semantics(&["a", "d"]), &[similar("a", "b"), similar("b", "c")]).await;
        let last = world.graphs.revision(&ada).await.unwrap();
        let added = async |table, from, after: &[&str], through, limit| {
            let page = Page { order: Order::Added { from, through }, after, limit };
            let rows = world.graphs.page(&ada, table, page).await.unwrap();
            rows.into_iter().map(|(revision, row)| (revision, row.key().concat())).collect::<Vec<_>>()
        };
        let row = |revision, key: &str| (revision, key.to_owned());
        let all = added(Table::Semantic, 1, &[], last, 10).await;
        assert_eq!(all, [row(first, "b"), row(first, "c"), row(last, "a"), row(last, "d")]);
        let next = added(Table::Semantic, first, &["b"], last, 2).await;
        assert_eq!(next, [row(first, "c"), row(last, "a")]);
        let edges = added(Table::Edges(EdgeKind::SimilarTo), first + 1, &[], last, 10).await;
        assert_eq!(edges, [row(last, "ab")]);
        assert!(added(Table::Semantic, first + 1, &[], first, 10).await.is_empty());
        assert_eq!(cleared_at(&world, &ada).await, 0);
        keep(&world, &ada, &[], &[similar("d", "a")]).await;
        // A store may name more tables than gained rows.
        let tables = async |since| world.graphs.changes(&ada, since).await.unwrap().tables;
        for (since, gained) in
            [(first, &[Table::Semantic, Table::Edges(EdgeKind::SimilarTo)][..]), (last, &[Table::Edges(EdgeKind::SimilarTo)])]
        {
            let named = tables(since).await;
            assert!(gained.iter().all(|table| named.contains(table)), "{named:?}");
        }
    }

    async fn pages_follow_each_other_by_the_bytes_of_the_ids(world) {
        let ada = agent("ada");
        let names = ["B", "Z", "a", "b", "é", "日本", "\u{1F600}"];
        let edges: Vec<Edge> = names.iter().map(|id| similar("a", id)).collect();
        keep(&world, &ada, &semantics(&names), &edges).await;
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let after_key: Vec<&str> = after.iter().map(String::as_str).collect();
            let page = Page { after: &after_key, ..Page::first(3) };
            let page = world.graphs.page(&ada, Table::Semantic, page).await.unwrap();
            found.extend(page.iter().map(|(_, row)| row.key().concat()));
            if page.len() < 3 {
                break;
            }
            after = found.last().cloned();
        }
        assert_eq!(found, names);
        let page = Page { after: &["a", "Z"], ..Page::first(100) };
        let page = world.graphs.page(&ada, Table::Edges(EdgeKind::SimilarTo), page).await.unwrap();
        assert_eq!(page.iter().map(|(_, row)| row.key()[1]).collect::<Vec<_>>(), &names[2..]);
    }

    async fn pages_of_long_texts_are_as_long_as_others(world) {
        let ada = agent("ada");
        let mut long = semantics(&(0..80).map(|_| "x").collect::<Vec<_>>());
        for (at, node) in long.iter_mut().enumerate() {
            node.memory_id = format!("{at:03}");
            node.content = "x".repeat(1 << 20);
        }
        keep(&world, &ada, &long, &[]).await;
        assert_eq!(world.graphs.page(&ada, Table::Semantic, Page::first(100)).await.unwrap().len(), 80);
        let all: Vec<String> = long.iter().map(|node| node.memory_id.clone()).collect();
        assert_eq!(world.graphs.nodes(&ada, &all).await.unwrap().len(), 80);
    }

    async fn a_memory_with_ten_thousand_edges_is_walked_in_both_directions(world) {
        let ada = agent("ada");
        let others: Vec<String> = (0..10_000).map(|at| format!("n{at:05}")).collect();
        let mut nodes = vec![semantic("hub")];
        nodes.extend(others.iter().map(|id| semantic(id)));
        let edges: Vec<Edge> = others.iter().map(|id| similar("hub", id)).collect();
        keep(&world, &ada, &nodes, &edges).await;
        let found = world.graphs.edges(&ada, &ids(&["hub"]), Direction::Outgoing, &EdgeKind::ALL).await.unwrap();
        assert_eq!(found.len(), 10_000);
        let found = world.graphs.edges(&ada, &others, Direction::Incoming, &EdgeKind::ALL).await.unwrap();
        assert_eq!(found, edges);
    }

    async fn what_no_store_can_keep_is_refused_on_both(world) {
        let ada = agent("ada");
        let mut write = world.graphs.write(&ada).await.unwrap();
        let with = |change: fn(&mut Semantic)| {
            let mut node = semantic("a");
            change(&mut node);
            [node]
        };
        for (node, kind) in [
            (with(|node| node.content = "a\0b".to_owned()), ErrorKind::InvalidArgument),
            (with(|node| node.confidence = f64::NAN), ErrorKind::InvalidArgument),
            (with(|node| node.memory_id = String::new()), ErrorKind::InvalidArgument),
            (with(|node| node.memory_id = "x".repeat(256)), ErrorKind::TooLarge),
            (with(|node| node.entity_name = "x".repeat(1_025)), ErrorKind::TooLarge),
        ] {
            assert_eq!(write.add_semantic(&node).await.unwrap_err().kind(), kind);
        }
        write.rollback().await.unwrap();
    }
}
