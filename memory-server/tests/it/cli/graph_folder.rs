//! Graphs in the databases of a folder: `--storage-path`.

use std::process::Stdio;

use serde_json::json;

use super::graph::{ada, small_graph};
use crate::support::user::User;

/// Regression: an import replaced whatever was there, and the next one even its copy.
#[test]
fn a_file_in_a_folder_that_is_not_the_agents_graph_alone_is_not_replaced() {
    let user = User::new();
    let place = ["--storage-path", "agents"];
    let with = |arguments: &[&'static str]| [arguments, &place[..]].concat();
    user.file("graph.json", small_graph().to_string());
    user.ok(&with(&["graph", "import", "bob", "graph.json"]));
    let file = user.home().join("agents/ada.db");
    let tables = "CREATE TABLE memory_entries (id)";
    let sessions = user.home().join("sessions.db");
    memory::sqlite::prepare_process();
    rusqlite::Connection::open(&sessions).unwrap().execute_batch(tables).unwrap();
    for content in [
        std::fs::read(user.home().join("agents/bob.db")).unwrap(),
        std::fs::read(sessions).unwrap(),
        b"a text".to_vec(),
        b"LBUG and more".to_vec(),
    ] {
        std::fs::write(&file, &content).unwrap();
        for mode in [&[][..], &["--merge"]] {
            let arguments = [&with(&["graph", "import", "ada", "graph.json"]), mode].concat();
            let refused = user.refused(&arguments, 4, "conflict");
            assert!(refused["message"].as_str().unwrap().contains("move it elsewhere"), "{refused}");
            assert_eq!(std::fs::read(&file).unwrap(), content);
        }
    }
    assert!(!user.home().join("agents/ada.db.bak").exists());
}

/// Regression: each read the old database before the others had written theirs, and all but the last were lost.
#[test]
fn merges_into_a_folder_at_once_are_all_kept() {
    let user = User::new();
    let file = |name: &str| {
        let mut graph = small_graph();
        graph["semantic_nodes"][0]["memory_id"] = json!(name);
        graph["derives_from_edges"] = json!([]);
        user.file(&format!("{name}.json"), graph.to_string())
    };
    let merges = ["a", "b", "c", "d"].map(|name| {
        let file = file(name);
        let arguments =
            ["graph", "import", "ada", file.to_str().unwrap(), "--merge", "--storage-path", "agents"];
        user.command(&arguments).stdout(Stdio::null()).spawn().unwrap()
    });
    for merge in merges {
        assert!(merge.wait_with_output().unwrap().status.success());
    }
    let said = user.json(&["graph", "export", "ada", "out.json", "--storage-path", "agents"]);
    assert_eq!(said["statistics"]["semantic_node_count"], 4, "{said}");
}

#[test]
fn a_log_of_the_database_that_is_read_is_not_overwritten() {
    let user = User::new();
    user.ok(&ada(&["remember", "one", "--id", "a"]));
    let folder = user.home().join("agents");
    std::fs::create_dir(&folder).unwrap();
    user.ok(&["graph", "export", "ada", "agents/ada.db", "--format", "raw-db"]);
    for ending in ["", "-wal", "-shm", "-journal"] {
        let file = format!("agents/ada.db{ending}");
        user.refused(&["graph", "export", "ada", &file, "--storage-path", "agents"], 3, "invalid_argument");
    }
}

#[test]
fn databases_of_the_original_are_read_and_written_in_their_folder() {
    let user = User::new();
    user.file("graph.json", small_graph().to_string());
    let place = ["--storage-path", "agents"];
    let with = |arguments: &[&'static str]| [arguments, &place[..]].concat();
    let imported = user.json(&with(&["graph", "import", "ada", "graph.json"]));
    assert_eq!(imported["semantic_nodes"]["imported"], 1);
    assert!(!user.home().join(".local/share/memory/memory.db").exists(), "the store is not touched");
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(user.home().join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("agents"), mode("agents/ada.db")), (0o700, 0o600));
    let mut other = small_graph();
    other["semantic_nodes"][0]["memory_id"] = json!("s2");
    other["derives_from_edges"] = json!([]);
    user.file("other.json", other.to_string());
    let merged = user.json(&with(&["graph", "import", "ada", "other.json", "--merge"]));
    assert_eq!(
        (&merged["semantic_nodes"]["imported"], &merged["episodic_nodes"]["skipped"]),
        (&json!(1), &json!(1))
    );
    assert!(user.home().join("agents/ada.db.bak").exists());
    let said = user.json(&with(&["graph", "export", "ada", "out.json"]));
    assert_eq!(said["statistics"]["semantic_node_count"], 2);
    user.refused(&with(&["graph", "export", "bob", "none.json"]), 3, "not_found");
    user.refused(
        &with(&["graph", "export", "ada", "agents/ada.db", "--format", "raw-db"]),
        3,
        "invalid_argument",
    );
    user.refused(&with(&["graph", "import", "a/b", "other.json"]), 3, "invalid_argument");

    // The longest name that a file can have.
    let long = "y".repeat(248);
    for _ in 0..2 {
        user.ok(&[&["graph", "import", &long, "graph.json"], &place[..]].concat());
    }
    for ending in ["", ".bak"] {
        std::fs::remove_file(user.home().join(format!("agents/{long}.db{ending}"))).unwrap();
    }
    let long = "y".repeat(249);
    user.refused(&[&["graph", "import", &long, "graph.json"], &place[..]].concat(), 3, "invalid_argument");

    // A program that uses it, and links in its place.
    user.file("agents/ada.db-wal", "what was written last");
    user.refused(&with(&["graph", "import", "ada", "graph.json"]), 4, "conflict");
    std::fs::remove_file(user.home().join("agents/ada.db-wal")).unwrap();
    let victim = user.file("victim", "precious");
    for name in ["agents/eve.db", "agents/bob.db.bak"] {
        std::os::unix::fs::symlink(&victim, user.home().join(name)).unwrap();
    }
    user.ok(&with(&["graph", "import", "bob", "graph.json"]));
    for agent in ["eve", "bob"] {
        let ran = user.run(&with(&["graph", "import", agent, "other.json"]));
        assert_ne!(ran.code, Some(0), "{agent}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");

    // Everything there is imported into the store.
    let all = user.json(&with(&["graph", "migrate"]));
    let names: Vec<&str> = all.as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["agents/ada.db", "agents/bob.db"]);
    assert_eq!(user.json(&ada(&["stats"]))["semantic_node_count"], 2);
    user.refused(&["graph", "migrate"], 3, "not_found");
    std::fs::create_dir_all(user.home().join(".amplihack/hierarchical_memory")).unwrap();
    std::fs::rename(
        user.home().join("agents/bob.db"),
        user.home().join(".amplihack/hierarchical_memory/bob.db"),
    )
    .unwrap();
    // A file that is not a database does not keep the others out.
    user.file(".amplihack/hierarchical_memory/a.db", "no database");
    let ran = user.run(&["graph", "migrate", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &report[0]["error"]["code"]), (Some(7), &json!("corrupt")), "{ran:?}");
    assert_eq!(report[1]["migrated"]["refusals"], json!([]), "{ran:?}");
    std::fs::remove_file(user.home().join(".amplihack/hierarchical_memory/a.db")).unwrap();
    assert!(user.ok(&["graph", "migrate"]).contains("hierarchical_memory/bob.db"));
}
