//! An import, export or migration of a graph that is killed at any moment leaves a whole graph, whole files and an
//! unchanged source, and is completed by running it again. Two concurrent imports leave one of their graphs.

use std::path::Path;

use memory_conformance::random::Random;
use serde_json::{Value, json};

use crate::support::program::{killed, moment, ok, timed};
use crate::support::store::{Kind, Store, on_each_store};
use crate::support::user::command;

/// More than an import stores in one statement.
const NODES: usize = 700;
/// More than a migration stores in one transaction.
const ENTRIES: usize = 1_300;
const ARRAYS: [&str; 6] = [
    "semantic_nodes",
    "episodic_nodes",
    "similar_to_edges",
    "derives_from_edges",
    "supersedes_edges",
    "transitioned_to_edges",
];

fn rounds(kind: &Kind) -> u64 {
    kind.rounds(4, 2)
}

/// A file of a graph in which every text is `word`.
fn graph_file(home: &Path, word: &str) -> String {
    let id = |at: usize| format!("{word}-{at:05}");
    let knowledge = |at: usize| {
        json!({
            "memory_id": id(at), "concept": word, "content": format!("{word} {at}"), "confidence": 0.1, "source_id": "",
            "tags": [word], "metadata": {}, "created_at": "1741872000", "entity_name": "",
        })
    };
    let event = |at: usize| {
        json!({
            "memory_id": format!("e{}", id(at)), "content": word, "source_label": "session", "tags": [], "metadata": {},
            "created_at": "1741872000",
        })
    };
    let similar = |at: usize| json!({"source_id": id(at), "target_id": id((at * 7 + 1) % NODES), "weight": 0.5, "metadata": {}});
    let derived = |at: usize| json!({"source_id": id(at), "target_id": format!("e{}", id(at)), "extraction_method": "", "confidence": 1.0});
    let rows = |row: &dyn Fn(usize) -> Value| (0..NODES).map(row).collect::<Vec<_>>();
    let graph = json!({
        "agent_name": "ada", "exported_at": "1741872000", "format_version": "1.1",
        "semantic_nodes": rows(&knowledge), "episodic_nodes": rows(&event), "similar_to_edges": rows(&similar),
        "derives_from_edges": rows(&derived), "supersedes_edges": [], "transitioned_to_edges": [],
    });
    let name = format!("{word}.json");
    std::fs::write(home.join(&name), graph.to_string()).unwrap();
    name
}

/// The rows in a file of a graph.
fn rows_of(path: &Path) -> Vec<Value> {
    let mut graph: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    ARRAYS.map(|name| graph[name].take()).into()
}

/// The rows of ada's graph in a store.
fn rows_in(home: &Path, store: &Store) -> Vec<Value> {
    ok(home, &["graph", "export", "ada", "now.json", "--url", &store.url, "-q"]);
    rows_of(&home.join("now.json"))
}

async fn imports(kind: &Kind, home: &Path) {
    let store = kind.fresh(home).await;
    let files = ["old", "new"].map(|word| graph_file(home, word));
    let whole = files.each_ref().map(|name| rows_of(&home.join(name)));
    let import = |at: usize| ["graph", "import", "ada", &files[at % 2], "--url", &store.url, "-q"];
    let whole_run = timed(home, &import(0));
    let (mut random, mut cut) = (Random::new(11), 0);
    for round in 0..rounds(kind) {
        let at = usize::try_from(round).unwrap() + 1;
        cut += u64::from(killed(home, &import(at), moment(&mut random, whole_run)));
        store.settled().await;
        let now = rows_in(home, &store);
        assert!(whole.contains(&now), "round {round}: half an import");
        ok(home, &import(at));
        assert_eq!(rows_in(home, &store), whole[at % 2], "round {round}");
    }
    // A merge: what was there, or both.
    let before = rows_in(home, &store);
    let other = &files[usize::from(before == whole[0])];
    let merge = ["graph", "import", "ada", other, "--merge", "--url", &store.url, "-q"];
    cut += u64::from(killed(home, &merge, moment(&mut random, whole_run)));
    store.settled().await;
    let nodes = |rows: &[Value]| rows.iter().map(|rows| rows.as_array().unwrap().len()).collect::<Vec<_>>();
    let (now, double) =
        (rows_in(home, &store), nodes(&before).iter().map(|rows| rows * 2).collect::<Vec<_>>());
    assert!(now == before || nodes(&now) == double, "half a merge");
    ok(home, &merge);
    assert_eq!(nodes(&rows_in(home, &store)), double);
    println!("{cut} of {} imports were killed in the middle", rounds(kind) + 1);
}

async fn exports(kind: &Kind, home: &Path) {
    let store = kind.fresh(home).await;
    let file = graph_file(home, "old");
    ok(home, &["graph", "import", "ada", &file, "--url", &store.url, "-q"]);
    let out = home.join("out");
    std::fs::create_dir(&out).unwrap();
    let again = kind.fresh(home).await;
    for (name, format) in [("ada.json", "json"), ("ada.db", "raw-db")] {
        let target = format!("out/{name}");
        let export = ["graph", "export", "ada", &target, "--format", format, "--url", &store.url, "-q"];
        let whole_run = timed(home, &export);
        let (mut random, mut cut) = (Random::new(12), 0);
        for round in 0..rounds(kind) {
            if round % 2 == 0 {
                std::fs::remove_file(out.join(name)).unwrap();
            }
            cut += u64::from(killed(home, &export, moment(&mut random, whole_run)));
            if out.join(name).exists() {
                ok(home, &["graph", "import", "ada", &target, "--format", format, "--url", &again.url, "-q"]);
                assert_eq!(rows_in(home, &again), rows_of(&home.join(&file)), "round {round}: half a file");
            }
            ok(home, &export);
            let kept = format!("{name}.bak");
            let left = std::fs::read_dir(&out).unwrap().map(|item| item.unwrap().file_name());
            let left: Vec<_> =
                left.filter(|left| *left != *kept && left.to_string_lossy().contains(name)).collect();
            assert_eq!(left, [name], "round {round}: what the killed one left is gone");
        }
        println!("{cut} of {} exports as {format} were killed in the middle", rounds(kind));
    }
    assert_eq!(rows_in(home, &store), rows_of(&home.join(&file)), "the graph is as it was");
}

/// A database of sessions as the original creates it.
fn sessions_file(home: &Path) {
    memory::sqlite::prepare_process();
    let old = rusqlite::Connection::open(home.join("sessions.db")).unwrap();
    old.execute_batch(&format!(
        "CREATE TABLE memory_entries (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, agent_id TEXT NOT NULL, \
         memory_type TEXT NOT NULL, title TEXT NOT NULL, content TEXT NOT NULL, content_hash TEXT, \
         metadata TEXT NOT NULL DEFAULT '{{}}', tags TEXT DEFAULT NULL, importance INTEGER DEFAULT NULL, \
         created_at TEXT NOT NULL, accessed_at TEXT NOT NULL, expires_at TEXT DEFAULT NULL, parent_id TEXT DEFAULT NULL); \
         CREATE TABLE sessions (session_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, last_accessed TEXT NOT NULL, \
         metadata TEXT NOT NULL DEFAULT '{{}}'); \
         CREATE TABLE session_agents (session_id TEXT NOT NULL, agent_id TEXT NOT NULL, first_used TEXT NOT NULL, \
         last_used TEXT NOT NULL, PRIMARY KEY (session_id, agent_id)); \
         INSERT INTO sessions VALUES ('s', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '{{}}'); \
         INSERT INTO session_agents VALUES ('s', 'ada', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00'); \
         INSERT INTO memory_entries (id, session_id, agent_id, memory_type, title, content, created_at, accessed_at) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ENTRIES}) \
         SELECT 'm' || i, 's', 'ada', 'learning', 't', 'learned ' || i, '2026-01-01T00:00:00+00:00', \
         '2026-01-01T00:00:00+00:00' FROM n;"
    ))
    .unwrap();
}

async fn migrations(kind: &Kind, home: &Path) {
    let from = kind.fresh(home).await;
    let file = graph_file(home, "old");
    ok(home, &["graph", "import", "ada", &file, "--url", &from.url, "-q"]);
    ok(home, &["graph", "export", "ada", "ada.db", "--format", "raw-db", "--url", &from.url, "-q"]);
    sessions_file(home);
    let sources = ["ada.db", "sessions.db"].map(|name| (name, std::fs::read(home.join(name)).unwrap()));
    let (mut random, mut cut, mut partly) = (Random::new(13), 0, 0);
    // The shorter of two, since another program may have slowed one down.
    let (first, second) = (kind.fresh(home).await, kind.fresh(home).await);
    let whole_run = [&first, &second]
        .map(|store| timed(home, &["graph", "migrate", "sessions.db", "--url", &store.url, "-q"]));
    let whole_run = whole_run[0].min(whole_run[1]);
    for round in 0..rounds(kind) {
        let to = kind.fresh(home).await;
        let migrate = |name| ["graph", "migrate", name, "--url", &to.url, "-q"];
        cut += u64::from(killed(home, &migrate("ada.db"), moment(&mut random, whole_run)));
        to.settled().await;
        let export = ["graph", "export", "ada", "now.json", "--url", &to.url, "-q"];
        if command(home, &export).status().unwrap().success() {
            assert_eq!(
                rows_of(&home.join("now.json")),
                rows_of(&home.join(&file)),
                "round {round}: half a graph"
            );
        }
        ok(home, &migrate("ada.db"));
        assert_eq!(rows_in(home, &to), rows_of(&home.join(&file)), "round {round}");

        cut += u64::from(killed(home, &migrate("sessions.db"), moment(&mut random, whole_run)));
        to.settled().await;
        let report = ok(home, &[&migrate("sessions.db")[..], &["--json"]].concat());
        let report: Value = serde_json::from_str(&report).unwrap();
        let entries =
            report["tables"].as_array().unwrap().iter().find(|table| table["table"] == "memory_entries");
        let number = |name: &str| usize::try_from(entries.unwrap()[name].as_u64().unwrap()).unwrap();
        assert_eq!(number("stored") + number("skipped"), ENTRIES, "round {round}: {report}");
        partly += u64::from(number("skipped") > 0 && number("stored") > 0);
        let listed = ok(home, &["graph", "clean", "*", "--url", &to.url, "--json"]);
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed["sessions"][0]["entries"], ENTRIES, "round {round}");
        for (name, before) in &sources {
            assert_eq!(
                &std::fs::read(home.join(name)).unwrap(),
                before,
                "round {round}: {name} is untouched"
            );
        }
    }
    let all = 2 * rounds(kind);
    println!("{cut} of {all} migrations were killed in the middle, {partly} with some entries stored");
}

async fn two_imports(kind: &Kind, home: &Path) {
    let store = kind.fresh(home).await;
    let files = ["old", "new"].map(|word| graph_file(home, word));
    let whole = files.each_ref().map(|name| rows_of(&home.join(name)));
    for round in 0..2 {
        let running = files.each_ref().map(|name| {
            command(home, &["graph", "import", "ada", name, "--url", &store.url, "-q"]).spawn().unwrap()
        });
        for child in running {
            let ended = child.wait_with_output().unwrap();
            assert!(ended.status.success(), "round {round}: {ended:?}");
        }
        assert!(whole.contains(&rows_in(home, &store)), "round {round}: a graph of two files");
    }
}

on_each_store! {
    a_killed_import_leaves_the_graph_of_before_or_after => imports;
    a_killed_export_leaves_no_half_file => exports;
    a_killed_migration_leaves_a_whole_graph_and_its_source_and_goes_on_when_run_again => migrations;
    two_imports_at_once_leave_one_of_their_graphs => two_imports;
}
