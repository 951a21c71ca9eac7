//! `postgres`: setting up databases, and the doctor's findings.

use memory_core::Scope;
use memory_fakes::postgres::{Database, SERVER, apart};
use serde_json::Value;

use crate::support::user::User;

/// Empty databases. `None` without a server, after printing a note.
fn databases<const N: usize>() -> Option<[Database; N]> {
    let made: Option<Vec<Database>> = (0..N).map(|_| Database::on_own_runtime(SERVER)).collect();
    made?.try_into().ok()
}

fn status_of<'d>(document: &'d Value, check: &str) -> &'d str {
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no {check}: {document}"))["status"].as_str().unwrap()
}

#[test]
fn the_script_is_printed_without_a_server_and_names_no_password() {
    let user = User::new();
    let url = ["--url", "postgres://app:s3cret@db.example/memory"];
    let script = user.ok(&[&["postgres", "provision", "--role", "app"][..], &url].concat());
    assert!(
        script.starts_with("-- ") && script.contains("CREATE EXTENSION IF NOT EXISTS vector"),
        "{script}"
    );
    assert!(script.contains("TO \"app\"") && script.ends_with("COMMIT;\n") && !script.contains("s3cret"));
    let printed = user.json(&[&["postgres", "provision", "--print", "--no-vector"][..], &url].concat());
    assert!(!printed["sql"].as_str().unwrap().contains("CREATE EXTENSION"), "{printed}");
    let both = user.run(&[&["postgres", "provision", "--print", "--apply"][..], &url].concat());
    assert_eq!(both.code, Some(2), "{both:?}");
    user.refused(&["postgres", "doctor", "--url", "sqlite:other.db"], 3, "invalid_argument");
}

#[test]
fn an_empty_database_is_a_problem_until_it_is_provisioned() {
    let Some([entries]) = databases() else { return };
    let (user, url) = (User::new(), entries.url());
    let doctor = ["postgres", "doctor", "--json", "--url", &url];
    let before = user.run(&doctor);
    assert_eq!(before.code, Some(8), "{before:?}");
    let document = before.document();
    assert_eq!((&document["status"], status_of(&document, "tables")), (&Value::from("problem"), "problem"));

    let done = user.json(&["postgres", "provision", "--apply", "--url", &url]);
    assert_eq!((&done["schema"], &done["sql"]), (&Value::from("memory"), &Value::from(false)), "{done}");
    let again = user.ok(&["postgres", "provision", "--apply", "--url", &url]);
    assert!(again.contains("the tables in schema memory are up to date"), "{again}");
    // The test server does not sync, which the doctor reports as a problem.
    let after = user.run(&doctor).document();
    assert_eq!((status_of(&after, "rights"), status_of(&after, "version")), ("ok", "ok"), "{after}");
    let table = user.run(&["postgres", "doctor", "--url", &url]).stdout;
    assert!(table.starts_with("CHECK") && table.contains("search_path"), "{table}");

    user.ok(&["set", "greeting", "\"hello\"", "--url", &url]);
    assert_eq!(user.ok(&["get", "greeting", "--url", &url]).trim(), "\"hello\"");
    // Drift backups are in the data folder, which is not created before the first backup.
    let drift = user.json(&["drift", "status", "--url", &url]);
    let folder = std::path::Path::new(drift["folder"].as_str().unwrap_or_else(|| panic!("{drift}")));
    assert!(folder.parent().unwrap().ends_with("memory/drift") && !folder.exists(), "{drift}");
    let no_sql =
        user.refused(&["postgres", "provision", "--apply", "--rekey", "--url", &url], 3, "invalid_argument");
    assert!(no_sql["message"].as_str().unwrap().contains("sql.url"), "{no_sql}");
}

#[test]
fn the_database_of_agents_is_set_up_looked_at_and_rekeyed() {
    let Some([kept, agents]) = databases() else { return };
    let user = User::new();
    let key = user.file("key", "0123456789abcdef0123456789abcdef");
    private(&key);
    let escaped: String = agents.url().bytes().map(|byte| format!("%{byte:02X}")).collect();
    let url = format!("{}?sql.url={escaped}&sql.key_file={}", kept.url(), key.display());
    let done = user.json(&["postgres", "provision", "--apply", "--url", &url]);
    assert_eq!(done["sql"], true, "{done}");
    let report = user.run(&["postgres", "doctor", "--json", "--url", &url]).document();
    for check in ["sql_key", "sql_user", "sql_setup", "sql_names", "sql_prepared"] {
        assert_eq!(status_of(&report, check), "ok", "{report}");
    }
    assert_eq!(report["exposures"], Value::Array(Vec::new()), "{report}");

    // A tenant for this test only: roles are shared by the whole server.
    let tenant = format!("cli-{}", std::process::id());
    let sql =
        |statement: &str| user.ok(&["sql", statement, "--tenant", &tenant, "--agent", "a", "--url", &url]);
    sql("CREATE TABLE t (n int)");
    sql("INSERT INTO t VALUES (7)");
    assert!(sql("SELECT n FROM t").contains('7'));
    user.file("key", "fedcba9876543210fedcba9876543210");
    private(&key);
    let done = user.json(&["postgres", "provision", "--apply", "--rekey", "--url", &url]);
    assert_eq!(done["rekeyed"], 1, "{done}");
    assert!(sql("SELECT n FROM t").contains('7'));

    let hex: String = Scope::agent(&tenant, "a").unwrap().digest().to_hex().chars().take(40).collect();
    let drop =
        format!("DROP OWNED BY mem_r_{hex} CASCADE; DROP SCHEMA mem_s_{hex} CASCADE; DROP ROLE mem_r_{hex}");
    apart(|| async { agents.client().await.batch_execute(&drop).await.unwrap() });
}

/// Files in the data folder belong to a database, whatever its URL looks like.
#[test]
fn databases_of_one_server_share_no_folder_and_spellings_of_one_do() {
    let Some([one, other]) = databases() else { return };
    let user = User::new();
    let (prod, staging) = (one.url(), other.url());
    for url in [&prod, &staging] {
        user.ok(&["postgres", "provision", "--apply", "--url", url]);
        user.ok(&["set", "name", "\"Ada\"", "--user", "ada", "--url", url]);
    }
    user.ok(&["snapshot", "prod.snapshot", "--url", &prod]);
    let whole = std::fs::read(user.home().join("prod.snapshot")).unwrap();
    // The server's log is out of reach, hence exit code 7.
    let forgotten = user.run(&["forget", "--user", "ada", "--yes", "--json", "--url", &staging]);
    assert!(forgotten.code == Some(7) && !forgotten.stdout.contains("prod.snapshot"), "{forgotten:?}");
    assert_eq!(std::fs::read(user.home().join("prod.snapshot")).unwrap(), whole);
    assert_eq!(user.ok(&["snapshot", "--list", "--json", "--url", &staging]), "");

    // Another schema is another memory.
    let schema = format!("{prod}?schema=other");
    user.ok(&["postgres", "provision", "--apply", "--url", &schema]);
    assert_eq!(user.ok(&["snapshot", "--list", "--json", "--url", &schema]), "");

    let spelled = format!("{}?connect_timeout=7", prod.replacen("postgres:", "postgresql:", 1));
    let folder = |url: &str| user.json(&["drift", "status", "--url", url])["folder"].clone();
    assert_eq!(folder(&spelled), folder(&prod));
    assert_ne!(folder(&staging), folder(&prod));
    assert_ne!(folder(&schema), folder(&prod));
    let listed = user.run(&["snapshot", "--list", "--json", "--url", &spelled]).lines();
    assert_eq!(listed.len(), 1, "{listed:?}");
    user.run(&["forget", "--user", "ada", "--yes", "--url", &spelled]);
    assert!(!user.home().join("prod.snapshot").exists(), "it held nothing else");
}

fn private(path: &std::path::Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    #[cfg(not(unix))]
    let _ = path;
}
