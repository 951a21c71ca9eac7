use memory::snapshot::{Control, MigrateOptions, OnDifferent, migrate};
use memory_core::ErrorKind;

use crate::support::{content, durable, same, scope, set, sql, store, varied};

#[tokio::test]
async fn everything_is_copied_and_found_the_same() {
    let (from, to) = (varied().await, store().await);
    let report = migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((report.scopes, report.records, report.verified), (3, 5, 4));
    same(&from, &to, &durable()).await;
}

#[tokio::test]
async fn a_second_move_copies_what_is_new_alone() {
    let (from, to) = (varied().await, store().await);
    migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap();
    set(&from, &scope("new"), "k", "1").await;
    let report = migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap();
    assert_eq!((report.records, report.verified), (1, 1));
    assert_eq!((report.entries.unchanged, report.databases.unchanged), (2, 2));
}

#[tokio::test]
async fn what_is_different_is_refused_kept_or_replaced_as_was_chosen() {
    let (from, to) = (varied().await, store().await);
    set(&to, &scope("ada"), "own", "1").await;
    sql(&to, &scope("ada"), "CREATE TABLE own (a)").await;
    let refusing = migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap_err();
    assert_eq!(refusing.kind(), ErrorKind::Conflict);
    assert!(content(&to, &durable()[0]).await.0.is_empty(), "nothing at all is written");
    let dry = MigrateOptions::default().with_dry_run(true);
    let report = migrate(&from, &to, &dry, &Control::default()).await.unwrap();
    assert_eq!((report.conflicts, report.entries.restored), (1, 1));
    let skipping = MigrateOptions::default().with_on_different(OnDifferent::Skip);
    let report = migrate(&from, &to, &skipping, &Control::default()).await.unwrap();
    assert_eq!((report.entries.kept, report.databases.kept), (1, 1));
    assert_eq!(content(&to, &scope("ada")).await.0.len(), 1);
    let replacing = MigrateOptions::default().with_on_different(OnDifferent::Replace);
    let report = migrate(&from, &to, &replacing, &Control::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((report.entries.replaced, report.databases.replaced, report.verified), (1, 1, 2));
}
