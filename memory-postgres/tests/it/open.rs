//! Opening a database: tables are created once, by the first to come, and a newer version's are not touched.

use memory_core::{Backend as _, ErrorKind, HealthStatus, Json, Key, Provider as _, Scope, SetOptions};
use memory_postgres::{PostgresConfig, PostgresProvider, Prepared};

use crate::support::Database;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_opens_again_and_again() {
    let Some(database) = Database::fresh().await else { return };
    for prepared in [Prepared::On, Prepared::Off, Prepared::On] {
        let provider = PostgresProvider::open(database.config().with_prepared(prepared)).await.unwrap();
        assert_eq!(provider.health().await.unwrap().status, HealthStatus::Ok);
        provider.close().await.unwrap();
        assert_eq!(provider.health().await.unwrap().status, HealthStatus::Down);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_reports_tables_that_were_dropped_while_open() {
    let Some(database) = Database::fresh().await else { return };
    let provider = PostgresProvider::open(database.config()).await.unwrap();
    assert_eq!(provider.health().await.unwrap().status, HealthStatus::Ok);
    database.client().await.batch_execute("DROP SCHEMA memory CASCADE").await.unwrap();
    let health = provider.health().await.unwrap();
    assert_eq!(health.status, HealthStatus::Down);
    assert!(health.message.contains("tables are missing"), "{}", health.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_open_at_once_create_the_tables_once() {
    let Some(database) = Database::fresh().await else { return };
    let opening: Vec<_> = (0..8).map(|_| tokio::spawn(PostgresProvider::open(database.config()))).collect();
    for provider in opening {
        provider.await.unwrap().unwrap();
    }
    let applied = database.client().await;
    let rows = applied.query("SELECT part, version FROM memory.migration", &[]).await.unwrap();
    let mut parts: Vec<(String, i32)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    parts.sort();
    parts.dedup();
    assert_eq!(parts.len(), rows.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_newer_version_are_refused_and_stay() {
    let Some(database) = Database::fresh().await else { return };
    PostgresProvider::open(database.config()).await.unwrap().close().await.unwrap();
    let client = database.client().await;
    client
        .batch_execute("INSERT INTO memory.migration (part, version) VALUES ('entries', 9999)")
        .await
        .unwrap();
    let error = PostgresProvider::open(database.config()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.details()["database_version"], 9999);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_tables_are_reported_without_the_right_to_create_them() {
    let Some(database) = Database::fresh().await else { return };
    let error = PostgresProvider::open(database.config().with_migrate(false)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("provision"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_writes_is_not_called_unreachable() {
    let Some(database) = Database::fresh().await else { return };
    let read_only = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); \
                     END $$";
    database.client().await.batch_execute(read_only).await.unwrap();
    let config = database.config().with_wait_timeout(std::time::Duration::from_millis(200));
    let error = PostgresProvider::open(config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("read-only") && error.message().contains("primary"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_server_is_unavailable_and_no_secret_is_shown() {
    let nobody = PostgresConfig::new("postgres://app:hunter2@127.0.0.1:1/memory")
        .with_wait_timeout(std::time::Duration::from_millis(200));
    let error = PostgresProvider::open(nobody).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.retry().is_retryable());
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_is_not_found() {
    let Some(database) = Database::fresh().await else { return };
    let url = memory_fakes::postgres::with_database(&database.url(), "no_such_database");
    let error = PostgresProvider::open(PostgresConfig::new(url)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_leaves_a_connection_to_others() {
    let Some(database) = Database::fresh().await else { return };
    let scope = Scope::agent("public", "pool").unwrap();
    for connections in [1, 2] {
        let config = database.config().with_pool_size(connections);
        let provider = PostgresProvider::open(config).await.unwrap();
        let mut open = Vec::new();
        for _ in 1..connections {
            open.push(provider.read_snapshot().await.unwrap());
        }
        let error = provider.read_snapshot().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("`pool_size`"), "{error}");
        let key = Key::new("key").unwrap();
        provider.set(&scope, &key, Json::null(), SetOptions::default()).await.unwrap();
        for snapshot in open {
            snapshot.tenants(None, 10).await.unwrap();
        }
    }
}
