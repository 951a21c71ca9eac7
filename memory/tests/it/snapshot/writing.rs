use memory::snapshot::{Control, RestoreOptions, SnapshotOptions, check, write};
use memory::{Memory, Scope};
use memory_core::{ErrorKind, TenantId, Timestamp};

use crate::snapshot::support::{
    content, json, key, put, restored, same, scope, set, sql, store, taken, varied,
};

/// The names of the lines, in order.
fn lines(file: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(file).unwrap();
    assert!(text.ends_with('\n'));
    text.lines()
        .map(|line| {
            let document: serde_json::Value = serde_json::from_str(line).unwrap();
            document.as_object().unwrap().keys().next().unwrap().clone()
        })
        .collect()
}

#[tokio::test]
async fn every_durable_scope_of_every_tenant_is_in_it_with_both_facets() {
    let memory = varied().await;
    let (file, report) = taken(&memory, &SnapshotOptions::default()).await;
    assert_eq!((report.scopes, report.entries, report.vectors, report.databases), (3, 5, 2, 2));
    assert!(report.is_complete());
    let text = String::from_utf8(file.clone()).unwrap();
    let scopes: Vec<&str> = text.lines().filter(|line| line.starts_with("{\"scope\":")).collect();
    assert_eq!(
        scopes,
        [
            r#"{"scope":{"tenant":"acme","kind":"agent","id":"planner"}}"#,
            r#"{"scope":{"tenant":"acme","kind":"user","id":"ada"}}"#,
            r#"{"scope":{"tenant":"zeta","kind":"user","id":"ada"}}"#,
        ]
    );
    assert!(!text.contains("scratch"), "runs are not durable");
    let names = lines(&file);
    assert_eq!(names[..5], ["memory_snapshot", "scope", "entry", "entries_end", "scope_end"]);
    assert_eq!(names.last().unwrap(), "end");
    assert_eq!(check(std::io::Cursor::new(file), &Control::default()).unwrap().scopes, 3);
}

#[tokio::test]
async fn a_tenant_or_a_scope_can_be_chosen() {
    let memory = varied().await;
    let zeta = SnapshotOptions::default().with_tenant(Some(TenantId::new("zeta").unwrap()));
    assert_eq!(taken(&memory, &zeta).await.1.scopes, 1);
    let (file, report) = taken(&memory, &SnapshotOptions::default().with_scope(Some(scope("ada")))).await;
    assert_eq!((report.scopes, report.entries), (1, 4));
    check(std::io::Cursor::new(file), &Control::default()).unwrap();
    let nobody = SnapshotOptions::default().with_tenant(Some(TenantId::new("nobody").unwrap()));
    assert_eq!(taken(&memory, &nobody).await.1.scopes, 0);
}

#[tokio::test]
async fn two_snapshots_of_the_same_store_differ_only_in_the_header() {
    let memory = varied().await;
    let at = |millis| SnapshotOptions::default().with_taken_at(Some(Timestamp::from_millis(millis).unwrap()));
    let (one, _) = taken(&memory, &at(1_000)).await;
    let (again, _) = taken(&memory, &at(1_000)).await;
    let (other, _) = taken(&memory, &at(2_000)).await;
    assert_eq!(one, again);
    let middle = |file: &[u8]| {
        let text = String::from_utf8(file.to_vec()).unwrap();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[1..lines.len() - 1].to_vec()
    };
    assert_eq!(middle(&one), middle(&other));
}

#[tokio::test]
async fn a_scope_over_the_cap_is_skipped_and_named() {
    let memory = store().await;
    set(&memory, &scope("a"), "k", "1").await;
    set(&memory, &scope("big"), "k", &format!("{:?}", "x".repeat(4_000))).await;
    // By its entries' bytes it fits, by its lines it does not.
    set(&memory, &scope("close"), "k", &format!("{:?}", "x".repeat(1_900))).await;
    sql(&memory, &scope("database"), "CREATE TABLE t (a)").await;
    sql(&memory, &scope("database"), "INSERT INTO t VALUES (hex(zeroblob(9000)))").await;
    let options = SnapshotOptions::default().with_max_scope_bytes(Some(2_000));
    let (file, report) = taken(&memory, &options).await;
    assert_eq!((report.scopes, report.skipped), (1, 3));
    let named: Vec<&str> = report.skipped_scopes.iter().map(|note| note.scope.id.as_str()).collect();
    assert_eq!(named, ["big", "close", "database"]);
    assert!(report.skipped_scopes.iter().all(|note| note.code == "too_large"), "{report:?}");
    assert!(!report.is_complete());
    let progress = check(std::io::Cursor::new(&file), &Control::default()).unwrap();
    assert_eq!(progress.scopes, 1);
    assert_eq!(lines(&file).iter().filter(|name| *name == "scope_skipped").count(), 3);
}

#[tokio::test]
async fn objects_a_dump_cannot_contain_are_listed_with_their_scope() {
    let memory = store().await;
    let scope = scope("ada");
    sql(&memory, &scope, "CREATE VIRTUAL TABLE words USING fts5(body, content='')").await;
    sql(&memory, &scope, "INSERT INTO words (rowid, body) VALUES (1, 'tea')").await;
    let (file, report) = taken(&memory, &SnapshotOptions::default()).await;
    assert_eq!(report.not_carried.len(), 1, "{report:?}");
    assert_eq!(report.not_carried[0].scope, scope);
    assert!(String::from_utf8(file).unwrap().contains("\"not_carried\":[\""));
}

#[tokio::test]
async fn a_stopped_snapshot_ends_at_once() {
    let memory = varied().await;
    let control = Control::default();
    control.stop();
    let error = write(&memory, &mut Vec::new(), &SnapshotOptions::default(), &control).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.details()["stopped"], true);
}

#[tokio::test]
async fn tenants_are_listed_in_order_a_page_at_a_time() {
    let memory = store().await;
    for tenant in ["b", "a", "c"] {
        set(&memory, &Scope::user(tenant, "u").unwrap(), "k", "1").await;
    }
    sql(&memory, &Scope::user("bb", "u").unwrap(), "CREATE TABLE t (a)").await;
    let all: Vec<String> = memory.tenants(None, 10).await.unwrap().into_iter().map(String::from).collect();
    assert_eq!(all, ["a", "b", "bb", "c"]);
    let after = TenantId::new("a").unwrap();
    let page: Vec<String> =
        memory.tenants(Some(&after), 2).await.unwrap().into_iter().map(String::from).collect();
    assert_eq!(page, ["b", "bb"]);
    assert_eq!(memory.tenants(None, 0).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// A store in a file with entries of Ada and Bob, after another program ran a statement.
async fn changed_by_another(statement: &str) -> (tempfile::TempDir, Memory) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.db");
    let url = format!("sqlite:{}", path.display());
    let memory = memory::open(&url).await.unwrap();
    set(&memory, &scope("ada"), "k", "1").await;
    set(&memory, &scope("bob"), "k", "2").await;
    drop(memory);
    let changed = rusqlite::Connection::open(&path).unwrap();
    assert!(changed.execute(statement, []).unwrap() > 0, "{statement}");
    drop(changed);
    (folder, memory::open(&url).await.unwrap())
}

#[tokio::test]
async fn a_scope_with_an_unrestorable_record_is_skipped_and_reported() {
    for change in [
        "metadata = '{\"a\":1e999}'",
        "metadata = '{\"' || hex(zeroblob(80)) || '\":1}'",
        "metadata = '{\"a\":[1]}'",
        "text = hex(zeroblob(600000))",
        "text = 'a' || char(0)",
        "updated_at = created_at - 1",
        "value = '{'",
    ] {
        let of_ada = "WHERE space = (SELECT space FROM scope WHERE name = 'ada')";
        let (_folder, memory) = changed_by_another(&format!("UPDATE entry SET {change} {of_ada}")).await;
        let (file, report) = taken(&memory, &SnapshotOptions::default()).await;
        assert_eq!((report.scopes, report.skipped), (1, 1), "{change}: {report:?}");
        assert_eq!(report.skipped_scopes[0].scope, scope("ada"), "{change}");
        assert_eq!(report.skipped_scopes[0].code, "corrupt", "{change}: {report:?}");
        let copy = store().await;
        let restored = restored(&copy, &file, &RestoreOptions::default()).await.unwrap();
        assert_eq!((restored.entries.restored, restored.skipped), (1, 1), "{change}: {restored:?}");
        same(&memory, &copy, &[scope("bob")]).await;
    }
}

#[tokio::test]
async fn versions_behind_the_greatest_of_an_import_are_restorable() {
    let memory = store().await;
    let ada = scope("ada");
    for (name, version) in [("greatest", 1 << 62), ("beyond", u64::MAX >> 1)] {
        let entry = memory::Entry::new(key(name), json("1"), version, Timestamp::EPOCH);
        put(&memory, &ada, vec![memory::Record::from(entry)]).await;
    }
    set(&memory, &ada, "next", "2").await;
    let (file, report) = taken(&memory, &SnapshotOptions::default()).await;
    assert!(report.is_complete(), "{report:?}");
    let copy = store().await;
    for restored_now in [1, 0] {
        let report = restored(&copy, &file, &RestoreOptions::default()).await.unwrap();
        assert_eq!((report.entries.restored, report.entries.unchanged), (restored_now, 1 - restored_now));
    }
    set(&copy, &ada, "one more", "3").await;
    assert_eq!(content(&copy, &ada).await.0.len(), 4);
}

#[tokio::test]
async fn versions_that_another_program_set_far_ahead_are_restorable() {
    let (_folder, memory) = changed_by_another("UPDATE scope SET version = 5000000000000000000").await;
    set(&memory, &scope("ada"), "next", "2").await;
    let (file, report) = taken(&memory, &SnapshotOptions::default()).await;
    assert_eq!((report.scopes, report.skipped), (2, 0), "{report:?}");
    let copy = store().await;
    let report = restored(&copy, &file, &RestoreOptions::default()).await.unwrap();
    assert_eq!((report.entries.restored, report.failed), (2, 0), "{report:?}");
}

#[tokio::test]
async fn a_row_without_a_scope_fails_the_snapshot_with_an_error() {
    for change in ["name = 'x' || char(0)", "tenant = 'x' || char(0)"] {
        let statement = format!("UPDATE scope SET {change} WHERE name = 'ada'");
        let (folder, memory) = changed_by_another(&statement).await;
        let (options, control) = (SnapshotOptions::default(), Control::default());
        let error = write(&memory, &mut Vec::new(), &options, &control).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{change}: {error:?}");
        let there = rusqlite::Connection::open(folder.path().join("memory.db")).unwrap();
        let row = "SELECT count(*) FROM scope WHERE space = ?1 AND name <> 'bob'";
        let space = error.details()["space"].as_i64().unwrap();
        assert_eq!(there.query_row(row, [space], |row| row.get::<_, i64>(0)).unwrap(), 1, "{change}");
    }
}
