//! `graph-db` in the terminal, in a build with the graph engine.

use memory::hierarchical::migrate::Layout;
use serde_json::{Value, json};

use crate::support::user::User;

const ARRAYS: [&str; 6] = [
    "semantic_nodes",
    "episodic_nodes",
    "similar_to_edges",
    "derives_from_edges",
    "supersedes_edges",
    "transitioned_to_edges",
];

/// The arrays in a file written by an export.
fn exported(user: &User, backend: &str, name: &str) -> Value {
    user.ok(&["graph", "export", "ada", name, "--graph-backend", backend]);
    let file: Value = serde_json::from_slice(&std::fs::read(user.home().join(name)).unwrap()).unwrap();
    ARRAYS.map(|array| file[array].clone()).into()
}

#[tokio::test]
async fn a_graph_goes_from_the_engine_to_tables_and_back() {
    let user = User::new();
    let engine = |arguments: &[&'static str]| {
        [&["graph"], arguments, &["--agent", "ada", "--graph-backend", "graph-db"]].concat()
    };
    for arguments in [
        &["remember", "the proxy allows 90 seconds", "--id", "p", "--confidence", "0.30000000000000004"][..],
        &["remember", "zażółć 記憶", "--id", "z"],
        &["remember", "reviewed", "--event", "--id", "e"],
        &["relate", "z", "similar_to", "p", "--weight", "0.7"],
        &["relate", "p", "derives_from", "e"],
        &["relate", "z", "supersedes", "p", "--reason", "newer"],
        &["relate", "z", "transitioned_to", "p", "--turn", "-3"],
    ] {
        user.ok(&engine(arguments));
    }
    user.refused(&engine(&["relate", "p", "supersedes", "z"]), 4, "conflict");
    // Regression: another tenant got the same graph.
    let refused = user.refused(&engine(&["stats", "--tenant", "acme"]), 3, "invalid_argument");
    assert!(refused["message"].as_str().unwrap().contains("tenant `acme`"), "{refused}");
    let shown = user.json(&engine(&["show", "z"]));
    assert_eq!(
        (&shown["neighbours"]["total"], &shown["neighbours"]["shown"][0]["node"]["memory_id"]),
        (&json!(3), &json!("p"))
    );
    let hits = user.json(&engine(&["recall", "proxy"]));
    let found = |at: usize| (&hits[at]["node"]["memory_id"], &hits[at]["is_superseded"]);
    assert_eq!((found(0), found(2)), ((&json!("e"), &json!(false)), (&json!("p"), &json!(true))));
    // From here on the files show that the engine is meant.
    assert!(user.ok(&["graph", "backend"]).contains("graph-db: there is"));
    assert_eq!(user.json(&["graph", "stats", "--agent", "ada"])["supersedes_edge_count"], 1);

    let graph = exported(&user, "graph-db", "engine.json");
    // Files of the engine alone were "no store", so that a new installation could not read the original's.
    let reader = User::new();
    let copy = reader.home().join(".amplihack/graphs/ada");
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::copy(user.home().join(".amplihack/graphs/ada/graph_db"), copy.join("graph_db")).unwrap();
    assert_eq!(reader.json(&["graph", "stats"])[0]["supersedes_edge_count"], 1);
    assert!(reader.ok(&["graph", "recall", "proxy", "--agent", "ada"]).contains("90 seconds"));
    assert_eq!(exported(&reader, "graph-db", "read.json"), graph);
    assert_eq!(reader.json(&["graph", "sessions"]), json!([]));
    let file = user.home().join(".amplihack/graphs/ada/graph_db");
    let source = memory::hierarchical::ladybug::read_source(&file, None).await.unwrap();
    assert_eq!(source.layout(), Layout::Graph);
    user.ok(&["graph", "migrate", file.to_str().unwrap(), "--graph-backend", "sqlite"]);
    assert_eq!(exported(&user, "sqlite", "tables.json"), graph);

    // Into another user's engine, from a database of the original's layout.
    let other = User::new();
    user.ok(&["graph", "export", "ada", "ada.db", "--format", "raw-db", "--graph-backend", "sqlite"]);
    let database = user.home().join("ada.db");
    other.ok(&["graph", "migrate", database.to_str().unwrap(), "--graph-backend", "graph-db"]);
    assert_eq!(exported(&other, "graph-db", "back.json"), graph);
}
