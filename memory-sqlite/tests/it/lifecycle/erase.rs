//! Erased content is in no file of the store, and no handle returns it.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::files::{contents, folder, integrity, place, raw, raw_sql};
use crate::support::sql::Sql;
use crate::support::{Store, TestClock, agent, block_on, embedders, eventually, fast, json, key, poll_once};
use memory_core::{
    EraseTarget, Erased, GetOptions, Provider as _, RunContext, Scope, SetOptions, Source, TenantId, Ttl,
};

/// In every text to erase, and nowhere else.
const SECRET: &str = "xylographer";

fn erase(store: &Store, target: &EraseTarget) -> Erased {
    block_on(store.kv.erase(target)).unwrap()
}

/// The files that contain the text; names of folders and files count too.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let found = contents(folder);
    let holding =
        found.iter().filter(|(path, bytes)| holds(bytes) || path.display().to_string().contains(text));
    holding.map(|(path, _)| path.display().to_string()).collect()
}

/// Entries short and long, overwritten, deleted, expired, with texts, sources and metadata; a SQL database.
fn seed(store: &Store) {
    for at in 0..300 {
        let name = format!("{SECRET}-{at:03}");
        store.set(&name, &format!("\"{SECRET} first {at}\""));
        let long = format!("\"{SECRET} second {at} {}\"", SECRET.repeat(at * 3));
        let mut options = SetOptions::default()
            .with_metadata(memory_core::Metadata::new().with(SECRET, SECRET))
            .with_ttl(if at % 7 == 0 { Ttl::After(Duration::from_secs(1)) } else { Ttl::Keep });
        options.source = Some(Source::new(SECRET).unwrap());
        options.text = (at % 2 == 0).then(|| format!("{SECRET} tea {at}"));
        store.try_set_with(&name, &long, options).unwrap();
        if at % 3 == 0 {
            store.delete(&name).unwrap();
        } else if at % 5 == 0 {
            store.set(&name, "1");
        }
    }
    store.clock.advance(Duration::from_secs(2));
    assert!(!store.find(SECRET).unwrap().is_empty());
    block_on(store.backend().get(&store.scope, &key(&format!("{SECRET}-001")), GetOptions::default()))
        .unwrap();
    let run = RunContext::new(store.scope.tenant.clone(), store.scope.id.clone(), store.scope.id.clone());
    let (provider, checked, scope) = (store.provider.clone(), store.kv.clone(), store.scope.clone());
    let sql = Sql { provider, checked, run, scope };
    sql.exec("CREATE TABLE note (text TEXT)");
    sql.exec(&format!("INSERT INTO note VALUES ('{SECRET}')"));
}

fn neighbours(store: &Store) -> Vec<Store> {
    let scopes = [agent("ben"), Scope::user("acme", "ada").unwrap(), Scope::agent("bcme", "ada").unwrap()];
    scopes.map(|scope| Store { scope, ..store.clone() }).into()
}

#[test]
fn an_erased_scope_is_in_no_file_though_other_handles_are_open() {
    let (folder, path) = place();
    let embedder = || std::sync::Arc::new(embedders::Directions::new(8));
    let clock = TestClock::new();
    let store = Store::embedding(Some(&path), fast(), clock.clone(), embedder()).unwrap();
    let scope = Scope::agent("acme", &format!("{SECRET}-s")).unwrap();
    let store = Store { scope: scope.clone(), ..store };
    for other in neighbours(&store) {
        other.set("kept", "\"tea\"");
    }
    seed(&store);
    let beside = Store::open_at(&path, fast(), clock).unwrap();
    let beside = Store { scope: scope.clone(), ..beside };
    assert!(!beside.find(SECRET).unwrap().is_empty(), "it has an index of the words");
    assert!(holding(folder.path(), SECRET).len() >= 2, "the file and the SQL database");

    let erased = erase(&store, &EraseTarget::Scope(scope));
    assert_eq!(erased.remains, Vec::<String>::new());
    assert_eq!((erased.scopes, erased.databases), (1, 1));
    assert!(erased.entries > 100);
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());
    for handle in [&store, &beside] {
        assert!(handle.find(SECRET).unwrap().is_empty());
        assert!(handle.near(SECRET, 3).unwrap_or_default().is_empty());
        assert!(handle.keys("").unwrap().is_empty());
        assert_eq!(handle.text(&format!("{SECRET}-001")), None);
    }
    for other in neighbours(&store) {
        assert_eq!(other.text("kept").as_deref(), Some("\"tea\""));
    }
    assert_eq!(integrity(&path), "ok");
    beside.close();
    store.close();
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new(), "nor after they have closed");
}

#[test]
fn an_erased_tenant_and_key_are_in_no_file() {
    let (folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    let tenant = format!("{SECRET}-t");
    for scope in [
        Scope::agent(&tenant, "a").unwrap(),
        Scope::user(&tenant, "a").unwrap(),
        Scope::run(&tenant, "a").unwrap(),
    ] {
        let one = Store { scope, ..store.clone() };
        one.set(SECRET, &format!("\"{SECRET}\""));
    }
    for other in neighbours(&store) {
        other.set("kept", "\"tea\"");
    }
    let erased = erase(&store, &EraseTarget::Tenant(TenantId::new(tenant).unwrap()));
    assert_eq!((erased.scopes, erased.entries, erased.remains), (3, 3, Vec::new()));
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());

    let one = Store { scope: agent("ben"), ..store.clone() };
    for at in 0..50 {
        one.set(&format!("{at}"), "\"tea\"");
        one.set(SECRET, &format!("\"{SECRET} {at}\""));
    }
    let erased = erase(&store, &EraseTarget::Key { scope: agent("ben"), key: key(SECRET) });
    assert_eq!((erased.scopes, erased.entries, erased.remains), (0, 1, Vec::new()));
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());
    assert_eq!(one.keys("").unwrap().len(), 51);
    assert_eq!(integrity(&path), "ok");
    store.close();
}

#[test]
fn a_reader_that_keeps_the_log_is_reported_and_erasing_again_finishes() {
    let (folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    for at in 0..5_000 {
        store.bulk([(format!("{at}"), format!("\"{SECRET}\""))]).unwrap();
    }
    let mut export = block_on(store.backend().export_scope(&store.scope)).unwrap();
    eventually("the export has begun", || {
        poll_once(std::future::poll_fn(|context| export.as_mut().poll_next(context))).map(drop)
    });
    let target = EraseTarget::Scope(store.scope.clone());
    let erased = erase(&store, &target);
    assert_eq!(erased.remains.len(), 1, "{:?}", erased.remains);
    assert!(store.keys("").unwrap().is_empty(), "new readers do not see it");
    drop(export);
    let again = eventually("the reader has ended", || {
        Some(erase(&store, &target)).filter(|erased| erased.remains.is_empty())
    });
    assert_eq!(again.entries, 0);
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());
    store.close();
}

/// A store with a secret, another process that holds the lock of its SQL database, and an erasure that waits for it.
fn waiting_to_drop(
    statement_timeout_ms: u64,
) -> (tempfile::TempDir, Store, rusqlite::Connection, JoinHandle<memory_core::Result<Erased>>) {
    let (folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    seed(&store);
    let sql = raw_sql(folder.path());
    sql.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut config = fast();
    (config.busy_timeout_ms, config.sql.statement_timeout_ms) = (50, statement_timeout_ms);
    let erasing = Store::open(&path, config).unwrap();
    let erasing =
        std::thread::spawn(move || block_on(erasing.kv.erase(&EraseTarget::Scope(erasing.scope.clone()))));
    eventually("the entries are gone", || store.keys("").unwrap().is_empty().then_some(()));
    (folder, store, sql, erasing)
}

#[test]
fn a_lock_of_another_process_after_the_entries_are_erased_is_told_as_what_remains() {
    let (folder, store, sql, erasing) = waiting_to_drop(60_000);
    let other = raw(&folder.path().join("memory.db"));
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    drop(sql);
    let erased = erasing.join().unwrap().unwrap();
    assert_eq!((erased.scopes, erased.databases, erased.remains.len()), (1, 1, 1), "{:?}", erased.remains);
    drop(other);
    assert!(erase(&store, &EraseTarget::Scope(store.scope.clone())).remains.is_empty());
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());
}

#[test]
fn an_erasure_that_cannot_drop_the_database_says_that_the_entries_are_gone() {
    let (folder, store, sql, erasing) = waiting_to_drop(100);
    let error = erasing.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), memory_core::ErrorKind::OutcomeUnknown, "{error:?}");
    assert!(error.message().starts_with("the entries are erased"), "{error}");
    drop(sql);
    assert!(erase(&store, &EraseTarget::Scope(store.scope.clone())).remains.is_empty());
    assert_eq!(holding(folder.path(), SECRET), Vec::<String>::new());
}

#[test]
fn a_file_of_an_earlier_version_is_erased_too() {
    let folder = folder();
    let path = folder.path().join("v3.db");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v3.db"), &path).unwrap();
    let store = Store::open(&path, fast()).unwrap();
    let long = store.text("long").unwrap();
    let erased = erase(&store, &EraseTarget::Scope(store.scope.clone()));
    assert!(erased.entries > 0 && erased.remains.is_empty());
    let version = store.set("again", "1");
    assert!(version > erased.tombstone.version);
    assert_eq!(holding(folder.path(), &long[1..40]), Vec::<String>::new());
    assert_eq!(json("1"), store.entry("again").unwrap().unwrap().value);
    store.close();
}
