//! An agent's graph in the terminal.

use std::process::Stdio;

use serde_json::json;

use crate::support::user::User;

pub(super) fn ada<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["graph"], arguments, &["--agent", "ada"]].concat()
}

#[test]
fn memories_are_stored_linked_recalled_and_shown() {
    let user = User::new();
    user.ok(&ada(&[
        "remember",
        "the port",
        "is 8080",
        "--id",
        "p1",
        "--concept",
        "port",
        "--entity",
        "proxy",
    ]));
    user.ok(&ada(&["remember", "the port is 9090", "--id", "p2", "--entity", "proxy"]));
    let event = user.json(&ada(&["remember", "read the config", "--event", "--source", "session"]));
    let event = event["memory_id"].as_str().unwrap();
    assert!(user.ok(&ada(&["relate", "p2", "supersedes", "p1"])).contains("linked"));
    assert_eq!(user.json(&ada(&["relate", "p2", "derives_from", event]))["is_new"], true);
    assert_eq!(user.json(&ada(&["relate", "p2", "derives_from", event]))["is_new"], false);

    let hits = user.json(&ada(&["recall", "port 8080"]));
    let ids: Vec<&str> =
        hits.as_array().unwrap().iter().map(|hit| hit["node"]["memory_id"].as_str().unwrap()).collect();
    assert_eq!((ids[0], ids[2]), ("p2", "p1"));
    assert_eq!(hits[2]["is_superseded"], true);
    assert!(user.ok(&ada(&["recall", "port", "8080"])).contains("(superseded)"));

    let shown = user.json(&ada(&["show", "p1"]));
    assert_eq!(shown["neighbours"]["shown"][0]["edge"]["kind"], "SUPERSEDES");
    assert!(user.ok(&ada(&["show", "p1"])).contains("<- SUPERSEDES p2"));
    let history = user.json(&ada(&["history", "proxy"]));
    assert_eq!(history[0]["superseded_by"], json!(["p2"]));
    assert!(user.ok(&ada(&["history", "proxy"])).contains("SUPERSEDES p1"));
    assert!(user.run(&ada(&["history", "nobody"])).stderr.contains("nothing is known of an entity `nobody`"));
    assert_eq!(user.json(&ada(&["stats"]))["semantic_node_count"], 2);

    user.ok(&["graph", "remember", "elsewhere", "--agent", "bob", "--id", "b1"]);
    let tree = user.ok(&["graph", "tree"]);
    assert!(tree.contains("ada\n") && tree.contains("    SUPERSEDES p1") && tree.contains("b1"), "{tree}");
    assert!(!user.ok(&ada(&["tree", "--depth", "0"])).contains("SUPERSEDES"));
    user.refused(&["graph", "show", "p1", "--agent", "bob"], 3, "not_found");
    // Without --agent they were the counts of an agent `default`: none.
    let all = user.json(&["graph", "stats"]);
    assert_eq!((&all[0]["agent"], &all[0]["semantic_node_count"]), (&json!("ada"), &json!(2)), "{all}");
    assert_eq!((&all[1]["agent"], &all[2]), (&json!("bob"), &json!(null)));
    assert!(user.ok(&["graph", "stats"]).contains("bob: 1 semantic and 0 episodic memories"));

    user.ok(&ada(&["relate", "p2", "similar_to", "p1"]));
    let again = user.json(&ada(&["relate", "p2", "similar_to", "p1", "--weight", "0.3"]));
    assert_eq!((&again["is_new"], &again["edge"]["weight"]), (&json!(false), &json!(1.0)), "{again}");
    let told = user.ok(&ada(&["relate", "p2", "similar_to", "p1", "--weight", "0.3"]));
    assert!(told.contains("stays as it is"), "{told}");
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let user = User::new();
    user.ok(&ada(&["remember", "one", "--id", "a"]));
    user.ok(&ada(&["remember", "two", "--id", "b"]));
    user.ok(&ada(&["relate", "a", "supersedes", "b"]));
    for (arguments, code) in [
        (ada(&["remember", "again", "--id", "a"]), "conflict"),
        (ada(&["remember", "sure", "--confidence", "42"]), "invalid_argument"),
        (ada(&["remember", " "]), "invalid_argument"),
        (ada(&["remember", "", "--event"]), "invalid_argument"),
        (ada(&["relate", "b", "supersedes", "a"]), "conflict"),
        (ada(&["relate", "a", "similar_to", "missing"]), "not_found"),
        (vec!["graph", "stats", "--agent", "a/b"], "invalid_argument"),
    ] {
        let ran = user.run(&[&arguments[..], &["--json"]].concat());
        assert_ne!(ran.code, Some(0), "{arguments:?}");
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(code), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn the_backend_is_chosen_by_option_variable_and_files() {
    let user = User::new();
    let with = |variable: Option<&str>, arguments: &[&str]| {
        let mut command = user.command(arguments);
        command.env_remove("AMPLIHACK_MEMORY_BACKEND");
        if let Some(value) = variable {
            command.env("AMPLIHACK_MEMORY_BACKEND", value);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let backend = ["graph", "backend", "--json"];
    assert!(with(None, &backend).1.contains("\"by\":\"default\""));
    let (_, answer, warning) = with(Some("kuzu"), &backend);
    assert!(
        answer.contains("\"backend\":\"graph-db\"") && warning.contains("graph-db"),
        "{answer} {warning}"
    );
    assert!(with(Some("kuzu"), &["graph", "backend", "--graph-backend", "sqlite"]).1.starts_with("sqlite"));
    let (_, answer, _) = with(None, &["graph", "backend", "--backend", "graph-db", "--json"]);
    assert!(answer.contains("\"by\":\"flag\"") && answer.contains(".amplihack/graphs"), "{answer}");
    let (code, answer, _) = with(Some("kuzu"), &["graph", "backend", "--backend", "sqlite", "--json"]);
    assert!(code == Some(0) && answer.contains("memory.db"), "{answer}");
    let (code, _, error) = with(Some("redis"), &["graph", "stats"]);
    assert!(code == Some(3) && error.contains("AMPLIHACK_MEMORY_BACKEND"), "{error}");
    let (code, _, error) = with(Some("redis"), &["graph", "export", "ada", "ada.json"]);
    assert!(code != Some(0) && error.contains("going on with `graph-db`"), "{error}");
    for option in ["--graph-backend", "--backend"] {
        let refused = user.refused(&["graph", "stats", option, "KUZU"], 3, "invalid_argument");
        let details = (&refused["details"]["value"], &refused["details"]["allowed"][1]);
        assert_eq!(details, (&json!("KUZU"), &json!("graph-db")), "{option}: {refused}");
    }

    user.file(".amplihack/memory_graph.db", "");
    assert!(with(None, &backend).1.contains("memory_graph.db"));
    let (code, _, error) = with(None, &["graph", "stats"]);
    // With the engine, no agent has a graph yet.
    assert_eq!(code == Some(0), cfg!(feature = "ladybug"), "{error}");
    for told in ["no graph engine", "`memory graph migrate`"] {
        assert!(cfg!(feature = "ladybug") || error.contains(told), "{error}");
    }
}

/// Two memories that differ in everything a file can get wrong, and an edge.
pub(super) fn small_graph() -> serde_json::Value {
    json!({
        "agent_name": "somebody else", "exported_at": "1741872000", "format_version": "1.1",
        "semantic_nodes": [{
            "memory_id": "s1", "concept": "zażółć 記憶", "content": "a \"quote\"\nand more", "confidence": 0.1,
            "source_id": "e1", "tags": ["a"], "metadata": {"b": [1, 2.5, null], "a": 0.30000000000000004},
            "created_at": "1741872000", "entity_name": "",
        }],
        "episodic_nodes": [{
            "memory_id": "e1", "content": "what happened", "source_label": "session", "tags": [], "metadata": {},
            "created_at": "2026-01-02T03:04:05+02:00",
        }],
        "similar_to_edges": [],
        "derives_from_edges": [
            {"source_id": "s1", "target_id": "e1", "extraction_method": "read", "confidence": 1.0},
        ],
        "supersedes_edges": [], "transitioned_to_edges": [],
    })
}

#[test]
fn a_graph_goes_to_a_file_and_comes_back_the_same() {
    let user = User::new();
    let said = user.file("said.json", small_graph().to_string());
    let said = said.to_str().unwrap();
    let imported = user.json(&["graph", "import", "ada", said]);
    assert_eq!(imported["semantic_nodes"], json!({"imported": 1, "skipped": 0, "errors": 0}));
    assert_eq!(imported["derives_from_edges"]["imported"], 1);
    let merged = user.json(&["graph", "import", "ada", said, "--merge"]);
    assert_eq!(
        (&merged["semantic_nodes"]["skipped"], &merged["derives_from_edges"]["skipped"]),
        (&json!(1), &json!(1))
    );
    let mut other = small_graph();
    other["semantic_nodes"][0]["content"] = json!("something else");
    user.file("other.json", other.to_string());
    let ran = user.run(&["graph", "import", "ada", "other.json", "--merge"]);
    assert!(
        ran.code == Some(7) && ran.stdout.contains("1 refused") && ran.stdout.contains("\n  s1\n"),
        "{ran:?}"
    );

    user.ok(&["graph", "export", "ada", "out.json"]);
    let text = std::fs::read_to_string(user.home().join("out.json")).unwrap();
    assert!(
        text.starts_with("{\n  \"agent_name\": \"ada\",\n") && text.contains("0.30000000000000004"),
        "{text}"
    );
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    for table in ["semantic_nodes", "episodic_nodes", "derives_from_edges"] {
        assert_eq!(written[table], small_graph()[table], "{table}");
    }
    assert_eq!(written["statistics"]["derives_from_edge_count"], 1);

    // A database, twice: the previous one is kept.
    for _ in 0..2 {
        user.ok(&["graph", "export", "ada", "ada.db", "--format", "kuzu"]);
    }
    assert!(user.home().join("ada.db.bak").exists());
    user.refused(&["graph", "import", "bob", "ada.db", "--format", "raw-db"], 6, "corrupt");
    user.refused(
        &["graph", "import", "ada", "ada.db", "--format", "raw-db", "--merge"],
        3,
        "invalid_argument",
    );
    user.ok(&["graph", "import", "ada", "ada.db", "--format", "raw-db"]);
    let other = User::new();
    let database = user.home().join("ada.db");
    let migrated = other.json(&["graph", "migrate", database.to_str().unwrap()]);
    assert_eq!(migrated["refusals"], json!([]), "{migrated}");
    other.ok(&["graph", "export", "ada", "again.json"]);
    let moved = other.home().join("copy.db");
    std::fs::copy(&database, &moved).unwrap();
    let ran = other.run(&["graph", "migrate", "copy.db"]);
    assert!(ran.code == Some(7) && ran.stderr.contains("--only AGENT"), "{ran:?}");
    other.ok(&["graph", "migrate", "copy.db", "--only", "ada"]);
    let again: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(other.home().join("again.json")).unwrap()).unwrap();
    assert_eq!(again["semantic_nodes"], written["semantic_nodes"]);

    user.refused(&["graph", "export", "nobody", "none.json"], 3, "not_found");
    assert!(!user.home().join("none.json").exists());
}

#[test]
fn a_faulty_file_changes_nothing_and_a_link_is_never_followed() {
    let user = User::new();
    user.ok(&ada(&["remember", "kept", "--id", "k"]));
    let mut faulty = small_graph();
    faulty["derives_from_edges"][0]["target_id"] = json!("gone");
    user.file("faulty.json", faulty.to_string());
    let error = user.refused(&["graph", "import", "ada", "faulty.json"], 6, "corrupt");
    assert!(error.to_string().contains("derives_from_edges[0].target_id"), "{error}");
    assert_eq!(user.json(&ada(&["stats"]))["semantic_node_count"], 1);

    user.ok(&["graph", "export", "ada", "ada.db", "--format", "raw-db"]);
    let error = user.refused(&["graph", "import", "ada", "ada.db"], 3, "invalid_argument");
    assert!(error.to_string().contains("--format raw-db"), "{error}");
    for arguments in [
        &["graph", "import", "ada", "gone.db", "--format", "raw-db"][..],
        &["graph", "migrate", "gone.db"],
        &["graph", "export", "gone", "-", "--storage-path", "agents"],
    ] {
        let error = user.refused(arguments, 3, "not_found");
        assert!(error.to_string().contains("gone.db"), "{arguments:?}: {error}");
    }

    let victim = user.file("victim", "precious");
    for (name, format) in [("link.json", "json"), ("link.db", "raw-db")] {
        std::os::unix::fs::symlink(&victim, user.home().join(name)).unwrap();
        assert_ne!(user.run(&["graph", "export", "ada", name, "--format", format]).code, Some(0));
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}

/// Regression: files of the graph engine kept everything else from being imported, and the error for a missing store
/// did not say what is there.
#[test]
fn an_installation_of_the_original_is_hinted_at_and_taken_over_beside_the_engines_files() {
    let (user, other) = (User::new(), User::new());
    other.file("graph.json", small_graph().to_string());
    other.ok(&["graph", "import", "ada", "graph.json"]);
    other.ok(&["graph", "export", "ada", "ada.db", "--format", "raw-db"]);
    let database = std::fs::read(other.home().join("ada.db")).unwrap();
    user.file(".amplihack/hierarchical_memory/ada.db", database);
    let hinted = |arguments: &[&str]| {
        let refused = user.refused(arguments, 3, "not_found");
        assert!(refused["message"].as_str().unwrap().contains("`memory graph migrate`"), "{refused}");
    };
    hinted(&ada(&["tree"]));
    hinted(&["graph", "export", "ada", "ada.json"]);
    user.file(".amplihack/hierarchical_memory/bob/graph_db", "LBUG");
    user.file(".amplihack/hierarchical_memory/eve.db", "no database");
    let ran = user.run(&["graph", "migrate", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let (backend, code) = match cfg!(feature = "ladybug") {
        true => ("graph-db", "corrupt"),
        false => ("sqlite", "capability_unsupported"),
    };
    assert_eq!((ran.code, &report[1]["error"]["code"]), (Some(7), &json!(code)), "{ran:?}");
    assert_eq!(report[0]["migrated"]["refusals"], json!([]), "{ran:?}");
    let counts = user.json(&ada(&["stats", "--graph-backend", backend]));
    assert_eq!(counts["semantic_node_count"], 1);
    hinted(&["graph", "export", "eve", "eve.json", "--graph-backend", backend]);
    let refused =
        user.refused(&["graph", "export", "zoe", "zoe.json", "--graph-backend", backend], 3, "not_found");
    assert!(!refused["message"].as_str().unwrap().contains("migrate"), "{refused}");
    // Files found elsewhere choose nothing for a named folder.
    let place = ["--storage-path", ".amplihack/hierarchical_memory"];
    user.ok(&[&["graph", "export", "ada", "ada.json"], &place[..]].concat());
}

/// Regression: with a store, what the original's files alone have was shown as nothing, without a word.
#[test]
fn what_only_the_original_has_is_hinted_at_beside_a_store() {
    let (user, other) = (User::new(), User::new());
    for (user, agent) in [(&user, "bob"), (&other, "ada")] {
        user.file("graph.json", small_graph().to_string());
        user.ok(&["graph", "import", agent, "graph.json"]);
    }
    other.ok(&["graph", "export", "ada", "ada.db", "--format", "raw-db"]);
    let database = std::fs::read(other.home().join("ada.db")).unwrap();
    user.file(".amplihack/hierarchical_memory/ada.db", &database);
    user.file(".amplihack/hierarchical_memory/bob.db", &database);
    user.file(".amplihack/memory.db", "");
    let hints = |arguments: &[&str]| {
        let ran = user.run(arguments);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stderr
            .lines()
            .filter(|line| line.contains("`memory graph migrate`"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let all = [&["stats"][..], &["recall", "x"], &["tree"], &["history", "x"]];
    for command in all {
        let hints = hints(&ada(command));
        assert!(matches!(&hints[..], [hint] if hint.contains("a graph of ada;")), "{command:?}: {hints:?}");
    }
    // Of all agents, that of one is here.
    let found = hints(&["graph", "stats"]);
    assert!(matches!(&found[..], [hint] if hint.contains("a graph of ada;")), "{found:?}");
    assert_eq!(hints(&["graph", "stats", "--agent", "bob"]).len(), 0);
    assert_eq!(hints(&["graph", "stats", "--agent", "zoe"]).len(), 0);
    assert_eq!(hints(&["graph", "sessions"]).len(), 1);
    user.run(&["graph", "migrate"]);
    assert_eq!(hints(&["graph", "stats"]).len(), 0);
}

/// Memories that lead to each other make an endless tree.
#[test]
fn a_tree_ends_and_says_so() {
    let user = User::new();
    let mut graph = small_graph();
    let mut node = graph["semantic_nodes"][0].take();
    node["content"] = json!("x".repeat(1_000_000));
    let nodes = ["a", "b"].map(|id| {
        node["memory_id"] = json!(id);
        node.clone()
    });
    let edges = [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")].map(
        |(source, target)| json!({"source_id": source, "target_id": target, "weight": 1.0, "metadata": {}}),
    );
    (graph["semantic_nodes"], graph["similar_to_edges"]) = (json!(nodes), json!(edges));
    graph["derives_from_edges"] = json!([]);
    user.file("graph.json", graph.to_string());
    user.ok(&["graph", "import", "ada", "graph.json"]);
    let ran = user.run(&ada(&["tree", "--depth", "4"]));
    assert!(ran.code == Some(7) && ran.stderr.contains("the tree goes on"), "{:?} {}", ran.code, ran.stderr);
    assert!((30..36).contains(&ran.stdout.lines().count()), "{}", ran.stdout.lines().count());
    assert_eq!(user.run(&ada(&["tree", "--depth", "1"])).code, Some(0));
    user.ok(&ada(&["relate", "a", "transitioned_to", "b", "--turn", "-3"]));
}

#[test]
fn bad_files_and_a_missing_home_are_refused_at_once() {
    let user = User::new();
    let pipe = user.home().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Nobody writes to it, so opening it for reading would block forever.
    for arguments in [
        &["graph", "migrate", "pipe"][..],
        &["graph", "import", "ada", "pipe", "--format", "raw-db"],
        &["graph", "export", "ada", "pipe"],
        &["graph", "export", "ada", "pipe", "--format", "raw-db"],
    ] {
        user.ok(&ada(&["remember", "one"]));
        user.refused(arguments, 3, "invalid_argument");
    }
    let victim = user.file("victim.db", "precious");
    std::os::unix::fs::symlink(&victim, user.home().join("link.db")).unwrap();
    for arguments in [
        &["graph", "migrate", "link.db", "--only", "ada"][..],
        &["graph", "import", "ada", "link.db", "--format", "raw-db"],
    ] {
        user.refused(arguments, 3, "invalid_argument");
    }
    for home in [None, Some("")] {
        let mut command = user.command(&["graph", "backend", "--json"]);
        command.env_remove("AMPLIHACK_MEMORY_BACKEND").env_remove("HOME");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{home:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("HOME"), "{output:?}");
    }
}

/// Regression: a file could contain circles of memories that replace each other, which no other command creates.
#[test]
fn a_circle_in_a_file_is_refused_with_its_place() {
    let user = User::new();
    let mut graph = small_graph();
    let node = graph["semantic_nodes"][0].clone();
    let mut nodes = Vec::new();
    for id in ["s1", "s2", "s3"] {
        let mut node = node.clone();
        (node["memory_id"], node["entity_name"]) = (json!(id), json!("proxy"));
        nodes.push(node);
    }
    graph["semantic_nodes"] = json!(nodes);
    let edge = |source: &str, target: &str| json!({"source_id": source, "target_id": target, "reason": "", "temporal_delta": ""});
    graph["supersedes_edges"] = json!([edge("s1", "s2"), edge("s2", "s3")]);
    user.file("chain.json", graph.to_string());
    user.ok(&["graph", "import", "ada", "chain.json"]);
    graph["supersedes_edges"] = json!([edge("s3", "s1")]);
    user.file("closing.json", graph.to_string());
    graph["supersedes_edges"] = json!([edge("s1", "s1")]);
    user.file("itself.json", graph.to_string());
    for (file, mode) in
        [("closing.json", &["--merge"][..]), ("itself.json", &["--merge"]), ("itself.json", &[])]
    {
        let refused = user.refused(&[&["graph", "import", "ada", file], mode].concat(), 6, "corrupt");
        assert_eq!(refused["details"]["place"], "supersedes_edges[0]", "{file}: {refused}");
    }
    assert_eq!(user.json(&ada(&["stats"]))["supersedes_edge_count"], 2);
}

/// What a program holds of the database about to be replaced, and what it left next to it.
#[test]
fn a_database_in_use_or_left_unclosed_is_not_replaced() {
    let user = User::new();
    user.ok(&ada(&["remember", "one", "--id", "a"]));
    let into = |path: &str| ["graph", "export", "ada", path, "--format", "raw-db"].map(str::to_owned);
    memory::sqlite::prepare_process();
    for (mode, work) in [
        ("wal", ""),
        ("delete", "BEGIN; SELECT * FROM notes;"),
        ("delete", "BEGIN IMMEDIATE;"),
        ("delete", "BEGIN EXCLUSIVE;"),
    ] {
        let path = user.home().join("used.db");
        let _ = std::fs::remove_file(&path);
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE notes (id)")).unwrap();
        other.execute_batch("INSERT INTO notes VALUES (1); PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        other.execute_batch(work).unwrap();
        let arguments = into("used.db");
        user.refused(&arguments.each_ref().map(String::as_str), 4, "conflict");
        // Reading the file here would release this process's locks.
        assert!(!user.home().join("used.db.bak").exists(), "{mode} {work}");
        let kept: i64 = other.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1, "{mode} {work}");
        drop(other);
        user.ok(&arguments.each_ref().map(String::as_str));
        std::fs::remove_file(user.home().join("used.db.bak")).unwrap();
    }
    // What a killed program leaves.
    for ending in ["-wal", "-journal"] {
        std::fs::write(user.home().join(format!("left.db{ending}")), "what it wrote last").unwrap();
        std::fs::copy(user.home().join("used.db"), user.home().join("left.db")).unwrap();
        let told = user.refused(&["graph", "export", "ada", "left.db", "--format", "raw-db"], 4, "conflict");
        assert!(told["message"].as_str().unwrap().contains(ending), "{told}");
        std::fs::remove_file(user.home().join(format!("left.db{ending}"))).unwrap();
    }
}

#[test]
fn a_tree_says_what_it_leaves_out() {
    let user = User::new();
    for id in ["a", "b", "c"] {
        user.ok(&ada(&["remember", "one", "--id", id]));
    }
    let all = user.json(&ada(&["tree"]));
    assert_eq!(
        (all[0]["memories"].as_array().unwrap().len(), &all[0]["truncated"]),
        (3, &json!(false)),
        "{all}"
    );
    let cut = user.run(&ada(&["tree", "--limit", "2"]));
    assert!(cut.code == Some(7) && cut.stdout.contains("  and 1 more"), "{cut:?}");
    let cut = user.run(&ada(&["tree", "--limit", "2", "--json"]));
    assert!(cut.code == Some(7) && cut.stdout.contains("\"truncated\":true"), "{cut:?}");
}

#[test]
fn what_a_command_of_graphs_does_not_take_is_refused() {
    let user = User::new();
    user.ok(&ada(&["remember", "one", "--id", "a"]));
    user.ok(&ada(&["remember", "two", "--id", "b"]));
    user.file("file", "no folder");
    for (arguments, told) in [
        (vec!["graph", "stats", "--user", "ada"], "--agent"),
        (vec!["graph", "tree", "--run", "ada"], "--agent"),
        (vec!["graph", "clean", "*", "--user", "ada"], "--agent"),
        (ada(&["export", "ada", "x.json"]), "takes no --agent"),
        (ada(&["import", "ada", "file", "--storage-path", "agents"]), "takes no --agent"),
        (ada(&["migrate", "file"]), "--only"),
        (vec!["graph", "backend", "--run", "r"], "takes no --agent"),
        (
            ada(&["relate", "a", "transitioned_to", "b", "--weight", "0.4"]),
            "`transitioned_to` has no --weight",
        ),
        (ada(&["relate", "a", "similar_to", "b", "--turn", "4"]), "`similar_to` has no --turn"),
        (vec!["graph", "import", "ada", "-", "--format", "raw-db"], "`-` is for JSON"),
        (vec!["graph", "export", "ada", "x.json", "--storage-path", "file"], "is no folder"),
        (
            vec!["graph", "export", "ada", "x.json", "--storage-path", ".", "--graph-backend", "graph-db"],
            "`--graph-backend sqlite`",
        ),
    ] {
        let refused = user.refused(&arguments, 3, "invalid_argument");
        assert!(refused["message"].as_str().unwrap().contains(told), "{arguments:?}: {refused}");
    }
    assert_eq!(user.run(&ada(&["remember", "three", "--id="])).code, Some(2));
}

#[test]
fn sessions_are_removed_by_pattern_when_told_twice() {
    let user = User::new();
    memory::sqlite::prepare_process();
    let old = rusqlite::Connection::open(user.home().join("memory.db")).unwrap();
    old.execute_batch(
        "CREATE TABLE memory_entries (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, agent_id TEXT NOT NULL, \
         memory_type TEXT NOT NULL, title TEXT NOT NULL, content TEXT NOT NULL, content_hash TEXT, \
         metadata TEXT NOT NULL DEFAULT '{}', tags TEXT DEFAULT NULL, importance INTEGER DEFAULT NULL, \
         created_at TEXT NOT NULL, accessed_at TEXT NOT NULL, expires_at TEXT DEFAULT NULL, parent_id TEXT DEFAULT NULL); \
         CREATE TABLE sessions (session_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, last_accessed TEXT NOT NULL, \
         metadata TEXT NOT NULL DEFAULT '{}'); \
         CREATE TABLE session_agents (session_id TEXT NOT NULL, agent_id TEXT NOT NULL, first_used TEXT NOT NULL, \
         last_used TEXT NOT NULL, PRIMARY KEY (session_id, agent_id)); \
         INSERT INTO sessions VALUES ('test_1', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '{}'), \
         ('test_2', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '{}'), \
         ('test_3', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '{}'), \
         ('real', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '{}'); \
         INSERT INTO session_agents VALUES ('test_1', 'ada', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00'), \
         ('test_2', 'ada', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00'), \
         ('test_3', 'bob', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00'); \
         INSERT INTO memory_entries (id, session_id, agent_id, memory_type, title, content, created_at, accessed_at) \
         VALUES ('m1', 'test_1', 'ada', 'learning', 't', 'said', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00'), \
         ('m2', 'test_2', 'bob', 'learning', 't', 'said', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00');",
    )
    .unwrap();
    drop(old);
    let migrated = user.ok(&["graph", "migrate", "memory.db"]);
    assert!(migrated.contains("memory_entries"), "{migrated}");
    // What was taken over can be read.
    let names = |found: serde_json::Value| -> Vec<String> {
        let name = |one: &serde_json::Value| one["session_id"].as_str().unwrap().to_owned();
        found.as_array().unwrap().iter().map(name).collect()
    };
    assert_eq!(names(user.json(&["graph", "sessions"])), ["real", "test_1", "test_2", "test_3"]);
    assert_eq!(names(user.json(&ada(&["sessions"]))), ["test_1", "test_2"]);
    let table = user.ok(&["graph", "sessions"]);
    assert!(table.contains("test_2   1        ada, bob"), "{table}");
    assert_eq!(user.json(&["graph", "sessions", "test_2"])[0]["content"], "said");
    assert_eq!(user.json(&ada(&["sessions", "test_2"])), json!([]));
    let told = user.ok(&["graph", "sessions", "test_2"]);
    assert_eq!(told, "2026-01-01T00:00:00+00:00  learning of bob: t\n  said\n");
    user.refused(&["graph", "sessions", "test_9"], 3, "not_found");
    let listed = user.ok(&["graph", "clean", "[r-t]est_[!02-9]"]);
    assert_eq!(listed, "test_1: 1 entry\n1 session would be removed; give --yes\n");
    // The second one has an entry of another agent, and the third one belongs to another.
    assert_eq!(user.json(&ada(&["clean", "test_*", "--yes"]))["removed"], 1);
    assert_eq!(user.json(&["graph", "clean", "test_*", "--yes"])["removed"], 2);
    assert_eq!(user.run(&["graph", "clean", "test_*"]).code, Some(1));
    assert!(user.ok(&["graph", "clean", "*"]).contains("real"));
}
