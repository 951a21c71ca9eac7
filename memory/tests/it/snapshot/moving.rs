use memory::snapshot::{Control, MigrateOptions, OnDifferent, migrate};
use memory_core::{ErrorKind, TenantId};

use crate::snapshot::support::{content, durable, same, scope, set, sql, store, varied};

#[tokio::test]
async fn everything_is_copied_and_verified() {
    let (from, to) = (varied().await, store().await);
    let report = migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((report.scopes, report.records, report.verified), (3, 5, 4));
    same(&from, &to, &durable()).await;
}

#[tokio::test]
async fn a_second_migration_copies_only_changes() {
    let (from, to) = (varied().await, store().await);
    migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap();
    set(&from, &scope("new"), "k", "1").await;
    let report = migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap();
    assert_eq!((report.records, report.verified), (1, 1));
    assert_eq!((report.entries.unchanged, report.databases.unchanged), (2, 2));
}

#[tokio::test]
async fn what_no_dump_contains_is_named_by_every_migration() {
    let (from, to) = (store().await, store().await);
    sql(&from, &scope("ada"), "CREATE VIRTUAL TABLE words USING fts5(body, content='')").await;
    sql(&from, &scope("ada"), "INSERT INTO words (rowid, body) VALUES (1, 'tea')").await;
    let dry = MigrateOptions::default().with_dry_run(true);
    for options in [dry, MigrateOptions::default(), MigrateOptions::default()] {
        let report = migrate(&from, &to, &options, &Control::default()).await.unwrap();
        assert!(!report.is_complete() && report.not_carried.len() == 1, "{report:?}");
    }
}

#[tokio::test]
async fn differing_scopes_are_refused_kept_or_replaced() {
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

/// SNP-24. A last run after the user was deleted in the source.
#[tokio::test]
async fn scopes_only_in_the_target_are_reported_and_removed_on_request() {
    let (from, to) = (varied().await, store().await);
    for gone in ["gone", "only-sql"].map(scope) {
        sql(&from, &gone, "CREATE TABLE t (a)").await;
    }
    set(&from, &scope("gone"), "x", "1").await;
    migrate(&from, &to, &MigrateOptions::default(), &Control::default()).await.unwrap();
    for gone in ["gone", "only-sql"].map(scope) {
        from.backend().unwrap().drop_scope(&gone).await.unwrap();
        from.sql().unwrap().drop_sql_scope(&gone).await.unwrap();
    }
    let replacing = MigrateOptions::default().with_on_different(OnDifferent::Replace);
    let report = migrate(&from, &to, &replacing, &Control::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((report.only_in_target, report.deleted_extra), (Some(2), 0));
    assert_eq!(report.only_in_target_scopes, [scope("gone"), scope("only-sql")]);
    assert_eq!(content(&to, &scope("gone")).await.0.len(), 1);

    // Limited to a scope or a tenant, others are ignored.
    let ada = replacing.clone().with_scope(Some(scope("ada")));
    assert_eq!(migrate(&from, &to, &ada, &Control::default()).await.unwrap().only_in_target, Some(0));
    let tenant = replacing.clone().with_tenant(Some(TenantId::new("zeta").unwrap())).with_delete_extra(true);
    assert_eq!(migrate(&from, &to, &tenant, &Control::default()).await.unwrap().deleted_extra, 0);

    let deleting = replacing.with_delete_extra(true);
    let dry = migrate(&from, &to, &deleting.clone().with_dry_run(true), &Control::default()).await.unwrap();
    assert_eq!((dry.only_in_target, dry.deleted_extra), (Some(2), 2));
    assert_eq!(content(&to, &scope("gone")).await.0.len(), 1, "a dry run removes nothing");
    let report = migrate(&from, &to, &deleting, &Control::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    let (records, dump) = content(&to, &scope("gone")).await;
    assert!(records.is_empty() && dump.len() < 3, "{dump:?}");
    let again = migrate(&from, &to, &deleting, &Control::default()).await.unwrap();
    assert_eq!((again.only_in_target, again.deleted_extra), (Some(0), 0));
    same(&from, &to, &durable()).await;
}
