//! The verdicts on the mutated files, and where they differ from the original's.

use memory_core::{ErrorKind, Result, Timestamp};
use memory_hierarchical::transfer::{Graph, Imported, MAX_BYTES, Mode, import, read_json, write_json};
use memory_hierarchical::{Counts, GraphStore as _};
use serde_json::{Value, json};

use super::files::shared;
use super::import::small;
use crate::support::{Store, World, agent, semantic, supersedes, transitioned};

/// A file, and the place of its fault; `None` if it is imported whole.
const VERDICTS: [(&str, Option<&str>); 24] = [
    ("bigconf", Some("semantic_nodes[0]")),
    ("bom", Some("byte order mark")),
    // The original stores a confidence of 42.
    ("conf42", Some("semantic_nodes[0].confidence")),
    // The original gives a semantic and an episodic memory one id, and keeps an edge to a missing memory.
    ("crossid", Some("episodic_nodes[0].memory_id")),
    // The original stores edges that end nowhere. These files also have more of them than they state.
    ("dangling", Some("statistics")),
    ("danglingtarget", Some("statistics")),
    // The original drops one of the two, and claims to have imported both.
    ("dupid", Some("semantic_nodes[1].memory_id")),
    ("dupkey", Some("duplicate field `agent_name`")),
    // The original drops the memory but keeps the edges to it.
    ("emptyid", Some("semantic_nodes[0].memory_id")),
    ("expnum", Some("line 1")),
    ("extra", None),
    ("metanull", None),
    ("metastr", None),
    ("noentity", Some("missing field `entity_name`")),
    ("nostats", None),
    ("nosup", Some("missing field `supersedes_edges`")),
    ("semnull", Some("line 1")),
    ("tagsmixed", Some("semantic_nodes[0]")),
    ("tagsnull", Some("semantic_nodes[0]")),
    ("trunc", Some("ends early")),
    ("turnfloat", Some("transitioned_to_edges[0]")),
    // The original reads a format that it cannot know.
    ("ver99", Some("format_version")),
    ("vernum", Some("line 1")),
    // The original does not check whether the file contains what it states.
    ("wrongstats", Some("statistics")),
];

async fn imported(world: &World, name: &str, mode: Mode) -> Option<Result<Imported>> {
    let text = std::fs::read(shared(&format!("json-verdicts/{name}.json"))?).unwrap();
    Some(imported_text(world, &text, mode).await)
}

async fn imported_text(world: &World, mut text: &[u8], mode: Mode) -> Result<Imported> {
    match read_json(&mut text, MAX_BYTES) {
        Ok(document) => import(&*world.graphs, &agent("ada"), document.graph, mode).await,
        Err(error) => Err(error),
    }
}

#[tokio::test]
async fn every_mutated_file_has_its_verdict() {
    let world = World::on(Store::sqlite()).await;
    for (name, fault) in VERDICTS {
        for mode in [Mode::Replace, Mode::Merge] {
            // What was there before must still be there after a refusal.
            let before = Graph { semantic: vec![semantic("before")], ..Graph::default() };
            import(&*world.graphs, &agent("ada"), before, Mode::Replace).await.unwrap();
            let Some(outcome) = imported(&world, name, mode).await else { return };
            let held = world.graphs.counts(&agent("ada")).await.unwrap();
            match (outcome, fault) {
                (Ok(imported), None) => {
                    let rows = imported.tables.named().map(|(_, rows)| (rows.imported, rows.skipped));
                    assert_eq!(rows, [(4, 0), (2, 0), (1, 0), (2, 0), (1, 0), (1, 0)], "{name}");
                    assert_eq!(held.semantic_node_count, 4 + u64::from(mode == Mode::Merge), "{name}");
                }
                (Err(error), Some(fault)) => {
                    assert!(error.message().contains(fault), "{name}, {mode:?}: {error}");
                    assert_eq!(
                        held,
                        Counts { semantic_node_count: 1, ..Counts::default() },
                        "{name}, {mode:?}"
                    );
                }
                (Ok(_), Some(_)) => panic!("{name} was imported, {mode:?}"),
                (Err(error), None) => panic!("{name} was refused, {mode:?}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn an_edge_that_ends_nowhere_is_refused_with_its_place() {
    let world = World::on(Store::sqlite()).await;
    for (name, place) in
        [("dangling", "similar_to_edges[1].source_id"), ("danglingtarget", "similar_to_edges[1].target_id")]
    {
        let Some(text) = without_statistics(name) else { return };
        for mode in [Mode::Replace, Mode::Merge] {
            let error = imported_text(&world, &text, mode).await.unwrap_err();
            assert_eq!(
                (error.kind(), &error.details()["place"]),
                (ErrorKind::Corrupt, &json!(place)),
                "{error}"
            );
            assert_eq!(world.graphs.agents().await.unwrap().len(), 0);
        }
    }
}

#[tokio::test]
async fn an_edge_of_a_merged_file_may_end_at_a_memory_of_the_graph() {
    let world = World::on(Store::sqlite()).await;
    let mut write = world.graphs.write(&agent("ada")).await.unwrap();
    write.add_semantic(&[semantic("nope"), semantic("nada")]).await.unwrap();
    write.commit().await.unwrap();
    let Some(text) = without_statistics("dangling") else { return };
    let imported = imported_text(&world, &text, Mode::Merge).await.unwrap();
    assert_eq!(imported.tables.similar_to_edges.imported, 2);
}

/// Unknown members are ignored.
fn without_statistics(name: &str) -> Option<Vec<u8>> {
    let text = std::fs::read_to_string(shared(&format!("json-verdicts/{name}.json"))?).unwrap();
    Some(text.replace("\"statistics\"", "\"notes\"").into_bytes())
}

/// A graph with one fault of each kind, and its place.
#[tokio::test]
async fn a_fault_is_told_with_its_place_and_the_graph_stays() {
    let world = World::on(Store::sqlite()).await;
    let ada = agent("ada");
    let kept = Graph { semantic: vec![semantic("kept")], ..Graph::default() };
    import(&*world.graphs, &ada, kept.clone(), Mode::Replace).await.unwrap();
    let revision = world.graphs.revision(&ada).await.unwrap();
    let mut whole = small();
    [supersedes("a", "b"), transitioned("b", "a")].into_iter().for_each(|edge| whole.push(edge));
    let mut text = Vec::new();
    write_json(&ada, &whole, Timestamp::EPOCH, &mut text).unwrap();
    let text: Value = serde_json::from_slice(&text).unwrap();
    for (place, wrong, fault) in [
        ("/semantic_nodes/1/confidence", json!(1.001), "semantic_nodes[1].confidence"),
        ("/semantic_nodes/0/memory_id", json!(""), "semantic_nodes[0].memory_id"),
        ("/semantic_nodes/0/memory_id", json!("x".repeat(256)), "semantic_nodes[0].memory_id"),
        ("/semantic_nodes/1/memory_id", json!("a"), "semantic_nodes[1].memory_id"),
        ("/semantic_nodes/1/entity_name", json!("x".repeat(1_025)), "semantic_nodes[1].entity_name"),
        ("/semantic_nodes/0/content", json!("a\0b"), "semantic_nodes[0].content"),
        ("/semantic_nodes/0/content", json!("x".repeat(4_000_000)), "semantic_nodes[0].content"),
        ("/similar_to_edges/0/metadata", json!("x".repeat(4_000_000)), "similar_to_edges[0].metadata"),
        ("/semantic_nodes/1/tags", json!("no list"), "semantic_nodes[1].tags"),
        ("/episodic_nodes/0/memory_id", json!("a"), "episodic_nodes[0].memory_id"),
        ("/episodic_nodes/0/source_label", json!(null), "episodic_nodes[0].source_label"),
        ("/similar_to_edges/0/weight", json!(-0.1), "similar_to_edges[0].weight"),
        ("/similar_to_edges/0/target_id", json!("e"), "similar_to_edges[0].target_id"),
        ("/derives_from_edges/0/confidence", json!(2), "derives_from_edges[0].confidence"),
        ("/derives_from_edges/0/source_id", json!("e"), "derives_from_edges[0].source_id"),
        ("/supersedes_edges/0/reason", json!("\0"), "supersedes_edges[0].reason"),
        ("/transitioned_to_edges/0/turn", json!(1.5), "transitioned_to_edges[0].turn"),
        // Values without their names, in the order of the members.
        ("/similar_to_edges/0", json!(["a", "b", 0.5, {}]), "similar_to_edges[0]"),
        ("/semantic_nodes/0", json!("a"), "semantic_nodes[0]"),
        ("/statistics", json!([2, 1, 1, 1, 0, 0]), "statistics"),
        ("/format_version", json!("2.0"), "format_version"),
        ("/statistics/semantic_node_count", json!(3), "statistics"),
        ("/statistics/semantic_node_count", json!("3"), "statistics.semantic_node_count"),
    ] {
        let mut broken = text.clone();
        *broken.pointer_mut(place).unwrap() = wrong;
        for mode in [Mode::Replace, Mode::Merge] {
            let refused = imported_text(&world, broken.to_string().as_bytes(), mode).await.unwrap_err();
            assert_eq!(
                (refused.kind(), &refused.details()["place"]),
                (ErrorKind::Corrupt, &json!(fault)),
                "{place}"
            );
        }
    }
    let values: Vec<&Value> = text.as_object().unwrap().values().collect();
    let array = serde_json::to_vec(&values).unwrap();
    assert!(imported_text(&world, &array, Mode::Replace).await.is_err(), "an array of the members' values");
    assert_eq!(Graph::read(&*world.graphs, &ada).await.unwrap(), kept);
    assert_eq!(world.graphs.revision(&ada).await.unwrap(), revision);
}
