//! `backend`, `config check`, and fallbacks as users meet them.

use serde_json::json;

use crate::support::user::{User, has};

const ALLOWING: &str = "[backends.main]\nurl = \"sqlite:main.db\"\n[default]\nbackend = \"main\"\ntenant = \"acme\"\n\
    memory_scopes = [\"agent\"]\n[definitions]\nschemes = [\"sqlite\"]\npaths = [\"agents\"]\n";

fn user() -> User {
    let user = User::new();
    std::fs::create_dir(user.home().join("agents")).unwrap();
    user.file("memory.toml", ALLOWING);
    user
}

#[test]
fn a_definition_is_made_forked_listed_shown_and_retired() {
    let user = user();
    let made = user.json(&["backend", "create", "notes", "sqlite:agents/notes.db"]);
    has(&made, json!({"name": "notes", "version": 1, "tenant": "acme"}));
    assert_eq!(made["id"].as_str().unwrap().len(), 64);
    assert_eq!(made["definition"], json!({"url": "sqlite:agents/notes.db"}));
    assert_eq!(user.json(&["backend", "create", "notes", "sqlite:agents/notes.db"]), made);
    user.refused(&["backend", "create", "notes", "sqlite:agents/other.db"], 4, "conflict");
    user.refused(&["backend", "create", "main", "sqlite:agents/other.db"], 4, "conflict");
    let error = user.refused(&["backend", "create", "far", "sqlite:/etc/x.db"], 3, "forbidden");
    assert_eq!(error["details"]["list"], "paths");
    user.refused(&["backend", "create", "far", "postgres://db.example/x"], 3, "forbidden");
    user.refused(&["backend", "create", "Bad Name", "sqlite:agents/x.db"], 3, "invalid_argument");

    let forked = user.json(&["backend", "fork", "notes", "sqlite:agents/notes-2.db"]);
    has(&forked, json!({"version": 2, "parent": "notes@1"}));
    let copy = user.json(&["backend", "fork", "notes@1", "--as", "copy"]);
    assert_eq!((&copy["version"], &copy["id"]), (&json!(1), &made["id"]));
    assert_eq!(user.json(&["backend", "show", "notes@1"]), made);
    let listed = user.json(&["backend", "list"]);
    assert_eq!(listed["configured"], json!({"main": "sqlite:main.db"}));
    assert_eq!(listed["defined"].as_array().unwrap().len(), 2);
    assert_eq!(user.json(&["backend", "list", "--all"])["defined"].as_array().unwrap().len(), 3);
    assert_eq!(user.json(&["backend", "list", "--tenant", "umbrella"])["defined"], json!([]));
    user.refused(&["backend", "show", "notes", "--tenant", "umbrella"], 3, "not_found");

    user.refused(&["backend", "retire", "notes", "--successor", "notes"], 3, "invalid_argument");
    user.refused(&["backend", "retire", "notes", "--successor", "none"], 3, "not_found");
    let retired = user.json(&["backend", "retire", "notes", "--successor", "copy"]);
    assert!(retired["retired_at"].is_string());
    let error = user.refused(&["backend", "test", "notes"], 3, "not_found");
    assert_eq!(error["details"]["successor"], "copy");
    assert!(user.ok(&["backend", "show", "notes@1"]).contains("its successor is copy"));
    assert!(user.ok(&["backend", "list"]).contains("retired for copy"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = std::fs::metadata(user.home().join("memory.definitions.db")).unwrap();
        assert_eq!(file.permissions().mode() & 0o077, 0);
    }
}

#[test]
fn statements_of_an_agent_bound_to_a_definition_have_bounded_memory() {
    let user = user();
    user.json(&["backend", "create", "notes", "sqlite:agents/notes.db"]);
    user.file("memory.toml", ALLOWING.replace("backend = \"main\"", "backend = \"notes\""));
    user.ok(&["set", "k", "1"]);
    let greedy = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) \
                  SELECT count(*) FROM (SELECT DISTINCT hex(zeroblob(500)) || i FROM n)";
    let error = user.refused(&["sql", greedy], 3, "too_large");
    assert_eq!(error["details"]["layer"], "heap", "{error}");
}

#[test]
fn a_definition_is_tested_and_agents_are_bound_to_it() {
    let user = user();
    user.json(&["backend", "create", "notes", "sqlite:agents/notes.db"]);
    let error = user.refused(&["backend", "test", "notes"], 3, "not_found");
    assert!(error["message"].as_str().unwrap().contains("agents/notes.db"), "{error}");
    for (name, file) in [("notes", "agents/notes.db"), ("main", "main.db")] {
        user.ok(&["set", "k", "1", "--backend", name]);
        assert!(user.home().join(file).is_file());
    }
    let tested = user.json(&["backend", "test", "notes"]);
    assert_eq!((&tested["provider"], &tested["health"]["status"]), (&json!("sqlite"), &json!("ok")));
    assert_eq!(tested["probe"], json!({"operation": "list", "outcome": "ok"}));
    assert_eq!(tested["capabilities"]["kv"], true);
    assert!(user.ok(&["backend", "test", "main"]).contains("compare_and_set"));

    user.file("memory.toml", ALLOWING.replace("backend = \"main\"", "backend = \"notes\""));
    user.ok(&["set", "k", "1"]);
    assert!(user.home().join("agents/notes.db").is_file());
    user.json(&["backend", "retire", "notes", "--successor", "main"]);
    let error = user.refused(&["get", "k"], 3, "not_found");
    assert_eq!(error["details"]["successor"], "main");
    // Another tenant has no such definition.
    user.refused(&["get", "k", "--tenant", "umbrella"], 3, "not_found");
}

#[test]
fn without_the_operators_permission_nothing_can_be_defined() {
    let user = User::new();
    user.refused(&["backend", "list"], 3, "not_found");
    user.file("memory.toml", "[backends.main]\nurl = \"sqlite:main.db\"\n");
    user.refused(&["backend", "create", "notes", "sqlite:notes.db"], 3, "forbidden");
    assert_eq!(user.json(&["backend", "list"])["defined"], json!([]));
    user.file("memory.toml", "[definitions]\n");
    user.refused(&["backend", "create", "notes", "sqlite:notes.db"], 3, "forbidden");
    assert!(!user.home().join("notes.db").exists());
}

/// A primary that cannot be reached: nothing listens on its port.
fn outage(user: &User, writes: &str) {
    user.file(
        "memory.toml",
        format!(
            "[backends.main]\nurl = \"postgres://nobody@127.0.0.1:1/none?connect_timeout_ms=300&wait_timeout_ms=300\"\nfallback = \"spare\"\n\
             fallback_writes = \"{writes}\"\n[backends.spare]\nurl = \"sqlite:spare.db\"\n[default]\nbackend = \"main\"\n"
        ),
    );
}

#[test]
fn a_read_that_fell_back_says_so_and_a_write_is_refused() {
    let user = User::new();
    user.ok(&["set", "k", "1", "--url", "sqlite:spare.db"]);
    outage(&user, "refuse");
    let found = user.json(&["get", "k"]);
    assert_eq!(found["fallback"], "spare", "{found}");
    let listed = user.run(&["list", "--json"]);
    assert!(listed.lines().iter().all(|line| line["fallback"] == "spare"), "{listed:?}");
    let shown = user.run(&["get", "k"]);
    assert_eq!(shown.stdout, "1\n");
    assert!(shown.stderr.contains("`spare`"), "{shown:?}");
    let error = user.refused(&["set", "k", "2"], 5, "unavailable");
    assert_eq!(error["details"]["fallback"], "refused");
    assert_eq!(user.json(&["get", "k", "--url", "sqlite:spare.db"])["fallback"], json!(null));
    let tested = user.run(&["backend", "test", "main", "--json"]);
    assert_eq!((tested.code, &tested.document()["health"]["status"]), (Some(8), &json!("degraded")));
}

#[test]
fn a_missing_entry_says_so_and_that_the_fallback_answered() {
    let user = User::new();
    user.ok(&["set", "k", "1", "--url", "sqlite:spare.db"]);
    outage(&user, "refuse");
    let ran = user.run(&["get", "missing", "--json"]);
    assert_eq!(ran.document(), json!({"answer": null, "source": "fallback", "fallback": "spare"}), "{ran:?}");
    let ran = user.run(&["get", "missing", "--url", "sqlite:spare.db", "--json"]);
    assert_eq!(ran.document(), json!(null), "{ran:?}");
}

#[test]
fn a_primary_that_never_was_reached_takes_writes_into_the_journal() {
    let user = User::new();
    outage(&user, "journal");
    assert_eq!(user.json(&["set", "k", "2"])["fallback"], "spare");
    assert_eq!(user.ok(&["get", "k"]), "2\n");
    let journal = user.json(&["backend", "journal", "main"]);
    assert_eq!((&journal["counts"]["waiting"], &journal["writes"][0]["keys"]), (&json!(1), &json!(["k"])));
    user.refused(&["backend", "journal", "spare"], 3, "invalid_argument");
    // Nobody knows whether the primary has this key; it will not have it once it is back.
    assert_eq!(user.ok(&["delete", "only-there"]), "will be deleted once the store is back: only-there\n");
}

#[test]
fn config_check_refuses_the_pairs_that_cannot_be_opened() {
    let user = User::new();
    user.file("keys/mem0", memory_fakes::mem0::KEY);
    let mem0 = "mem0+https://mem0.example?api_key=file:keys/mem0";
    for (of_main, of_spare, why) in [
        (
            format!("{mem0}\"\nfallback = \"spare\"\nfallback_writes = \"journal"),
            mem0.replace("mem0.example", "other.example"),
            "compare-and-set",
        ),
        (format!("{mem0}\"\nembedder = \"small"), "sqlite:spare.db".to_owned(), "takes no embedder"),
    ] {
        let text = format!(
            "[backends.main]\nurl = \"{of_main}\"\n[backends.spare]\nurl = \"{of_spare}\"\n[default]\nbackend = \"main\"\n\
             memory_scopes = [\"agent\"]\n[embedders.small]\nkind = \"openai\"\nmodel = \"m\"\ndimensions = 3\n\
             base_url = \"https://embed.example/v1\"\n"
        );
        user.file("memory.toml", &text);
        let ran = user.run(&["config", "check", "--offline", "--json"]);
        let findings = ran.document()["findings"].clone();
        let pair = findings.as_array().unwrap().iter().find(|found| found["check"] == "pair");
        let pair = pair.unwrap_or_else(|| panic!("{text}\n{findings}"));
        assert_eq!((ran.code, &pair["status"]), (Some(8), &json!("problem")), "{text}");
        assert!(pair["message"].as_str().unwrap().contains(why), "{pair}");
        // As every other command does.
        let opened = user.run(&["describe", "--json"]);
        assert!(opened.code != Some(0) && opened.stderr.contains(why), "{text}: {opened:?}");
    }
}

#[test]
fn config_check_refuses_what_opening_refuses() {
    let user = User::new();
    user.file("file", "");
    let main = |url: &str, more: &str| format!("[backends.main]\nurl = \"{url}\"\n{more}");
    let pair = "fallback = \"spare\"\n[backends.spare]\nurl = \"sqlite:spare.db\"\n";
    for (text, check, why) in [
        (main("sqlite:a.db?foo=1", ""), "url", "foo"),
        (main("sqlite:a.db?durability=FULL", ""), "url", "durability"),
        (main("sqlite:a.db?busy_timeout_ms=-1", ""), "url", "busy_timeout_ms"),
        (main("sqlite:a.db?max_file_bytes=10", ""), "url", "max_file_bytes"),
        (main("sqlit:a.db", ""), "url", "sqlit"),
        (main("postgres://127.0.0.1:1/m?pool_size=many", ""), "url", "pool_size"),
        (main("mem0+https://mem0.example?flavor=platform", ""), "url", "flavor"),
        (main("sqlite:a.db", "[backends.main.sql]\nquota_bytez = 1\n"), "url", "quota_bytez"),
        (main("sqlite:a.db", "[backends.main.sql]\nquota_bytes = \"5\"\n"), "url", "quota_bytes"),
        (main("sqlite:a.db", "[backends.main.sql]\nroot = \"file\"\n"), "url", "sql.root"),
        (main("sqlite::memory:", "[sql]\nenabled = true\nworkers = 2\n"), "workers", "in memory"),
        (
            main("sqlite:a.db", &format!("{pair}[default]\ndrift = \"row\"\nbackend = \"main\"\n")),
            "rules",
            "fallback",
        ),
        (main("sqlite:a.db", "[audit]\nfile = \"none/audit.jsonl\"\n"), "file", "does not exist"),
        (main("sqlite:a.db", "[audit]\nfile = \".\"\n"), "file", "is no file"),
        (main("sqlite:a.db", "[definitions]\nschemes = [\"sqlit\"]\n"), "reference", "sqlit"),
        (main("sqlite:a.db", "[definitions]\nfallbacks = [\"none\"]\n"), "reference", "none"),
        (main("sqlite:a.db", "[definitions]\nembedders = [\"none\"]\n"), "reference", "none"),
        (main("sqlite:a.db", "[definitions]\npaths = [\"none\"]\n"), "reference", "none"),
    ] {
        user.file("memory.toml", &text);
        let ran = user.run(&["config", "check", "--offline", "--json"]);
        let findings = ran.document()["findings"].clone();
        let found = findings.as_array().unwrap().iter().find(|found| found["status"] == "problem");
        let found = found.unwrap_or_else(|| panic!("{text}\n{findings}"));
        assert_eq!((ran.code, found["check"].as_str()), (Some(8), Some(check)), "{text}");
        assert!(found["message"].as_str().unwrap().contains(why), "{found}");
        // As every other command does.
        if check == "url" {
            let opened = user.run(&["describe", "--json"]);
            assert!(opened.code == Some(3) && opened.stderr.contains(why), "{text}: {opened:?}");
        }
    }
}

#[test]
fn what_a_pair_does_not_serve_is_refused_because_of_the_fallback() {
    let user = User::new();
    user.file(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:main.db\"\nfallback = \"spare\"\n[backends.spare]\nurl = \"sqlite:spare.db\"\n\
         [default]\nbackend = \"main\"\nagent = \"a\"\nmemory_scopes = [\"agent\"]\n",
    );
    user.ok(&["set", "k", "1"]);
    for command in [["gc", "--dry-run"], ["drift", "status"]] {
        let error = user.refused(&command, 3, "capability_unsupported");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("`spare`") && message.contains("--url"), "{error}");
        user.ok(&[command.as_slice(), &["--url", "sqlite:main.db"]].concat());
    }
}

#[test]
fn a_damaged_journal_is_named_with_its_cause_and_what_to_do() {
    let user = User::new();
    outage(&user, "journal");
    user.ok(&["set", "k", "2"]);
    let journal = std::fs::OpenOptions::new().write(true).open(user.home().join("main.fallback.db")).unwrap();
    journal.set_len(4096).unwrap();
    let checked = user.run(&["config", "check", "--offline"]).stdout;
    let error = user.refused(&["get", "k"], 6, "corrupt");
    for told in [checked.as_str(), error["message"].as_str().unwrap()] {
        assert!(
            told.contains("main.fallback.db") && told.contains("malformed") && told.contains("move it away"),
            "{told}"
        );
    }
}

#[test]
fn config_check_knows_a_journal_in_which_writes_of_other_stores_wait() {
    let user = User::new();
    outage(&user, "journal");
    user.ok(&["set", "k", "2"]);
    assert!(!user.run(&["config", "check", "--offline"]).stdout.contains("other stores"));
    let file = user.home().join("memory.toml");
    let moved = std::fs::read_to_string(&file).unwrap().replace("sqlite:spare.db", "sqlite:moved.db");
    std::fs::write(&file, moved).unwrap();
    let checked = user.run(&["config", "check", "--offline", "--json"]);
    assert_eq!(checked.code, Some(8));
    assert!(checked.stdout.contains("other stores"), "{checked:?}");
    user.refused(&["get", "k"], 4, "conflict");
}

#[test]
fn fallbacks_in_a_circle_or_a_chain_are_refused_when_they_are_read() {
    let user = User::new();
    for (a, b, c) in [("b", "a", ""), ("b", "c", ""), ("a", "", ""), ("none", "", "")] {
        let backend = |name: &str, fallback: &str| {
            let fallback =
                if fallback.is_empty() { String::new() } else { format!("fallback = \"{fallback}\"\n") };
            format!("[backends.{name}]\nurl = \"sqlite:{name}.db\"\n{fallback}")
        };
        user.file("memory.toml", [backend("a", a), backend("b", b), backend("c", c)].concat());
        let error = user.refused(&["config"], 3, "invalid_argument");
        assert!(error["message"].as_str().unwrap().contains("fallback"), "{error}");
    }
}

#[test]
fn config_check_names_everything_that_is_wrong_and_opens_nothing() {
    let user = User::new();
    user.file(
        "memory.toml",
        concat!(
            "[backends.main]\nurl = \"sqlite:main.db\"\nspeed = \"fast\"\n",
            "[backends.lost]\nurl = \"sqlite:memory.toml/lost.db\"\n",
            "[backends.far]\nurl = \"postgres://nobody@127.0.0.1:1/none?password_env=MEMORY_TEST_NOT_SET\"\n",
            "[nonsense]\nx = 1\n",
            "[default]\nbackend = \"main\"\nmemory_scopes = [\"agent\"]\n",
            "[agents.x]\nbackend = \"nowhere\"\n",
        ),
    );
    let ran = user.run(&["config", "check", "--timeout", "5", "--json"]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    let checked = ran.document();
    assert_eq!(checked["status"], "problem");
    let findings = checked["findings"].as_array().unwrap();
    let problems: Vec<String> =
        findings.iter().filter(|found| found["status"] == "problem").map(ToString::to_string).collect();
    for named in
        ["speed", "nonsense", "[agents.x]", "memory.toml is no folder", "password_env", "[backends.far]"]
    {
        assert!(problems.iter().any(|found| found.contains(named)), "{named} is not among {problems:#?}");
    }
    assert!(findings.iter().any(|found| found["line"] == 3), "{findings:#?}");
    assert!(!user.home().join("main.db").exists());

    user.file(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:main.db\"\n[default]\nmemory_scopes = [\"agent\"]\n",
    );
    let checked = user.json(&["config", "check"]);
    assert_eq!(checked["status"], "ok", "{checked}");
    assert!(!user.home().join("main.db").exists());
    user.file("main.db", "no database");
    assert_eq!(user.run(&["config", "check"]).code, Some(8));
}

#[test]
fn config_check_reports_what_stays_visible_on_postgresql() {
    let Ok(url) = std::env::var("MEMORY_TEST_POSTGRES_URL") else {
        println!("skipped: MEMORY_TEST_POSTGRES_URL names no server (cargo xtask postgres)");
        return;
    };
    let user = User::new();
    user.file(
        "memory.toml",
        format!("[backends.main]\nurl = {url:?}\n[default]\nmemory_scopes = [\"agent\"]\n"),
    );
    let checked = user.run(&["config", "check", "--json"]).document();
    let checks: Vec<&str> = checked["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["check"].as_str().unwrap())
        .collect();
    assert!(checks.contains(&"version"), "{checked}");
    assert!(checked["exposures"]["main"].is_array(), "{checked}");
}
