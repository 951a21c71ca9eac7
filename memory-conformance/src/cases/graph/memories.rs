//! GRA-1 to GRA-7: storing and linking.

use memory_core::ErrorKind;
use memory_hierarchical::{Direction, EdgeKind, Node};
use serde_json::json;

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind};
use crate::cx::graph::{agent, changed, derived, event, known, similar, small, supersedes};
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("graph.node.comes-back", [Sql, HostTables], ["GRA-1", "GRA-6"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        let mut one = known("knowledge/\u{1F600} 1", "line one\n\tline 'two' \"three\" \\ %s ?");
        one.concept = "Größe".to_owned();
        one.confidence = 0.1 + 0.2;
        one.source_id = "no such event".to_owned();
        one.tags = vec!["b".to_owned(), String::new(), "a".to_owned(), "b".to_owned()];
        one.metadata = json!({ "share": 0.1, "deep": [{ "n": [1, -2, 1.5e300] }], "none": null });
        one.created_at = "1741872000".to_owned();
        one.entity_name = "proxy".to_owned();
        let mut other = event("event", "\u{3000}what\thappened\n");
        other.metadata = json!("any JSON");
        let (mut too_sure, long) = (known("unsure", "knowledge"), "x".repeat(1_048_577));
        too_sure.confidence = 1.000_001;
        for refused in [too_sure, known("empty", ""), known("blank", " \u{3000}\n")] {
            let name = refused.memory_id.clone();
            expect_kind!(
                memory.store_semantic(refused).await,
                ErrorKind::InvalidArgument,
                "knowledge: {name}"
            );
        }
        let blank = memory.store_episodic(event("blank", "\t")).await;
        expect_kind!(blank, ErrorKind::InvalidArgument, "an event that says nothing");
        expect_kind!(
            memory.store_episodic(event("long", &long)).await,
            ErrorKind::TooLarge,
            "an event of over 1 MiB"
        );
        let stored = (memory.store_semantic(one.clone()).await?, memory.store_episodic(other.clone()).await?);
        expect_eq!((&stored.0, &stored.1), (&one, &other), "what storing answers");
        let mut ids = vec![one.memory_id.clone(), other.memory_id.clone()];
        ids.extend(["unsure", "empty", "blank", "long"].map(str::to_owned));
        let mut nodes = memory.nodes(&ids).await?;
        nodes.sort_by_key(|node| matches!(node, Node::Episodic(_)));
        expect_eq!(nodes, [Node::Semantic(one), Node::Episodic(other)], "what was stored");
    }),
    case!("graph.node.one-id", [Sql, HostTables], ["GRA-2"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        memory.store_semantic(known("a", "knowledge")).await?;
        memory.store_episodic(event("e", "event")).await?;
        let before = graphs.whole(&ada).await?;
        for taken in ["a", "e"] {
            let again = memory.store_semantic(known(taken, "again")).await;
            expect_kind!(again, ErrorKind::Conflict, "knowledge with the id `{taken}`");
            let again = memory.store_episodic(event(taken, "again")).await;
            expect_kind!(again, ErrorKind::Conflict, "an event with the id `{taken}`");
        }
        expect_eq!(graphs.whole(&ada).await?, before, "the graph after what was refused");
    }),
    case!("graph.edge.comes-back", [Sql, HostTables], ["GRA-3"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        let small = small();
        for node in &small.semantic {
            memory.store_semantic(node.clone()).await?;
        }
        memory.store_episodic(event("e", "raised the limit")).await?;
        let edges =
            [similar("a", "b", 0.25), derived("a", "e", 0.5), supersedes("a", "b"), changed("a", "b")];
        for edge in &edges {
            check!(memory.link(edge.clone()).await?, "{edge:?} is not new");
        }
        let out = memory.neighbours("a", Direction::Outgoing, &EdgeKind::ALL, 10).await?;
        let seen: Vec<_> = out.shown.iter().map(|one| one.edge.clone()).collect();
        expect_eq!(seen, edges, "edges that begin at a");
        let ends: Vec<&str> = out.shown.iter().map(|one| one.node.id()).collect();
        expect_eq!((out.total, ends), (4, vec!["b", "e", "b", "b"]));
        memory.link(similar("a", "a", 1.0)).await?;
        let few = memory.neighbours("a", Direction::Both, &EdgeKind::ALL, 2).await?;
        let seen: Vec<_> = few.shown.into_iter().map(|one| one.edge).collect();
        expect_eq!(
            (few.total, seen),
            (5, vec![similar("a", "a", 1.0), similar("a", "b", 0.25)]),
            "two of five edges at a"
        );
        let back = memory.neighbours("b", Direction::Incoming, &EdgeKind::ALL, 10).await?;
        expect_eq!(back.shown.iter().map(|one| one.node.id()).collect::<Vec<_>>(), ["a", "a", "a"]);
        let back = memory.neighbours("e", Direction::Both, &[EdgeKind::DerivesFrom], 10).await?;
        expect_eq!(back.shown.iter().map(|one| one.node.id()).collect::<Vec<_>>(), ["a"]);
    }),
    case!("graph.edge.once", [Sql, HostTables], ["GRA-4"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        for id in ["a", "b"] {
            memory.store_semantic(known(id, id)).await?;
        }
        check!(memory.link(similar("a", "b", 0.25)).await?, "the first edge is not new");
        check!(!memory.link(similar("a", "b", 0.75)).await?, "the second edge of a kind is new");
        check!(memory.link(similar("b", "a", 0.75)).await?, "the other direction is not new");
        check!(memory.link(changed("a", "b")).await?, "another kind is not new");
        let edges = memory.neighbours("a", Direction::Both, &[EdgeKind::SimilarTo], 10).await?;
        let edges: Vec<_> = edges.shown.into_iter().map(|one| one.edge).collect();
        expect_eq!(edges, [similar("a", "b", 0.25), similar("b", "a", 0.75)], "the first one stays");
        expect_eq!(memory.stats().await?.counts.similar_to_edge_count, 2, "edges");
    }),
    case!("graph.edge.ends", [Sql, HostTables], ["GRA-5"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        for id in ["a", "b"] {
            memory.store_semantic(known(id, id)).await?;
        }
        memory.store_episodic(event("e", "event")).await?;
        graphs.of(&agent("bob")?).store_semantic(known("of-bob", "x")).await?;
        for (edge, missing) in [
            (similar("a", "missing", 1.0), "missing"),
            (derived("missing", "e", 1.0), "missing"),
            (derived("a", "b", 1.0), "b"),
            (supersedes("a", "e"), "e"),
            (changed("e", "a"), "e"),
            (similar("a", "of-bob", 1.0), "of-bob"),
        ] {
            let error = expect_kind!(memory.link(edge.clone()).await, ErrorKind::NotFound, "{edge:?}");
            expect_eq!(
                error.details().get("memory_id"),
                Some(&json!(missing)),
                "the end that {edge:?} lacks"
            );
        }
        expect_eq!(graphs.whole(&ada).await?.edges(EdgeKind::SimilarTo).count(), 0, "edges");
    }),
    case!("graph.edge.no-circle", [Sql, HostTables], ["GRA-7"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        for id in ["a", "b", "c", "d"] {
            memory.store_semantic(known(id, id)).await?;
        }
        for (newer, older) in [("b", "a"), ("c", "b"), ("d", "c")] {
            memory.link(supersedes(newer, older)).await?;
        }
        for (newer, older) in [("a", "a"), ("a", "b"), ("a", "d")] {
            let closed = memory.link(supersedes(newer, older)).await;
            expect_kind!(closed, ErrorKind::Conflict, "{newer} supersedes {older}");
        }
        check!(memory.link(supersedes("d", "a")).await?, "a shortcut is no circle");
        expect_eq!(memory.stats().await?.counts.supersedes_edge_count, 4, "edges");
    }),
    case!("graph.race.writers", [Sql, HostTables], ["GRA-8"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        for id in ["a", "b"] {
            memory.store_semantic(known(id, id)).await?;
        }
        let mut writers = Vec::new();
        for _ in 0..6 {
            writers.push(cx.graphs().await?.of(&ada));
        }
        let write = |(n, writer): (usize, &memory_hierarchical::AgentMemory)| {
            let writer = writer.clone();
            let (newer, older) = if n % 2 == 0 { ("a", "b") } else { ("b", "a") };
            Box::pin(async move {
                writer.store_episodic(event(&format!("e{n}"), "event")).await?;
                let is_new = writer.link(similar("a", "b", 0.5)).await?;
                match writer.link(supersedes(newer, older)).await {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    Err(error) => return Err(error),
                }
                Ok(is_new)
            }) as BoxFuture<'_, memory_core::Result<bool>>
        };
        let done = cx.threads(writers.iter().enumerate().map(write).collect())?;
        let new = done.into_iter().collect::<Result<Vec<bool>, _>>()?;
        expect_eq!(new.iter().filter(|is_new| **is_new).count(), 1, "writers for whom the one edge was new");
        let stats = memory.stats().await?;
        expect_eq!(
            (
                stats.counts.episodic_node_count,
                stats.counts.similar_to_edge_count,
                stats.counts.supersedes_edge_count
            ),
            (6, 1, 1),
            "events, edges, and replacements that are no circle"
        );
    }),
];
