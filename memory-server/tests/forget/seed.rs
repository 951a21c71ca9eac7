//! A store of which every place that can hold a copy holds one.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use memory::drift::Backups;
use memory::snapshot::{EntriesDigest, SqlDigest, entries_digest, sql_digest};
use memory::sql::StatementOptions;
use memory::{BulkOptions, Json, Key, Memory, NewEntry, RunContext, Scope, ScopeId};

/// In everything that is to go, and in nothing else.
pub(crate) const SECRET: &str = "xylograph";
pub(crate) const TENANT: &str = "acme";

pub(crate) fn target() -> Scope {
    Scope::user(TENANT, &format!("{SECRET}-user")).unwrap()
}

pub(crate) fn others() -> Vec<Scope> {
    vec![
        Scope::user(TENANT, "ben").unwrap(),
        Scope::agent(TENANT, "planner").unwrap(),
        Scope::user("other", "ada").unwrap(),
    ]
}

pub(crate) fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memory"));
    command.args(arguments).current_dir(home).env("HOME", home).stdin(Stdio::null());
    for name in ["XDG_DATA_HOME", "MEMORY_URL", "MEMORY_TENANT", "MEMORY_CONFIG", "MEMORY_BACKEND"] {
        command.env_remove(name);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn run(home: &Path, arguments: &[&str]) -> Output {
    command(home, arguments).output().unwrap()
}

pub(crate) fn ok(home: &Path, arguments: &[&str]) -> String {
    let output = run(home, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) async fn open(home: &Path) -> Memory {
    memory::open(&format!("sqlite:{}", home.join("store.db").display())).await.unwrap()
}

async fn fill(memory: &Memory, scope: &Scope, word: &str) {
    let item = |at: usize| {
        let value = Json::string(&format!("{word} says {}", "tea ".repeat(at % 400)));
        NewEntry::new(Key::new(format!("{word}-{at}")).unwrap(), value)
    };
    let items = (0..300).map(item).collect();
    memory.backend().unwrap().bulk_insert(scope, items, BulkOptions::default()).await.unwrap();
    let run = RunContext::new(scope.tenant.clone(), ScopeId::new("t").unwrap(), ScopeId::new("r").unwrap());
    for sql in [
        "CREATE TABLE note (id INTEGER PRIMARY KEY, a)".to_owned(),
        format!("INSERT INTO note (a) VALUES ('{word}')"),
    ] {
        let facet = memory.sql().unwrap();
        facet.exec(&run, scope, &sql, &[], StatementOptions::default()).await.unwrap();
    }
}

/// An audit line of the tool, as `memory serve` writes it.
fn audited(user: &str, key: &str) -> String {
    format!(
        "{{\"kind\":\"call\",\"number\":1,\"time\":\"2026-01-01T00:00:00Z\",\"tenant\":\"{TENANT}\",\"agent\":\"a\",\
         \"user\":\"{user}\",\"run\":\"r\",\"op\":\"set\",\"scope\":\"user\",\"key\":\"{key}\",\"bytes_in\":1,\"bytes_out\":1,\
         \"micros\":1,\"outcome\":\"ok\",\"input\":{{\"op\":\"set\",\"key\":\"{key}\",\"value\":\"{key}\"}}}}\n"
    )
}

/// Entries, overwritten and deleted ones, SQL, a backup of drift, snapshots of everything and of the scope alone, one that
/// was not finished, audit files.
pub(crate) async fn seed(home: &Path) {
    let memory = open(home).await;
    fill(&memory, &target(), SECRET).await;
    for scope in others() {
        fill(&memory, &scope, "kept").await;
    }
    let backend = memory.backend().unwrap();
    let actual = backend.drift_state(&target()).await.unwrap().token;
    let backups = std::sync::Arc::new(Backups::new(home.join("store.db.drift")));
    let now = memory::system::SystemClock;
    let at = memory::Clock::now(&now);
    std::sync::Arc::clone(&backups).save(backend, &target(), None, Some(actual), at).await.unwrap();
    let other = others().remove(0);
    let actual = backend.drift_state(&other).await.unwrap().token;
    backups.save(backend, &other, None, Some(actual), at).await.unwrap();
    drop(memory);
    ok(home, &["snapshot", "all.snapshot", "--url", "sqlite:store.db", "-q"]);
    let id = target().id;
    let of_scope = [
        "snapshot",
        "one.snapshot",
        "--url",
        "sqlite:store.db",
        "-q",
        "--tenant",
        TENANT,
        "--user",
        id.as_str(),
    ];
    ok(home, &of_scope);
    let left = home.join(format!(".all.snapshot.{:032x}.part", 7));
    std::fs::copy(home.join("all.snapshot"), left).unwrap();
    let lines = [audited(id.as_str(), &format!("{SECRET}-1")), audited("ben", "kept-1")].concat();
    std::fs::write(home.join("audit.jsonl"), &lines).unwrap();
    std::fs::write(home.join("audit.jsonl.1"), &lines).unwrap();
    std::fs::write(
        home.join("memory.toml"),
        "[backends.main]\nurl = \"sqlite:store.db\"\n[default]\nbackend = \"main\"\n[audit]\nfile = \"audit.jsonl\"\n",
    )
    .unwrap();
}

pub(crate) type Held = (EntriesDigest, Option<SqlDigest>);

pub(crate) async fn held(home: &Path, scope: &Scope) -> Held {
    let memory = open(home).await;
    let entries = entries_digest(memory.backend().unwrap(), scope).await.unwrap();
    (entries, sql_digest(memory.sql().unwrap(), scope).await.unwrap())
}

pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        if std::fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The files that hold the text, in their bytes or names.
pub(crate) fn holding(folder: &Path, text: &str) -> Vec<String> {
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
            || path.display().to_string().contains(text)
    };
    let name = |path: PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
    files(folder).into_iter().filter(holds).map(name).collect()
}
