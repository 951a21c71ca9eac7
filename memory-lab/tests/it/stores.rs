//! The suite on each kind of store, run by the command, twice or on one that was in use: a store outlives a run.

use serde_json::json;
use tokio_postgres::NoTls;

use crate::service::Service;
use crate::user::User;

/// Checks that no case fails and that at least `passed` cases pass.
fn assert_passes(user: &User, store: &[&str], passed: u64, run: &str) {
    let ran = user.run(&[&["conformance", "--timeout", "120", "--quiet", "--json"], store].concat());
    let report = ran.document();
    assert_eq!(report["failed"], json!([]), "{run} on {store:?}");
    assert_eq!(ran.code, Some(0), "{run} on {store:?}");
    assert!(report["cases"]["passed"].as_u64().unwrap() >= passed, "{run} on {store:?}: {}", report["cases"]);
}

fn assert_passes_twice(user: &User, store: &[&str], passed: u64) {
    assert_passes(user, store, passed, "the first run");
    assert_passes(user, store, passed, "the second run");
}

#[test]
fn a_used_sqlite_file_passes_twice() {
    let user = User::new();
    // In a build that is not optimised, cases beside each other may hold the file for longer than the usual five seconds.
    let url = "sqlite:memory.db?busy_timeout_ms=30000";
    user.ok(&["mutants", "--filter", "ttl.", "--url", url, "--quiet"]);
    assert_passes_twice(&user, &["--url", url], 500);
}

/// A server with a clock of its own: what needs another is skipped, and nothing else.
#[test]
fn a_server_that_ignores_the_suites_clock_passes_without_the_cases_about_time() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (host, token) = runtime.block_on(async {
        let memory = memory::open("sqlite::memory:").await.unwrap();
        let (served, token, folder) = memory_server::http::guarded(memory).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            served.serve(listener).await;
            drop(folder);
        });
        (host, token)
    });
    let user = User::new();
    std::fs::write(user.home().join("token"), token).unwrap();
    let url = format!("memory+http://{host}?api_key=file:token");
    let server = ["--url", &url, "--allow-host", &host];
    let suite = user.run(&[&["conformance", "--filter", "kv.", "--quiet", "--json"], &server[..]].concat());
    let report = suite.document();
    assert_eq!((&report["failed"], suite.code), (&json!([]), Some(0)), "{report}");
    let count = |name: &str| report["cases"][name].as_u64().unwrap();
    assert!(count("skipped") > 5 && count("passed") > count("skipped"), "{report}");
    let load = ["load", "--rate", "200", "--seconds", "1", "--keys", "50", "--clients", "8", "--json"];
    let ran = user.run(&[&load[..], &server].concat());
    let report = ran.document();
    assert_eq!((&report["due"], &report["errors"]), (&json!(200), &json!({})), "{report}");
    assert!(report["latency_ms"]["p50"].as_f64().unwrap() <= report["latency_ms"]["max"].as_f64().unwrap());
    assert_eq!(ran.code, Some(0));
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

/// Databases on the test server, dropped with the value.
struct Databases {
    server: String,
    names: [String; 2],
}

impl Databases {
    /// `None` if there is no server; prints that the test is skipped.
    fn fresh() -> Option<Self> {
        let Ok(url) = std::env::var("MEMORY_TEST_POSTGRES_URL") else {
            println!("skipped: no server; `cargo xtask test` starts one, or set MEMORY_TEST_POSTGRES_URL");
            return None;
        };
        let server = url.rsplit_once('/').unwrap().0.to_owned();
        let names = ["entries", "agents"].map(|what| format!("lab_{what}_{}", std::process::id()));
        let databases = Self { server, names };
        for name in &databases.names {
            databases.run("postgres", &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
            databases.run("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        }
        databases.run(&databases.names[0], "CREATE EXTENSION vector");
        Some(databases)
    }

    fn run(&self, database: &str, sql: &str) {
        let url = format!("{}/{database}", self.server);
        block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
        });
    }

    fn url(&self) -> String {
        format!("{}/{}", self.server, self.names[0])
    }

    /// A URL with agents' SQL in a database of its own.
    fn url_with_sql(&self, user: &User) -> String {
        let key = user.file("key", "0123456789abcdef0123456789abcdef\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        let agents = format!("{}/{}", self.server, self.names[1]);
        let agents = agents.replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
        format!("{}?sql.url={agents}&sql.key_file={}", self.url(), key.display())
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        for name in &self.names {
            self.run("postgres", &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
}

/// The database was used under the server's own clock, and by cases whose SQL databases stay, before the suite uses its own.
#[test]
fn a_used_postgres_database_with_sql_passes() {
    let user = User::new();
    let Some(databases) = Databases::fresh() else { return };
    let url = databases.url_with_sql(&user);
    block_on(async { drop(memory::open(&url).await.unwrap()) });
    assert_passes(&user, &["--url", &url, "--filter", "sql.tx."], 10, "the first run");
    assert_passes(&user, &["--url", &url], 600, "the second run");
}

/// Configured in `memory.toml`, which also allows the host.
#[test]
fn mem0_by_name_passes_twice() {
    for (service, parameters) in [
        (Service::mem0(), "api_key=file:key"),
        (Service::mem0_platform(), "flavour=platform&api_key=file:key"),
    ] {
        let user = User::new();
        user.file("key", memory_fakes::mem0::KEY);
        user.file("memory.toml", service.config("mem0", parameters));
        assert_passes_twice(&user, &["--backend", "mem0"], 30);
        assert!(!service.asked().is_empty());
    }
}

/// Given by URL; the command line allows the host.
#[test]
fn mem9_by_url_passes_twice_with_either_ranking() {
    for ranking in ["confidence", "plain"] {
        let (user, service) = (User::new(), Service::mem9());
        user.file("key", memory_fakes::mem9::KEY);
        let address = service.address();
        let url = format!(
            "mem9+http://{address}?preview=true&tenancy=shared_key&api_key=file:key&ranking={ranking}"
        );
        assert_passes_twice(&user, &["--url", &url, "--allow-host", &address], 30);
    }
}

#[test]
fn only_the_named_store_is_tested() {
    let user = User::new();
    user.file("memory.toml", "[backends.mine]\nurl = \"sqlite:mine.db\"\n");
    for command in ["conformance", "mutants"] {
        user.refused(&[command, "--backend", "yours", "--filter", "ttl."], 3, "not_found");
    }
    assert!(!user.home().join("mine.db").exists());
    let report = user.json(&["conformance", "--backend", "mine", "--filter", "ttl.after"]);
    assert_eq!(report["provider"], "sqlite:mine.db");
    assert!(user.home().join("mine.db").exists());
    let service = Service::mem0();
    user.file("key", memory_fakes::mem0::KEY);
    let url = format!("mem0+http://{}?api_key=file:key", service.address());
    user.refused(&["conformance", "--url", &url, "--config", "memory.toml"], 3, "egress_denied");
}
