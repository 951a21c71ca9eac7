//! A store with a copy in every place that can hold one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::drift::Backups;
use memory::{BackendUrl, Error, Factory, Memory, OpenContext, Provider, Registry, Result, Scope};

use crate::support::program::ok;
use crate::support::store;

/// A word in everything to be forgotten, and nowhere else.
pub(crate) const SECRET: &str = "xylograph";
/// A word in everything of the tenant, and nowhere else.
pub(crate) const TENANT: &str = "lithographers";

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

async fn fill(memory: &Memory, scope: &Scope, word: &str) {
    let says = |at: usize| (format!("{word}-{at}"), format!("{word} says {}", "tea ".repeat(at % 400)));
    store::fill(memory, scope, (0..300).map(says)).await;
    store::exec(memory, scope, "CREATE TABLE note (id INTEGER PRIMARY KEY, a TEXT)").await;
    store::exec(memory, scope, &format!("INSERT INTO note VALUES (1, '{word}')")).await;
}

/// An audit line of the tool, as `memory serve` writes it.
fn audited(user: &str, key: &str) -> String {
    format!(
        "{{\"kind\":\"call\",\"number\":1,\"time\":\"2026-01-01T00:00:00Z\",\"tenant\":\"{TENANT}\",\"agent\":\"a\",\
         \"user\":\"{user}\",\"run\":\"r\",\"op\":\"set\",\"scope\":\"user\",\"key\":\"{key}\",\"bytes_in\":1,\"bytes_out\":1,\
         \"micros\":1,\"outcome\":\"ok\",\"input\":{{\"op\":\"set\",\"key\":\"{key}\",\"value\":\"{key}\"}}}}\n"
    )
}

/// Entries, SQL, drift backups, snapshots of everything and of the scope alone, an unfinished snapshot, audit files,
/// and the `memory.toml` that names the store.
pub(crate) async fn seed(home: &Path, url: &str) {
    let memory = memory::open(url).await.unwrap();
    fill(&memory, &target(), SECRET).await;
    for scope in others() {
        fill(&memory, &scope, "kept").await;
    }
    let status = ok(home, &["drift", "status", "--json", "--url", url]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let backups = Arc::new(Backups::new(status["folder"].as_str().unwrap()));
    let (backend, now) = (memory.backend().unwrap(), memory::Clock::now(&memory::system::SystemClock));
    for scope in [&target(), &others()[0]] {
        let actual = backend.drift_state(scope).await.unwrap().token;
        Arc::clone(&backups).save(backend, scope, None, Some(actual), now).await.unwrap();
    }
    drop(memory);
    ok(home, &["snapshot", "all.snapshot", "--url", url, "-q"]);
    let id = target().id;
    let of_scope = ["--tenant", TENANT, "--user", id.as_str()];
    ok(home, &[&["snapshot", "one.snapshot", "--url", url, "-q"][..], &of_scope].concat());
    let left = home.join(format!(".all.snapshot.{:032x}.part", 7));
    std::fs::copy(home.join("all.snapshot"), left).unwrap();
    let lines = [audited(id.as_str(), &format!("{SECRET}-1")), audited("ben", "kept-1")].concat();
    std::fs::write(home.join("audit.jsonl"), &lines).unwrap();
    std::fs::write(home.join("audit.jsonl.1"), &lines).unwrap();
    std::fs::write(home.join("memory.toml"), config(url, "")).unwrap();
}

/// `of_main`: more lines about the store.
fn config(url: &str, of_main: &str) -> String {
    format!(
        "[backends.main]\nurl = \"{url}\"\n{of_main}\n[default]\nbackend = \"main\"\n[audit]\nfile = \"audit.jsonl\"\n"
    )
}

/// Queues writes of the target and of others in a fallback's journal, while the store is unavailable.
pub(crate) async fn journal(home: &Path, url: &str) {
    let fallback = "fallback = \"spare\"\nfallback_writes = \"journal\"";
    let spare = format!("[backends.spare]\nurl = \"sqlite:{}\"\n", home.join("spare.db").display());
    std::fs::write(home.join("memory.toml"), config(url, fallback) + &spare).unwrap();
    let config = memory::Config::load(home.join("memory.toml")).unwrap();
    // The journal needs to have reached the store once.
    config.open_backend("main").await.unwrap();
    let mut registry = Registry::empty();
    registry.register("sqlite", Arc::new(SpareAlone)).unwrap();
    let memory = config.open_backend_with(&registry, "main").await.unwrap();
    for (scope, word) in [(target(), SECRET), (others().remove(0), "kept")] {
        let waits = [1, 2].map(|at| (format!("{word}-{at}"), format!("{word} waits")));
        store::fill(&memory, &scope, waits).await;
    }
}

/// Opens only the spare store.
#[derive(Debug)]
struct SpareAlone;

#[memory::async_trait]
impl Factory for SpareAlone {
    async fn open(&self, url: &BackendUrl, _: &OpenContext) -> Result<Arc<dyn Provider>> {
        let url = url.to_string();
        if !url.ends_with("spare.db") {
            return Err(Error::unavailable("the store is away"));
        }
        Ok(Arc::new(memory::open(&url).await?))
    }
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

/// The files that contain the text, in bytes or name.
pub(crate) fn holding(folder: &Path, text: &str) -> Vec<String> {
    // Stores that were dropped remove their logs when they close.
    assert!(memory::sqlite::wait_until_closed(std::time::Duration::from_secs(30)));
    let holds = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
            || path.display().to_string().contains(text)
    };
    let name = |path: PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
    files(folder).into_iter().filter(holds).map(name).collect()
}
