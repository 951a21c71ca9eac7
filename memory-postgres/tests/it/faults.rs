//! A server that dies, hangs or is full during operations: the errors, and recovery.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{BackendExt as _, EraseTarget, ErrorKind, HealthStatus, Json, Key, Provider as _, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider};

use crate::support;
use crate::support::server::{self, Server};

fn scope() -> Scope {
    Scope::agent("acme", "faults").unwrap()
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Blocks every writer of entries while it lives, so that a write stays in progress.
async fn hold_up(url: &str) -> tokio_postgres::Client {
    let client = support::connect(url).await;
    client.batch_execute("BEGIN; LOCK TABLE memory.entry IN ACCESS EXCLUSIVE MODE").await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_in_progress_when_the_server_dies_has_an_unknown_outcome() {
    let Some(programs) = server::programs(server::PROGRAMS) else { return };
    let mut server = Server::new(&programs);
    server.start();
    let config = PostgresConfig::new(server.url("postgres")).with_wait_timeout(Duration::from_secs(2));
    let provider = Arc::new(PostgresProvider::open(config).await.unwrap());
    provider.put(&scope(), &key("before"), json("1")).await.unwrap();

    let holder = hold_up(&server.url("postgres")).await;
    let writing = {
        let provider = Arc::clone(&provider);
        tokio::spawn(async move { provider.put(&scope(), &key("during"), json("2")).await })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.kill();
    drop(holder);
    assert_eq!(writing.await.unwrap().unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let error = provider.value(&scope(), &key("before")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(provider.health().await.unwrap().status, HealthStatus::Down);

    server.start();
    assert_eq!(provider.value(&scope(), &key("before")).await.unwrap().unwrap().as_str(), "1");
    assert!(provider.value(&scope(), &key("during")).await.unwrap().is_none());
    provider.put(&scope(), &key("after"), json("3")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_waits_too_long_is_cancelled_and_says_that_nothing_was_written() {
    let Some(database) = support::Database::fresh().await else { return };
    let config = database.config().with_statement_timeout(Duration::from_millis(400));
    let provider = PostgresProvider::open(config).await.unwrap();
    let holder = hold_up(&database.url()).await;
    let started = Instant::now();
    let error = provider.put(&scope(), &key("k"), json("1")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(25));
    drop(holder);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(provider.value(&scope(), &key("k")).await.unwrap().is_none());
    provider.put(&scope(), &key("k"), json("2")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_closed_by_an_administrator_are_reopened() {
    let Some(database) = support::Database::fresh().await else { return };
    let provider = PostgresProvider::open(database.config()).await.unwrap();
    provider.put(&scope(), &key("k"), json("1")).await.unwrap();
    let admin = database.client().await;
    for round in 0..3 {
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                     WHERE datname = current_database() AND pid <> pg_backend_pid()";
        assert!(admin.query_one(ended, &[]).await.unwrap().get::<_, i64>(0) > 0);
        tokio::time::sleep(Duration::from_millis(100)).await;
        provider.put(&scope(), &key("k"), json(&round.to_string())).await.unwrap();
        assert_eq!(provider.value(&scope(), &key("k")).await.unwrap().unwrap().as_str(), round.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_does_not_harm_the_next() {
    let Some(database) = support::Database::fresh().await else { return };
    let provider = PostgresProvider::open(database.config().with_pool_size(2)).await.unwrap();
    let holder = hold_up(&database.url()).await;
    for number in 0..6 {
        let (scope, key) = (scope(), key(&number.to_string()));
        let writing = provider.put(&scope, &key, json("1"));
        assert!(tokio::time::timeout(Duration::from_millis(50), writing).await.is_err());
    }
    holder.batch_execute("ROLLBACK").await.unwrap();
    provider.put(&scope(), &key("k"), json("1")).await.unwrap();
    assert_eq!(provider.value(&scope(), &key("k")).await.unwrap().unwrap().as_str(), "1");
}

/// The server runs what was sent to its end, and only then rolls back.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_given_up_holds_up_nobody_else() {
    let Some(database) = support::Database::fresh().await else { return };
    let provider = PostgresProvider::open(database.config().with_pool_size(1)).await.unwrap();
    let held = Scope::agent("acme", "held").unwrap();
    provider.put(&held, &key("k"), json("1")).await.unwrap();
    let holder = database.client().await;
    holder.batch_execute("BEGIN; SELECT FROM memory.scope WHERE name = 'held' FOR UPDATE").await.unwrap();
    let target = EraseTarget::Scope(held);
    let erasing = provider.erase(&target);
    assert!(tokio::time::timeout(Duration::from_millis(300), erasing).await.is_err());
    let (scope, key) = (scope(), key("k"));
    let writing = provider.put(&scope, &key, json("2"));
    tokio::time::timeout(Duration::from_secs(15), writing).await.expect("it waits for another's").unwrap();
    holder.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_does_not_block_a_caller_for_ever() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url =
        format!("postgres://app:hunter2@{}/memory?connect_timeout_ms=200", listener.local_addr().unwrap());
    let config = PostgresConfig::from_url(&url).unwrap().with_wait_timeout(Duration::from_millis(600));
    let started = Instant::now();
    let error = PostgresProvider::open(config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}
