use memory::snapshot::{OnDifferent, RestoreOptions, SnapshotOptions};
use memory_core::{ErrorKind, Timestamp};

use crate::snapshot::support::{
    content, durable, key, kv, restored, same, scope, set, sql, store, taken, varied,
};

fn replacing() -> RestoreOptions {
    RestoreOptions::default().with_on_different(OnDifferent::Replace)
}

#[tokio::test]
async fn an_empty_store_then_has_the_same_contents_and_versions() {
    let (from, to) = (varied().await, store().await);
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let report = restored(&to, &file, &RestoreOptions::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((report.scopes, report.records), (3, 5));
    assert_eq!((report.entries.restored, report.databases.restored), (2, 2));
    same(&from, &to, &durable()).await;
    let (again, _) = taken(&to, &SnapshotOptions::default()).await;
    let body = |file: &[u8]| {
        let text = String::from_utf8(file.to_vec()).unwrap();
        text.lines().filter(|line| line.starts_with("{\"scope_end\":")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(body(&again), body(&file), "each scope has the digest that it had");
}

#[tokio::test]
async fn restoring_again_changes_nothing() {
    let (from, to) = (varied().await, store().await);
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    restored(&to, &file, &RestoreOptions::default()).await.unwrap();
    for options in [RestoreOptions::default(), replacing()] {
        let report = restored(&to, &file, &options).await.unwrap();
        assert!(report.is_complete(), "{report:?}");
        assert_eq!((report.records, report.entries.unchanged, report.databases.unchanged), (0, 2, 2));
    }
    same(&from, &to, &durable()).await;
}

#[tokio::test]
async fn differing_scopes_are_refused_kept_or_replaced() {
    let from = varied().await;
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let to = store().await;
    set(&to, &scope("ada"), "own", "1").await;
    sql(&to, &scope("ada"), "CREATE TABLE own (a)").await;

    let error = restored(&to, &file, &RestoreOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(error.details()["scopes"], 1);
    let planner = &durable()[0];
    assert!(content(&to, planner).await.0.is_empty(), "nothing at all is written");

    let skipping = RestoreOptions::default().with_on_different(OnDifferent::Skip);
    let report = restored(&to, &file, &skipping).await.unwrap();
    assert_eq!((report.entries.kept, report.databases.kept, report.entries.restored), (1, 1, 1));
    assert_eq!(content(&to, &scope("ada")).await.0.len(), 1, "what is there stays");

    let before = content(&to, &scope("ada")).await.0[0].entry.version;
    let report = restored(&to, &file, &replacing()).await.unwrap();
    assert_eq!((report.entries.replaced, report.databases.replaced), (1, 1));
    let (records, lines) = content(&to, &scope("ada")).await;
    let (given, given_lines) = content(&from, &scope("ada")).await;
    let names = |records: &[memory::Record]| {
        records
            .iter()
            .map(|record| (record.entry.key.clone(), record.entry.value.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&records), names(&given));
    assert_eq!(lines, given_lines);
    assert!(records.iter().all(|record| record.entry.version > before), "no version is given twice");
}

#[tokio::test]
async fn replacing_removes_what_the_snapshot_lacks() {
    let from = varied().await;
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let to = store().await;
    let [planner, _, zeta] = durable();
    sql(&to, &planner, "CREATE TABLE later (a)").await;
    set(&to, &zeta, "later", "1").await;
    let report = restored(&to, &file, &replacing()).await.unwrap();
    assert_eq!((report.entries.replaced, report.databases.replaced), (1, 1));
    same(&from, &to, &durable()).await;
}

#[tokio::test]
async fn a_dry_run_predicts_the_restore_and_writes_nothing() {
    let (from, to) = (varied().await, store().await);
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    set(&to, &scope("ada"), "own", "1").await;
    let report = restored(&to, &file, &RestoreOptions::default().with_dry_run(true)).await.unwrap();
    assert!(report.dry_run);
    assert_eq!((report.conflicts, report.entries.restored, report.databases.restored), (1, 1, 2));
    assert_eq!(report.conflicting_scopes, [scope("ada")]);
    assert_eq!(content(&to, &scope("ada")).await.0.len(), 1);
    assert!(content(&to, &durable()[0]).await.0.is_empty());
}

#[tokio::test]
async fn a_single_scope_or_tenant_can_be_restored() {
    let from = varied().await;
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let [planner, ada, zeta] = durable();
    let to = store().await;
    let report =
        restored(&to, &file, &RestoreOptions::default().with_scope(Some(ada.clone()))).await.unwrap();
    assert_eq!(report.scopes, 1);
    same(&from, &to, &[ada]).await;
    assert!(content(&to, &planner).await.0.is_empty());
    let of_zeta = RestoreOptions::default().with_tenant(Some(zeta.tenant.clone()));
    assert_eq!(restored(&to, &file, &of_zeta).await.unwrap().scopes, 1);
    same(&from, &to, &[zeta]).await;
}

#[tokio::test]
async fn expired_entries_are_left_out_and_are_no_difference() {
    let (from, to) = (store().await, store().await);
    set(&from, &scope("ada"), "stays", "1").await;
    let ttl =
        memory::SetOptions::default().with_ttl(memory::Ttl::After(std::time::Duration::from_secs(3_600)));
    kv(&from).set(&scope("ada"), &key("goes"), crate::snapshot::support::json("2"), ttl).await.unwrap();
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    set(&to, &scope("ada"), "stays", "1").await;
    let one = content(&from, &scope("ada"))
        .await
        .0
        .into_iter()
        .filter(|record| record.entry.key.as_str() == "stays");
    kv(&to).drop_scope(&scope("ada")).await.unwrap();
    crate::snapshot::support::put(&to, &scope("ada"), one.collect()).await;
    let late = RestoreOptions::default().with_now(Some(Timestamp::MAX));
    let report = restored(&to, &file, &late).await.unwrap();
    assert_eq!((report.entries.unchanged, report.records), (1, 0), "{report:?}");
}

#[tokio::test]
async fn a_scope_that_the_snapshot_skipped_is_named_and_left_alone() {
    let (from, to) = (store().await, store().await);
    set(&from, &scope("close"), "k", &format!("{:?}", "x".repeat(1_900))).await;
    set(&from, &scope("small"), "k", "1").await;
    let (file, _) = taken(&from, &SnapshotOptions::default().with_max_scope_bytes(Some(2_000))).await;
    set(&to, &scope("close"), "own", "1").await;
    let report = restored(&to, &file, &replacing()).await.unwrap();
    assert_eq!((report.skipped, report.entries.restored), (1, 1));
    assert_eq!(report.skipped_scopes[0].scope, scope("close"));
    assert_eq!(report.skipped_scopes[0].code, "too_large");
    assert!(!report.is_complete());
    assert_eq!(content(&to, &scope("close")).await.0[0].entry.key.as_str(), "own");
}

#[tokio::test]
async fn a_value_the_target_refuses_fails_only_its_scope_entirely() {
    let from = store().await;
    set(&from, &scope("a"), "k", "1").await;
    set(&from, &scope("b"), "first", "1").await;
    set(&from, &scope("b"), "long", &format!("{:?}", "x".repeat(5_000))).await;
    set(&from, &scope("c"), "k", "1").await;
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let to = memory::open("sqlite::memory:?max_value_bytes=2000").await.unwrap();
    let report = restored(&to, &file, &RestoreOptions::default()).await.unwrap();
    assert_eq!((report.entries.restored, report.failed), (2, 1));
    assert_eq!(
        (report.failed_scopes[0].scope.clone(), report.failed_scopes[0].code.as_str()),
        (scope("b"), "too_large")
    );
    assert!(content(&to, &scope("b")).await.0.is_empty(), "not one record of it is there");
}
