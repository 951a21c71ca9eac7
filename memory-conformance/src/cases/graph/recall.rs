//! GRA-11 to GRA-15: finding.

use memory_core::ErrorKind;
use memory_hierarchical::transfer::{Graph, Mode};
use memory_hierarchical::{Direction, EdgeKind, RecallOptions};

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind, expect_some};
use crate::cx::graph::{agent, changed, derived, event, known, similar, small, supersedes};

pub(crate) const CASES: &[Case] = &[
    case!("graph.recall.along-edges", [Sql, HostTables], ["GRA-11"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let mut graph = Graph {
            semantic: vec![
                known("seed", "the proxy allows 90 seconds"),
                known("near", "limits are reviewed"),
                known("far", "twice a year"),
                known("away", "nothing of it"),
            ],
            episodic: vec![event("e", "a meeting")],
            ..Graph::default()
        };
        for edge in [similar("near", "seed", 0.8), derived("near", "e", 0.5), similar("far", "away", 1.0)] {
            graph.push(edge);
        }
        graphs.import(&ada, &graph, Mode::Replace).await?;
        let hits = graphs.find(&ada, "proxy seconds").await?;
        let ids: Vec<&str> = hits.iter().map(|hit| hit.node.id()).collect();
        expect_eq!(ids, ["seed", "near", "e"], "what is found within two steps, the best first");
        let score = |at: usize| hits.get(at).map_or(0.0, |hit| hit.score);
        check!(score(0) > 0.0 && score(0) <= 1.0, "a score of {}", score(0));
        for (at, share) in [(1, 0.5 * 0.8), (2, 0.5 * 0.8 * 0.5 * 0.5)] {
            let (left, wanted) = (score(at), score(0) * share);
            check!((left - wanted).abs() < 1e-9, "hit {at} has a score of {left}, and not {wanted}");
        }
        let path = &expect_some!(hits.get(2), "the third hit").path;
        let steps: Vec<_> =
            path.iter().map(|step| (step.from.as_str(), step.is_forward, step.kind)).collect();
        expect_eq!(steps, [("seed", false, EdgeKind::SimilarTo), ("near", true, EdgeKind::DerivesFrom)]);
        for (steps, count) in [(0, 1), (1, 2), (4, 3)] {
            let options = RecallOptions::default().with_steps(steps);
            let hits = graphs.recall.recall(&ada, "proxy seconds", &options).await?.hits;
            expect_eq!(hits.len(), count, "hits of a walk of {steps} steps");
        }
        let options = RecallOptions::default().with_steps(5);
        let refused = graphs.recall.recall(&ada, "proxy", &options).await;
        expect_kind!(refused, ErrorKind::TooLarge, "a walk of five steps");
    }),
    case!("graph.recall.superseded-last", [Sql, HostTables], ["GRA-12"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let mut graph = Graph {
            semantic: vec![
                known("1", "the proxy allows 30 seconds, and the proxy counts seconds"),
                known("2", "the proxy allows 90 seconds"),
                known("3", "about the proxy"),
            ],
            ..Graph::default()
        };
        graph.push(supersedes("2", "1"));
        graphs.import(&ada, &graph, Mode::Replace).await?;
        let hits = graphs.find(&ada, "proxy seconds").await?;
        let seen: Vec<_> = hits.iter().map(|hit| (hit.node.id(), hit.is_superseded)).collect();
        expect_eq!(seen, [("2", false), ("3", false), ("1", true)]);
        graphs.of(&ada).link(supersedes("3", "2")).await?;
        expect_eq!(
            graphs.found(&ada, "proxy seconds").await?,
            ["3", "1", "2"],
            "after another was superseded"
        );
    }),
    case!("graph.recall.as-it-is-now", [Sql, HostTables], ["GRA-13"], |cx| {
        let (graphs, other, ada) = (cx.graphs().await?, cx.graphs().await?, agent("ada")?);
        check!(graphs.found(&ada, "proxy").await?.is_empty(), "an empty graph finds something");
        other.of(&ada).store_semantic(known("a", "the proxy")).await?;
        expect_eq!(graphs.found(&ada, "proxy").await?, ["a"], "what another handle has stored");
        other.of(&ada).store_semantic(known("b", "the cache")).await?;
        other.of(&ada).link(similar("a", "b", 1.0)).await?;
        expect_eq!(graphs.found(&ada, "proxy").await?, ["a", "b"], "what another handle has linked");
        let replaced = Graph { semantic: vec![known("a", "the queue")], ..Graph::default() };
        other.import(&ada, &replaced, Mode::Replace).await?;
        check!(graphs.found(&ada, "proxy").await?.is_empty(), "words that were replaced are found");
        expect_eq!(graphs.found(&ada, "queue").await?, ["a"], "the words in their place");
    }),
    case!("graph.walk.shortest-path", [Sql, HostTables], ["GRA-14"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        let mut graph =
            Graph { semantic: ["a", "b", "c", "d", "z"].map(|id| known(id, id)).into(), ..Graph::default() };
        let chain = [similar("a", "b", 1.0), similar("b", "c", 1.0), changed("c", "d"), changed("b", "d")];
        chain.iter().for_each(|edge| graph.push(edge.clone()));
        graphs.import(&ada, &graph, Mode::Replace).await?;
        let [first, _, _, last] = &chain;
        let path = memory.path("a", "d", Direction::Outgoing, 16).await?;
        expect_eq!(path, Some(vec![first.clone(), last.clone()]), "from a to d");
        expect_eq!(memory.path("a", "a", Direction::Both, 0).await?, Some(Vec::new()), "from a to itself");
        for (from, to, direction, steps) in [
            ("a", "d", Direction::Outgoing, 1),
            ("d", "a", Direction::Outgoing, 16),
            ("a", "z", Direction::Both, 16),
        ] {
            let path = memory.path(from, to, direction, steps).await?;
            expect_eq!(path, None, "from {from} to {to} in {steps} steps");
        }
        check!(memory.path("d", "a", Direction::Incoming, 2).await?.is_some(), "no way back from d to a");
        let unknown = memory.path("a", "missing", Direction::Both, 16).await;
        expect_kind!(unknown, ErrorKind::NotFound, "to a memory that is not there");
        expect_kind!(memory.path("a", "d", Direction::Both, 17).await, ErrorKind::TooLarge, "17 steps");
    }),
    case!("graph.walk.history", [Sql, HostTables], ["GRA-15"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let mut graph = small();
        graph.semantic.push(known("c", "of something else"));
        // Times that contradict the edges, which prevail.
        for (node, at) in graph.semantic.iter_mut().zip(["2025", "2027", "2026"]) {
            node.created_at = at.to_owned();
            node.entity_name = if node.memory_id == "c" { "cache" } else { "proxy" }.to_owned();
        }
        graphs.import(&ada, &graph, Mode::Replace).await?;
        let history = graphs.of(&ada).history("proxy").await?;
        let order: Vec<&str> = history.iter().map(|entry| entry.memory.memory_id.as_str()).collect();
        expect_eq!(order, ["b", "a"], "the oldest first");
        let newest = expect_some!(history.get(1), "the newest");
        expect_eq!(newest.from, [supersedes("a", "b"), changed("a", "b")], "from what it follows");
        let oldest = expect_some!(history.first(), "the oldest");
        expect_eq!(oldest.superseded_by, ["a"], "what superseded it");
        check!(graphs.of(&ada).history("nothing").await?.is_empty(), "an unknown entity has a history");
    }),
];
