//! The first minutes: no command, `init`, `doctor`, `tool-schema`.

use std::path::PathBuf;

use memory_fakes::postgres::{Database, SERVER};
use serde_json::{Value, json};

use crate::support::user::User;

#[test]
fn the_name_alone_says_where_to_begin_and_what_it_says_works() {
    let user = User::new();
    let ran = user.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("memory init") && ran.stderr.contains("memory --help"), "{ran:?}");
    user.ok(&["add", "I live in Lisbon", "--name", "Ada"]);
    assert!(user.ok(&["recall", "where does Ada live"]).contains("Lisbon"));
    let help = user.ok(&["--help"]);
    for heading in ["Begin:", "Remember what was said:", "Keep entries:", "Options:", "Exit codes:"] {
        assert!(help.contains(heading), "{heading}: {help}");
    }
    assert!(user.ok(&["drift", "ack", "--help"]).contains("Examples:\n  memory drift ack 0"));
}

#[test]
fn init_writes_once_and_connects_a_client() {
    let user = User::new();
    let begun = user.json(&["init", "--client", "cursor"]);
    assert_eq!((&begun["written"], begun["next"].as_array().map(Vec::len)), (&json!(true), Some(3)));
    let server = &begun["client"]["mcpServers"]["memory"];
    assert!(server["args"].to_string().contains("memory.toml"), "{begun}");
    let written = std::fs::read(user.home().join("memory.toml")).unwrap();
    user.file("memory.toml", [&written[..], b"# mine\n"].concat());
    let again = user.ok(&["init"]);
    assert!(again.contains("stays as it is") && again.contains("mcpServers"), "{again}");
    assert!(std::fs::read_to_string(user.home().join("memory.toml")).unwrap().ends_with("# mine\n"));
    for line in begun["next"].as_array().unwrap() {
        assert!(line.as_str().unwrap().starts_with("memory "));
    }
    let report = user.json(&["doctor", "--offline"]);
    assert_eq!(report["status"], "ok", "{report}");
}

/// A check of `doctor`.
fn line<'a>(report: &'a Value, check: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|line| line["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {report}"))
}

/// How it ended.
fn status<'a>(report: &'a Value, check: &str) -> &'a Value {
    &line(report, check)["status"]
}

/// The advice it gives.
fn advice<'a>(report: &'a Value, check: &str) -> &'a str {
    line(report, check)["do"].as_str().unwrap()
}

#[test]
fn doctor_says_of_a_server_what_to_do_there() {
    let user = User::new();
    user.file("memory.toml", "[backends.main]\nurl = \"postgres://app@127.0.0.1:1/memory\"\n");
    let report = user.run(&["doctor", "--json", "--timeout", "2"]).document();
    let server = advice(&report, "[backends.main] connection");
    assert!(server.contains("check that it runs and that the URL names it"), "{report}");
    assert!(advice(&report, "store").starts_with("start the server"), "{report}");
    let Some(database) = Database::on_own_runtime(SERVER) else { return };
    user.file("memory.toml", format!("[backends.main]\nurl = \"{}\"\n", database.url()));
    let report = user.run(&["doctor", "--json"]).document();
    assert!(
        advice(&report, "[backends.main] tables").starts_with("run `memory postgres provision"),
        "{report}"
    );
    // The test server does not sync, and its user is a superuser.
    assert_eq!(advice(&report, "[backends.main] durability"), "set both on");
    assert_eq!(advice(&report, "[backends.main] user"), "connect as a dedicated role");
}

#[test]
fn doctor_says_what_is_wrong_and_what_to_do() {
    let user = User::new();
    let report = user.json(&["doctor"]);
    assert_eq!(status(&report, "store"), "ok");
    assert_eq!(std::fs::read_dir(user.home()).unwrap().count(), 0, "nothing is made");

    user.ok(&["set", "k", "\"v\"", "--url", "sqlite:a.db"]);
    let report = user.json(&["doctor", "--url", "sqlite:a.db"]);
    assert_eq!((status(&report, "integrity"), status(&report, "store")), (&json!("ok"), &json!("ok")));

    for (n, arguments) in
        [&["note", "a thought"][..], &["graph", "remember", "it fails", "--agent", "ada"]].iter().enumerate()
    {
        let url = format!("sqlite:sql{n}.db");
        user.ok(&[arguments, &["--url", &url][..]].concat());
        assert!(user.ok(&["doctor", "--url", &url]).contains("every page of 1 SQL database"));
        let database = user.home().join(format!("sql{n}.db.sql"));
        let inside = |folder: PathBuf| folder.read_dir().unwrap().map(|item| item.unwrap().path());
        let database = inside(database).filter(|path| path.is_dir()).flat_map(inside).next().unwrap();
        for (name, length) in [("data.db", 8_192), ("data.db-wal", 0)] {
            let file = std::fs::OpenOptions::new().write(true).open(database.join(name)).unwrap();
            file.set_len(length).unwrap();
        }
        let ran = user.run(&["doctor", "--url", &url]);
        assert_eq!(ran.code, Some(8), "{ran:?}");
        assert!(ran.stdout.contains("data.db: the database file is damaged"), "{ran:?}");
    }

    user.file("broken.db", [&b"SQLite format 3\0"[..], &[7; 4096]].concat());
    let ran = user.run(&["doctor", "--url", "sqlite:broken.db", "--json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, status(&report, "integrity")), (Some(8), &json!("fail")));
    assert!(
        report["checks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|line| line["status"] == "ok" || line["do"].is_string())
    );
    assert_eq!(advice(&report, "integrity"), "name another file");
    assert!(user.run(&["doctor", "--url", "sqlite:broken.db"]).stdout.contains("FAIL  integrity"));

    // Restoring a snapshot over it would harm a sound store.
    user.ok(&["set", "k", "1", "--url", "sqlite:newer.db"]);
    let newer = rusqlite::Connection::open(user.home().join("newer.db")).unwrap();
    newer.pragma_update(None, "user_version", 9_999).unwrap();
    drop(newer);
    let report = user.run(&["doctor", "--url", "sqlite:newer.db", "--json"]).document();
    assert_eq!(advice(&report, "store"), "update the program. The file was not touched", "{report}");

    user.file("memory.toml", "[backends.main]\nurl = \"sqlite:a.db\"\nspeed = 9\n");
    let ran = user.run(&["doctor", "--json"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    let ran = user.run(&["doctor", "--url", "sqlite:no/such/folder/a.db", "--config", "absent.toml"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn doctor_sees_who_else_may_read_and_write() {
    use std::os::unix::fs::PermissionsExt as _;

    let user = User::new();
    user.ok(&["init"]);
    let file = user.home().join("memory.toml");
    for (mode, ended, code) in [(0o600, "ok", 0), (0o644, "warn", 0), (0o666, "fail", 8)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let ran = user.run(&["doctor", "--offline", "--json"]);
        assert_eq!(
            (ran.code, status(&ran.document(), "memory.toml")),
            (Some(code), &json!(ended)),
            "{mode:o}"
        );
    }
}

#[test]
fn tools_are_printed_as_a_client_would_get_them_without_making_a_store() {
    let user = User::new();
    let tools = user.json(&["tool-schema", "--for", "openai", "--tools", "memory,files", "--agent", "ann"]);
    assert_eq!((&tools[0]["name"], &tools[1]["name"]), (&json!("memory"), &json!("memory_files")));
    assert_eq!(tools[0]["parameters"]["additionalProperties"], false);
    assert_eq!(std::fs::read_dir(user.home()).unwrap().count(), 0, "nothing is made");
    let shown = user.json(&["tool-schema", "--for", "mcp", "--scopes", "user"]);
    assert_eq!(shown[0]["inputSchema"]["properties"]["scope"]["enum"], json!(["user"]));
    let gemini = user.json(&["tool-schema", "--for", "gemini", "--tools", "files"]);
    assert_eq!(
        (gemini.as_array().map(Vec::len), &gemini[0]["parameters"]["type"]),
        (Some(1), &json!("object"))
    );
    assert!(user.json(&["tool-schema", "--for", "anthropic"])[0]["input_schema"].is_object());
    assert_eq!(user.run(&["tool-schema"]).code, Some(2));
}

#[test]
fn doctor_and_config_check_see_what_stops_the_server() {
    use std::os::unix::fs::PermissionsExt as _;

    let user = User::new();
    user.ok(&["init"]);
    user.ok(&["token", "create", "ann", "--agent", "ann"]);
    let doctor = || user.run(&["doctor", "--offline", "--json"]);
    assert_eq!(status(&doctor().document(), "tokens"), "ok");
    let file = user.home().join("memory.tokens.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("x{whole}")).unwrap();
    let ran = doctor();
    assert_eq!((ran.code, status(&ran.document(), "tokens")), (Some(8), &json!("fail")));
    std::fs::write(&file, whole).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = doctor();
    assert_eq!((ran.code, status(&ran.document(), "tokens")), (Some(8), &json!("fail")));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();

    let config = std::fs::read_to_string(user.home().join("memory.toml")).unwrap();
    let jwt = "[http.jwt]\nissuer = \"https://id.example/\"\naudience = \"memory\"\njwks = \"absent.json\"\n";
    user.file("memory.toml", config + jwt);
    let ran = user.run(&["config", "check", "--offline", "--json"]);
    assert!(ran.code == Some(8) && ran.stdout.contains("absent.json"), "{ran:?}");
    let error = user.refused(&["serve", "--http", "127.0.0.1:0"], 3, "not_found");
    assert!(error["message"].as_str().unwrap().contains("`jwks` under [http.jwt]"), "{error}");
}

#[test]
fn doctor_says_of_a_store_in_a_new_folder_what_happens() {
    let user = User::new();
    let url = format!("sqlite:{}", user.home().join("new/deep/x.db").display());
    let ran = user.run(&["doctor", "--url", &url]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("x.db, with its folder, will be created"), "{ran:?}");
    user.ok(&["set", "k", "1", "--url", &url]);
    user.file("taken", "a file");
    let url = format!("sqlite:{}", user.home().join("taken/x.db").display());
    let ran = user.run(&["doctor", "--url", &url]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.stdout.contains("taken is no folder"), "{ran:?}");
    assert_ne!(user.run(&["set", "k", "1", "--url", &url]).code, Some(0));
}

#[test]
fn doctor_tries_the_embedder_that_is_named_and_goes_on_without_it() {
    let user = User::new();
    for made in [false, true] {
        let ran = user.run(&["doctor", "--embedder", "static:/nope", "--json"]);
        let report = ran.document();
        assert_eq!((ran.code, status(&report, "embedder")), (Some(8), &json!("fail")), "{report}");
        assert!(advice(&report, "embedder").contains("a folder with config.json"), "{report}");
        assert_eq!(status(&report, "store"), "ok");
        if !made {
            user.ok(&["init"]);
        }
    }
    assert_eq!(status(&user.json(&["doctor", "--embedder", "bundled"]), "store"), "ok");
}

#[test]
fn doctor_asks_a_service_for_a_vector() {
    let embedders = "[embedders.far]\nkind = \"openai\"\nmodel = \"m\"\ndimensions = 2\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let user = User::new();
    user.file("memory.toml", format!("[backends.main]\nurl = \"sqlite:a.db\"\n{embedders}"));
    let doctor = |more: &[&str]| user.run(&[&["doctor", "--json"], more].concat()).document();
    assert!(
        advice(&doctor(&[]), "[embedders.far] embedder").contains("have the operator list `127.0.0.1:1`")
    );
    let allowed = ["--allow-host", "127.0.0.1:1"];
    assert!(advice(&doctor(&allowed), "[embedders.far] server").contains("check that it runs"));
    let report = doctor(&[&allowed[..], &["--offline"]].concat());
    assert_eq!(status(&report, "[embedders.far] embedder"), "ok");
    assert!(!report.to_string().contains("[embedders.far] server"), "{report}");
}

#[test]
fn what_is_no_address_and_what_is_no_token_is_said_to_be_so() {
    let user = User::new();
    for wrong in ["127.0.0.1", ":7077", "localhost:x", "memory.example:7077"] {
        let ran = user.run(&["serve", "--http", wrong]);
        assert!(ran.code == Some(2) && ran.stderr.contains("give IP:PORT, as 127.0.0.1:7077"), "{ran:?}");
    }
    let url = |at: &str| {
        user.json(&["serve", "--http", at, "--print-config", "cursor"])["mcpServers"]["memory"]["url"].take()
    };
    assert_eq!(url("localhost:7077"), "http://127.0.0.1:7077/mcp");
    user.refused(&["token", "revoke", "ann"], 3, "not_found");
    assert_eq!(std::fs::read_dir(user.home()).unwrap().count(), 0, "nothing is made");
}

#[test]
fn doctor_counts_the_tokens_that_are_in_force() {
    let user = User::new();
    user.ok(&["init"]);
    user.ok(&["token", "create", "old", "--expires", "1ms"]);
    assert!(advice(&user.json(&["doctor", "--offline"]), "tokens").starts_with("`memory token create NAME`"));
    user.ok(&["token", "create", "new"]);
    let report = user.json(&["doctor", "--offline"]);
    assert!(line(&report, "tokens")["message"].as_str().unwrap().starts_with("1 token in force"), "{report}");
}

#[test]
fn doctor_gives_one_advice_for_what_is_no_store() {
    let user = User::new();
    user.file("folder.db/x", "");
    user.file("text.db", "no database");
    for name in ["folder.db", "text.db"] {
        let ran = user.run(&["doctor", "--url", &format!("sqlite:{name}"), "--json"]);
        let report = ran.document();
        assert_eq!(ran.code, Some(8), "{report}");
        assert!(advice(&report, "store").starts_with("name another file"), "{report}");
        for wrong in ["restore a snapshot", "chmod 600 folder.db"] {
            assert!(!report.to_string().contains(wrong), "{report}");
        }
    }
}
