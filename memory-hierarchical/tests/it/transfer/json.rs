//! JSON of format 1.1.

use memory_core::{ErrorKind, Timestamp};
use memory_hierarchical::Edge;
use memory_hierarchical::transfer::{Graph, MAX_BYTES, read_json, write_json};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::files::{graph_of, multiset, shared};
use crate::support::{agent, derives, episodic, semantic, similar};

const NOW: i64 = 1_795_291_694_000;

fn written(name: &str, graph: &Graph) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = write_json(&agent(name), graph, Timestamp::from_millis(NOW).unwrap(), &mut bytes).unwrap();
    assert_eq!(count, bytes.len() as u64);
    bytes
}

fn read(mut bytes: &[u8]) -> Graph {
    read_json(&mut bytes, MAX_BYTES).unwrap().graph
}

#[test]
fn an_export_is_written_as_the_original_writes_it() {
    let Some(file) = shared("json/my-agent.export.json") else { return };
    let original = std::fs::read(file).unwrap();
    let graph = read(&original);
    assert_eq!(String::from_utf8(written("my-agent", &graph)).unwrap(), String::from_utf8(original).unwrap());
}

#[test]
fn the_exports_of_both_engines_are_the_same_graph() {
    let (Some(tables), Some(engine)) =
        (graph_of("json/my-agent.export.json"), graph_of("json/my-agent.graph.export.json"))
    else {
        return;
    };
    assert_eq!(multiset(&tables), multiset(&engine));
}

#[test]
fn the_members_and_their_order_are_those_of_the_format() {
    let mut graph =
        Graph { semantic: vec![semantic("s")], episodic: vec![episodic("e")], ..Graph::default() };
    [similar("s", "s"), derives("s", "e")].into_iter().for_each(|edge: Edge| graph.push(edge));
    let text = String::from_utf8(written("ada", &graph)).unwrap();
    let places: Vec<usize> = [
        "{\n  \"agent_name\": \"ada\"",
        "  \"exported_at\": \"1795291694\"",
        "  \"format_version\": \"1.1\"",
        "  \"semantic_nodes\": [\n    {\n      \"memory_id\": \"s\"",
        "  \"episodic_nodes\"",
        "  \"similar_to_edges\"",
        "  \"derives_from_edges\"",
        "  \"supersedes_edges\": []",
        "  \"transitioned_to_edges\": []",
        "  \"statistics\": {\n    \"semantic_node_count\": 1",
    ]
    .iter()
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part}")))
    .collect();
    assert!(places.is_sorted(), "{text}");
    assert!(text.ends_with("\"transitioned_to_edge_count\": 0\n  }\n}"), "{text}");
}

#[test]
fn more_than_the_limit_is_noticed_while_reading() {
    let bytes = written("ada", &Graph::default());
    let limit = bytes.len() as u64;
    assert!(read_json(&mut bytes.as_slice(), limit).is_ok());
    let error = read_json(&mut bytes.as_slice(), limit - 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    // Endless: reading to the end would never return.
    let error = read_json(&mut std::io::repeat(b' '), 1_000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
#[cfg(unix)]
fn a_pipe_is_no_way_around_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = {
        let pipe = pipe.clone();
        // The reader leaves early, so that writing fails.
        std::thread::spawn(move || drop(std::fs::write(pipe, vec![b' '; 1 << 20])))
    };
    let mut reader = std::fs::File::open(&pipe).unwrap();
    let error = read_json(&mut reader, 100_000).unwrap_err();
    assert_eq!((error.kind(), &error.details()["limit"]), (ErrorKind::TooLarge, &json!(100_000)));
    drop(reader);
    writer.join().unwrap();
}

#[test]
fn nesting_has_a_limit() {
    let with = |depth: usize| {
        let mut graph = Graph { semantic: vec![semantic("s")], ..Graph::default() };
        graph.semantic[0].metadata = json!("here");
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        String::from_utf8(written("ada", &graph)).unwrap().replace("\"here\"", &nested)
    };
    read(with(127).as_bytes());
    for depth in [129, 200, 100_000] {
        let error = read_json(&mut with(depth).as_bytes(), MAX_BYTES).unwrap_err();
        assert_eq!(error.details()["place"], "semantic_nodes[0].metadata", "{error}");
        assert!(error.message().contains("deeper than 127 levels"), "{error}");
    }
}

#[test]
fn an_error_names_the_place_and_quotes_nothing() {
    let graph = Graph { semantic: vec![semantic("a"), semantic("b")], ..Graph::default() };
    let text = String::from_utf8(written("ada", &graph)).unwrap();
    let broken = text.replacen("\"tags\": [", "\"tags\": [5, \"secret\", ", 2);
    let error = read_json(&mut broken.as_bytes(), MAX_BYTES).unwrap_err();
    assert_eq!(
        (error.kind(), &error.details()["place"]),
        (ErrorKind::Corrupt, &json!("semantic_nodes[0].tags"))
    );
    assert!(
        error.message().contains("expected") || error.message().contains("type than a string"),
        "{error}"
    );
    assert!(!error.message().contains("secret"), "{error}");
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    let graph = Graph { semantic: vec![semantic("a")], ..Graph::default() };
    let text = String::from_utf8(written("ada", &graph)).unwrap();
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let confidence = |wrong: &str| text.replace("0.30000000000000004", wrong).into_bytes();
    for (bytes, told) in [
        (confidence("1e400"), "semantic_nodes[0].confidence: a number that no double holds"),
        (confidence("\"high\""), "semantic_nodes[0].confidence: another type than a number"),
        (
            text.replacen("\"content\":", "\"concept\": \"\", \"content\":", 1).into_bytes(),
            "semantic_nodes[0].concept: duplicate field `concept`",
        ),
        (confidence(&"1".repeat(30)), "semantic_nodes[0]: an integer of more than 64 bits"),
        (text.replace("\"a\"", r#""\ud800""#).into_bytes(), "half a surrogate pair"),
        (format!("{text}{text}").into_bytes(), "more follows after the end"),
        (utf16, "the file is UTF-16"),
        (b"null".to_vec(), "the file is no JSON object"),
        (b"{\"agent_name\": 'a'}".to_vec(), "no JSON"),
    ] {
        let error = read_json(&mut bytes.as_slice(), MAX_BYTES).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && error.message().contains(told), "{told}: {error}");
    }
}

fn metadata() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("finite", |float| float.is_finite())
            .prop_map(Value::from),
        (0.0..1.0_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map("[a-zä$ ]{0,6}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every float in a value, bit for bit.
fn bits(value: &Value, all: &mut Vec<u64>) {
    match value {
        Value::Number(number) if number.is_f64() => all.push(number.as_f64().unwrap().to_bits()),
        Value::Array(items) => items.iter().for_each(|item| bits(item, all)),
        Value::Object(members) => members.values().for_each(|item| bits(item, all)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read_back(
        rows in proptest::collection::vec((any::<String>(), 0.0..=1.0_f64, metadata(), proptest::collection::vec(any::<String>(), 0..4)), 0..8),
        weight in 0.0..=1.0_f64,
        turn in any::<i64>(),
    ) {
        let mut graph = Graph::default();
        for (index, (content, confidence, metadata, tags)) in rows.into_iter().enumerate() {
            let mut node = semantic(&format!("s{index}"));
            (node.content, node.confidence, node.metadata, node.tags) = (content, confidence, metadata, tags);
            graph.semantic.push(node);
            let Edge::SimilarTo(mut edge) = similar("s0", &format!("s{index}")) else { unreachable!() };
            edge.weight = weight;
            graph.push(Edge::SimilarTo(edge));
            let Edge::TransitionedTo(mut edge) = crate::support::transitioned("s0", &format!("s{index}")) else { unreachable!() };
            edge.turn = turn;
            graph.push(Edge::TransitionedTo(edge));
        }
        let bytes = written("ada", &graph);
        let back = read(&bytes);
        prop_assert_eq!(&back, &graph);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (one, other) in graph.semantic.iter().zip(&back.semantic) {
            bits(&one.metadata, &mut before);
            bits(&other.metadata, &mut after);
            prop_assert_eq!(one.confidence.to_bits(), other.confidence.to_bits());
        }
        prop_assert_eq!(before, after);
        prop_assert_eq!(written("ada", &back), bytes);
    }
}

#[test]
fn a_file_of_millions_of_tiny_values_is_refused_before_it_fills_the_memory() {
    let file = |count: usize| {
        let values = vec!["0"; count].join(",");
        let node = format!(
            r#"{{"memory_id":"e","content":"","source_label":"","tags":[],"metadata":[{values}],"created_at":"1"}}"#
        );
        format!(
            r#"{{"agent_name":"a","exported_at":"1","format_version":"1.1","semantic_nodes":[],"episodic_nodes":[{node}],"similar_to_edges":[],"derives_from_edges":[],"supersedes_edges":[],"transitioned_to_edges":[]}}"#
        )
    };
    let error = read_json(&mut file(5_100_000).as_bytes(), MAX_BYTES).unwrap_err();
    assert_eq!(
        (error.kind(), error.details()["place"].as_str()),
        (ErrorKind::TooLarge, Some("episodic_nodes[0]"))
    );
    assert!(read_json(&mut file(100_000).as_bytes(), MAX_BYTES).is_ok());
}

/// Each became a reference of sixteen bytes before the first was looked at: gigabytes for a file of 500 MiB.
#[cfg(target_os = "linux")]
#[test]
fn an_array_of_millions_that_are_no_rows_is_given_up_at_the_first() {
    let most = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let text = format!(
        r#"{{"agent_name":"a","exported_at":"1","format_version":"1.1","semantic_nodes":[{}1],"episodic_nodes":[],"similar_to_edges":[],"derives_from_edges":[],"supersedes_edges":[],"transitioned_to_edges":[]}}"#,
        "1,".repeat(30_000_000)
    );
    let before = most();
    let error = read_json(&mut text.as_bytes(), MAX_BYTES).unwrap_err();
    assert!(error.message().starts_with("semantic_nodes[0]: another type than an object"), "{error}");
    let more = most() - before;
    assert!(more < 300_000, "{more} KiB");
}

#[test]
fn a_version_is_one_and_a_number() {
    let of = |version: &str| {
        let text = format!(
            r#"{{"agent_name":"a","exported_at":"1","format_version":"{version}","semantic_nodes":[],"episodic_nodes":[],"similar_to_edges":[],"derives_from_edges":[],"supersedes_edges":[],"transitioned_to_edges":[]}}"#
        );
        read_json(&mut text.as_bytes(), MAX_BYTES).is_ok()
    };
    assert!(["1", "1.0", "1.1", "1.12"].into_iter().all(of));
    assert!(!["", "2.0", "1.", "1.1.evil", "1x", "11", "1.1 "].into_iter().any(of));
}
