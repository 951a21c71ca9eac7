//! GRA-16 to GRA-19: graphs from and to files.

use memory_core::ErrorKind;
use memory_hierarchical::transfer::{Graph, MAX_BYTES, Mode, Outcome, read_json, write_json};
use serde_json::json;

use crate::case::{Case, case};
use crate::check::{check, expect_eq, expect_kind};
use crate::cx::graph::{agent, event, known, similar, small, supersedes};

pub(crate) const CASES: &[Case] = &[
    case!("graph.import.all-or-nothing", [Sql, HostTables], ["GRA-16"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        graphs.import(&ada, &small(), Mode::Replace).await?;
        let mut dangling = Graph {
            semantic: (0..1_200).map(|n| known(&format!("n{n}"), "new")).collect(),
            ..Graph::default()
        };
        dangling.push(similar("n0", "a", 1.0));
        dangling.push(similar("n1", "missing", 1.0));
        for (mode, place) in [(Mode::Merge, 1), (Mode::Replace, 0)] {
            let imported = graphs.import(&ada, &dangling, mode).await;
            let error = expect_kind!(imported, ErrorKind::Corrupt, "an edge to nothing, {mode:?}");
            let place = format!("similar_to_edges[{place}].target_id");
            expect_eq!(error.details().get("place"), Some(&json!(place)), "{mode:?}");
        }
        // Simulates a store that fails after rows were written.
        let mut write = graphs.store.write(&ada).await?;
        write.add_semantic(&dangling.semantic).await?;
        let linked = write.add_edges(&[similar("n1", "missing", 1.0)]).await;
        expect_kind!(linked, ErrorKind::NotFound, "an edge to nothing, in a transaction");
        write.rollback().await?;
        expect_eq!(graphs.whole(&ada).await?, small(), "the graph after imports that failed");
        check!(graphs.found(&ada, "new").await?.is_empty(), "half an import is recalled");
    }),
    case!("graph.import.replaces", [Sql, HostTables], ["GRA-17"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        memory.store_episodic(event("old", "an event")).await?;
        memory.store_semantic(known("b", "other words under the same id")).await?;
        memory.store_semantic(known("z", "knowledge")).await?;
        memory.link(similar("b", "z", 1.0)).await?;
        for _ in 0..2 {
            let imported = graphs.import(&ada, &small(), Mode::Replace).await?;
            for (table, outcome) in imported.tables.named() {
                let all = if table == "semantic_nodes" { 2 } else { 1 };
                expect_eq!(*outcome, Outcome { imported: all, ..Outcome::default() }, "{table}");
            }
            expect_eq!(graphs.whole(&ada).await?, small(), "the graph is that of the file");
        }
    }),
    case!("graph.import.merges", [Sql, HostTables], ["GRA-18"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        let memory = graphs.of(&ada);
        memory.store_semantic(known("b", "what the graph says stays")).await?;
        memory.store_semantic(known("z", "knowledge")).await?;
        memory.store_semantic(known("e", "an event's id")).await?;
        let mut file = small();
        file.derives_from.clear();
        for round in 0..2 {
            let merged = graphs.import(&ada, &file, Mode::Merge).await?;
            let new = |rows: u64| Outcome { imported: rows * (1 - round), skipped: rows * round, errors: 0 };
            for (table, outcome) in merged.tables.named() {
                let expected = match table {
                    "semantic_nodes" => Outcome { errors: 1, ..new(1) },
                    "episodic_nodes" => Outcome { errors: 1, ..new(0) },
                    "derives_from_edges" => new(0),
                    _ => new(1),
                };
                expect_eq!(*outcome, expected, "{table}, round {round}");
            }
            expect_eq!(merged.taken, ["b", "e"], "memories in error");
        }
        let merged = graphs.whole(&ada).await?;
        expect_eq!(merged.semantic.len(), 4, "memories");
        let kept = merged.semantic.iter().find(|node| node.memory_id == "b");
        expect_eq!(kept.map(|node| node.content.as_str()), Some("what the graph says stays"));
    }),
    case!("graph.import.no-circle", [Sql, HostTables], ["GRA-25"], |cx| {
        let (graphs, ada) = (cx.graphs().await?, agent("ada")?);
        // In it, `a` supersedes `b`.
        graphs.import(&ada, &small(), Mode::Replace).await?;
        for (edges, mode, place) in [
            (vec![("b", "a")], Mode::Merge, 0),
            (vec![("a", "b"), ("b", "a")], Mode::Merge, 1),
            (vec![("b", "a"), ("a", "a")], Mode::Replace, 1),
        ] {
            let mut file = Graph { semantic: small().semantic, ..Graph::default() };
            edges.iter().for_each(|(newer, older)| file.push(supersedes(newer, older)));
            let imported = graphs.import(&ada, &file, mode).await;
            let error = expect_kind!(imported, ErrorKind::Corrupt, "{edges:?}, {mode:?}");
            let place = format!("supersedes_edges[{place}]");
            expect_eq!(error.details().get("place"), Some(&json!(place)), "{edges:?}, {mode:?}");
        }
        expect_eq!(graphs.whole(&ada).await?, small(), "the graph after circles");
        graphs.import(&ada, &small(), Mode::Merge).await?;
    }),
    case!("graph.export.comes-back", [Sql, HostTables], ["GRA-19"], |cx| {
        let (graphs, ada, bob) = (cx.graphs().await?, agent("ada")?, agent("bob")?);
        let mut graph = small();
        for n in 0..1_100 {
            graph.episodic.push(event(&format!("many-{n:05}"), "event"));
        }
        if let Some(node) = graph.semantic.first_mut() {
            node.metadata =
                json!({ "a": 0.1, "z": { "b": 1.7976931348623157e308, "c": [5e-324, "é\u{7f}"] } });
            node.confidence = 0.1 + 0.2;
            node.tags.push("a\0b".to_owned());
        }
        graphs.import(&ada, &graph, Mode::Replace).await?;
        let mut file = Vec::new();
        let whole = graphs.whole(&ada).await?;
        write_json(&ada, &whole, cx.now(), &mut file)?;
        let document = read_json(&mut file.as_slice(), MAX_BYTES)?;
        expect_eq!(document.graph, graph, "what was exported, read again");
        // The file says `ada`; the caller says `bob`.
        graphs.import(&bob, &document.graph, Mode::Replace).await?;
        expect_eq!(graphs.whole(&bob).await?, graph, "the graph of whom it was imported for");
        let mut again = Vec::new();
        write_json(&ada, &graphs.whole(&ada).await?, cx.now(), &mut again)?;
        check!(again == file, "a second export of the same graph is another file");
    }),
];
