//! `config` and how settings are chosen.

use serde_json::json;

use crate::support::service::Service;
use crate::support::user::{User, has};

#[test]
fn every_setting_shows_its_origin() {
    let user = User::new();
    let shown = user.json(&["config"]);
    assert_eq!(shown["file"], json!(null));
    assert_eq!(shown["url"]["from"], "default");
    assert!(shown["url"]["value"].as_str().unwrap().ends_with(".local/share/memory/memory.db"));
    assert_eq!(
        shown["scope"],
        json!({"value": {"tenant": "default", "kind": "user", "id": "default"}, "from": "default"})
    );

    user.file(
        "memory.toml",
        concat!(
            "[backends.main]\nurl = \"sqlite:data/agents.db\"\n",
            "[default]\nbackend = \"main\"\ntenant = \"acme\"\nuser = \"ada\"\nmemory_scopes = [\"user\"]\n",
        ),
    );
    let shown = user.json(&["config"]);
    has(
        &shown,
        json!({"url": {"value": "sqlite:data/agents.db", "from": "configuration"}, "tenant": {"value": "acme", "from": "configuration"}}),
    );
    assert_eq!(shown["scope"]["value"], json!({"tenant": "acme", "kind": "user", "id": "ada"}));

    let shown = user.json(&["config", "--url", "sqlite::memory:", "--tenant", "t", "--agent", "a"]);
    assert_eq!(shown["url"], json!({"value": "sqlite::memory:", "from": "command_line"}));
    assert_eq!(shown["scope"]["value"], json!({"tenant": "t", "kind": "agent", "id": "a"}));
    assert!(user.ok(&["config"]).contains("sqlite:data/agents.db"));
}

#[test]
fn a_configured_store_is_used_and_relative_to_its_file() {
    let user = User::new();
    std::fs::create_dir(user.home().join("elsewhere")).unwrap();
    user.file("elsewhere/memory.toml", "[backends.main]\nurl = \"sqlite:here.db\"\n");
    user.ok(&["set", "k", "1", "--config", "elsewhere/memory.toml"]);
    assert!(user.home().join("elsewhere/here.db").exists());
    user.refused(&["get", "k"], 3, "not_found");
    let mut command = user.command(&["get", "k"]);
    command.env("MEMORY_CONFIG", "elsewhere/memory.toml");
    assert_eq!(command.output().unwrap().stdout, b"1\n");
}

#[test]
fn a_configuration_that_is_wrong_or_absent_is_refused() {
    let user = User::new();
    user.refused(&["config", "--config", "absent.toml"], 3, "not_found");
    user.file("memory.toml", "[backends.main]\nurl = \"sqlite:a.db\"\nspeed = \"fast\"\n");
    let error = user.refused(&["get", "k"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("speed"), "{error}");
    user.file("memory.toml", "[backends.a]\nurl = \"sqlite:a.db\"\n[backends.b]\nurl = \"sqlite:b.db\"\n");
    let error = user.refused(&["get", "k"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("[default]"), "{error}");
}

#[test]
fn config_init_writes_a_working_file_and_never_overwrites() {
    let user = User::new();
    assert_eq!(user.json(&["config", "init"])["file"], "memory.toml");
    user.ok(&["set", "k", "1"]);
    assert!(user.home().join("memory.db").exists());
    let before = std::fs::read(user.home().join("memory.toml")).unwrap();
    user.refused(&["config", "init"], 4, "conflict");
    assert_eq!(std::fs::read(user.home().join("memory.toml")).unwrap(), before);
    user.refused(&["config", "init", "no/such/folder/memory.toml"], 74, "not_found");
    // The file that commands read.
    user.ok(&["config", "init", "--config", "other.toml"]);
    let mut command = user.command(&["init"]);
    assert!(command.env("MEMORY_CONFIG", "third.toml").output().unwrap().status.success());
    assert!(["other.toml", "third.toml"].iter().all(|file| user.home().join(file).exists()));
}

#[test]
fn the_embedder_shows_its_origin_and_a_folder_without_a_model_is_refused() {
    let user = User::new();
    assert_eq!(user.json(&["config"])["embedder"], json!(null));
    assert!(user.ok(&["config"]).contains("search is by words"));

    user.file(
        "memory.toml",
        concat!(
            "[backends.main]\nurl = \"sqlite:a.db\"\nembedder = \"local\"\n",
            "[embedders.local]\nkind = \"static\"\npath = \"models/none\"\n",
        ),
    );
    let shown = user.json(&["config"]);
    has(
        &shown,
        json!({"embedder": {"value": "local", "from": "configuration"}, "embedders": {"local": "static"}}),
    );
    let shown = user.json(&["config", "--embedder", "static:elsewhere"]);
    assert_eq!(shown["embedder"], json!({"value": "static:elsewhere", "from": "command_line"}));

    let error = user.refused(&["set", "k", "1"], 3, "not_found");
    assert!(error["message"].as_str().unwrap().contains("[embedders.local]"), "{error}");
    user.refused(&["set", "k", "1", "--embedder", "static:elsewhere"], 3, "not_found");
    let error = user.refused(&["set", "k", "1", "--embedder", "remote"], 3, "not_found");
    assert!(error["message"].as_str().unwrap().contains("there are: local"), "{error}");
    assert!(!user.home().join("a.db").exists(), "nothing is opened before the embedder");
}

#[test]
fn with_a_model_entries_are_found_by_meaning() {
    let Some(model) = std::env::var_os("MEMORY_TEST_MODEL") else {
        println!("skipped: MEMORY_TEST_MODEL names no folder with a static model (cargo xtask model)");
        return;
    };
    let user = User::new();
    user.file(
        "memory.toml",
        format!(
            "[backends.main]\nurl = \"sqlite:a.db\"\nembedder = \"local\"\n\
             [embedders.local]\nkind = \"static\"\npath = {model:?}\nname = \"small\"\ndimensions = 256\n"
        ),
    );
    user.ok(&["set", "pets", "--text", "Maria adopted two kittens and a puppy"]);
    user.ok(&["set", "money", "--text", "The invoice is due on Friday"]);
    user.ok(&["set", "route", "--text", "Turn left after the bridge"]);
    let found = user.json(&["search", "which animals live in the house"]);
    assert_eq!(found["mode"], "hybrid");
    assert_eq!(found["hits"][0]["entry"]["key"], "pets", "{found}");
    let described = user.json(&["describe"]);
    let name = described["embedding_model"]["model"].as_str().unwrap();
    assert!(name.starts_with("small@"), "{described}");
    assert_eq!(user.json(&["stats"])["models"][0]["rows"], 3);
    assert!(user.ok(&["describe"]).contains("256 dimensions"));
}

#[test]
fn reembed_adds_missing_vectors_in_steps() {
    let Some(model) = std::env::var_os("MEMORY_TEST_MODEL") else {
        println!("skipped: MEMORY_TEST_MODEL names no folder with a static model (cargo xtask model)");
        return;
    };
    let user = User::new();
    let embedder = format!("static:{}", model.display());
    let with = |arguments: &[&str]| {
        let store = ["--url", "sqlite:a.db", "--embedder", embedder.as_str()];
        user.json(&[arguments, store.as_slice()].concat())
    };
    for n in 0..20 {
        user.ok(&["set", &format!("k{n}"), "--text", "some words", "--url", "sqlite:a.db"]);
    }
    user.refused(&["reembed", "--url", "sqlite:a.db"], 3, "vector_unsupported");
    let expected = json!({"embedded": 20, "remaining": 20, "failed": 0, "interrupted": false});
    assert_eq!(with(&["reembed", "--dry-run"]), expected);
    let expected = json!({"embedded": 20, "remaining": 0, "failed": 0, "interrupted": false});
    assert_eq!(with(&["reembed", "--step", "6"]), expected);
    assert_eq!(with(&["stats"])["models"][0]["missing"], 0);
    assert_eq!(with(&["reembed"])["embedded"], 0);
}

#[test]
fn reembed_embedded_turns_as_entries_too() {
    let user = User::new();
    user.ok(&["add", "My sister lives in Bergen"]);
    user.ok(&["set", "k", "--text", "some words"]);
    let step = json!({"embedded": 1, "remaining": 0, "failed": 0, "interrupted": false});
    has(&user.json(&["reembed", "--embedder", "bundled"]), step);
}

#[test]
fn turns_of_another_model_are_told_of_found_by_words_and_embedded_again() {
    let Some(model) = std::env::var_os("MEMORY_TEST_MODEL") else {
        println!("skipped: MEMORY_TEST_MODEL names no folder with a static model (cargo xtask model)");
        return;
    };
    let user = User::new();
    let embedder = format!("static:{}", model.display());
    user.ok(&["add", "My sister lives in Bergen", "--embedder", &embedder]);
    let stats = user.json(&["stats"]);
    has(&stats["turns"], json!({"turns": 1, "stale": 1, "missing": 0}));
    let told = user.ok(&["stats"]);
    assert!(told.contains("1 stale") && told.contains("memory reembed"), "{told}");
    let found = user.run(&["recall", "sister in Bergen"]);
    assert!(found.stdout.contains("My sister lives in Bergen"), "{found:?}");
    assert!(found.stderr.contains("another model") && found.stderr.contains("memory reembed"), "{found:?}");
    let turns = |embedded, remaining| json!({"embedded": embedded, "remaining": remaining, "failed": 0});
    assert_eq!(user.json(&["reembed", "--dry-run"])["turns"], turns(1, 1));
    assert_eq!(user.json(&["reembed"])["turns"], turns(1, 0));
    has(&user.json(&["stats"])["turns"], json!({"turns": 1, "stale": 0, "missing": 0}));
    assert_eq!(user.run(&["recall", "sister in Bergen"]).stderr, "");
}

#[test]
fn entries_of_another_model_are_told_of_and_embedded_again() {
    let service = Service::of(|asked| {
        let texts = asked.body.as_ref().unwrap()["input"].as_array().unwrap().len();
        let vectors: Vec<_> = (0..texts).map(|n| json!({"index": n, "embedding": [1, 0.5]})).collect();
        (200, json!({"object": "list", "data": vectors}))
    });
    let (user, address) = (User::new(), service.address());
    user.file(
        "memory.toml",
        format!(
            "[backends.main]\nurl = \"sqlite:a.db\"\nembedder = \"other\"\n[embedders.other]\nkind = \"openai\"\n\
             model = \"m\"\ndimensions = 2\nbase_url = \"http://{address}/v1\"\n[egress]\nallow = [\"{address}\"]\n"
        ),
    );
    user.ok(&["set", "k", "--text", "some words", "--embedder", "bundled"]);
    user.ok(&["set", "l", "--text", "other words", "--url", "sqlite:a.db"]);
    let of_model = |name: &str| {
        let stats = user.json(&["stats"]);
        stats["models"].as_array().unwrap().iter().find(|of| of["model"]["model"] == name).cloned().unwrap()
    };
    has(&of_model("m"), json!({"rows": 0, "stale": 1, "missing": 2}));
    let told = user.ok(&["stats"]);
    assert!(told.contains("1 stale, 1 missing") && told.contains("memory reembed"), "{told}");
    for mode in ["vector", "hybrid"] {
        let found = user.run(&["search", "words", "--mode", mode]);
        assert!(
            found.stderr.contains("another model") && found.stderr.contains("memory reembed"),
            "{found:?}"
        );
    }
    assert_eq!(user.run(&["search", "words", "--mode", "lexical"]).stderr, "");
    user.ok(&["reembed"]);
    has(&of_model("m"), json!({"rows": 2, "stale": 0, "missing": 0}));
    assert_eq!(user.run(&["search", "words", "--mode", "vector"]).stderr, "");
}

#[test]
fn config_init_says_which_store_commands_used_before_and_use_from_now_on() {
    let said = User::new().ok(&["config", "init"]);
    assert!(said.contains("will keep their store at sqlite:memory.db") && !said.contains("former"), "{said}");
    let user = User::new();
    user.ok(&["set", "k", "1"]);
    let before = format!("sqlite:{}/.local/share/memory/memory.db", user.home().display());
    let said = user.ok(&["config", "init", "elsewhere.toml"]);
    assert!(said.contains(&format!("still use {before}")), "{said}");
    let written = user.json(&["config", "init", "--config", "memory.toml", "third.toml"]);
    has(&written, json!({"store_before": null, "store": null}));
    let said = user.ok(&["config", "init"]);
    assert!(said.contains(&format!("was {before}\n")) && said.contains(" sqlite:memory.db\n"), "{said}");
    // What it advises works.
    let advised = said.split_once("memory migrate ").unwrap().1.trim();
    user.ok(&[&["migrate"], &advised.split(' ').collect::<Vec<_>>()[..]].concat());
    assert_eq!(user.ok(&["get", "k"]), "1\n");
    std::fs::remove_file(user.home().join("memory.toml")).unwrap();
    let written = user.json(&["config", "init"]);
    has(&written, json!({"store_before": before, "store": "sqlite:memory.db"}));
    let fixed = user.json(&["config", "init", "fourth.toml", "--url", "sqlite:given.db"]);
    has(&fixed, json!({"store_before": "sqlite:given.db", "store": "sqlite:given.db"}));
}

#[test]
fn the_cap_of_snapshots_can_be_set_in_memory_toml() {
    let user = User::new();
    let toml = |cap: &str| {
        format!(
            "[backends.main]\nurl = \"sqlite:m.db\"\n[default]\nmemory_scopes = [\"agent\"]\n[snapshot]\n{cap}\n"
        )
    };
    user.file("memory.toml", toml("max_scope_bytes = 1000"));
    user.ok(&["set", "k", "1", "--user", "small"]);
    user.ok(&["set", "k", &format!("\"{}\"", "x".repeat(2_000)), "--user", "large"]);
    let taken = user.run(&["snapshot", "one", "--json"]);
    assert_eq!((taken.code, &taken.document()["scopes"]), (Some(7), &json!(1)), "{taken:?}");
    assert_eq!(taken.document()["skipped_scopes"][0]["scope"]["id"], "large");
    assert_eq!(user.json(&["snapshot", "all", "--max-scope-bytes", "1000000"])["scopes"], 2);
    assert_eq!(user.json(&["config"])["snapshot_max_scope_bytes"], 1000);
    assert!(user.ok(&["config"]).contains("scopes of at most 1000 bytes"));
    assert_eq!(user.run(&["config", "check"]).code, Some(0));
    for (wrong, named) in [("max_scope_bytes = 0", "max_scope_bytes is 0"), ("max_bytes = 1", "max_bytes")] {
        user.file("memory.toml", toml(wrong));
        let checked = user.run(&["config", "check", "--json"]);
        assert!(checked.code == Some(8) && checked.stdout.contains(named), "{checked:?}");
        user.refused(&["snapshot", "two"], 3, "invalid_argument");
    }
}
