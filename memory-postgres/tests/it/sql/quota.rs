//! Quota: one huge statement is cancelled soon after exceeding it, however it writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use memory_core::sql::{SqlFacet as _, StatementOptions};
use memory_core::{ErrorKind, Scope};
use memory_postgres::PostgresProvider;

use crate::support;
use crate::support::sql;

const QUOTA: u64 = 8 << 20;
/// How far a statement may exceed its quota before it is cancelled.
const OVERSHOOT: i64 = 64 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn one_huge_statement_is_cancelled_soon_after_the_quota() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let scope = Scope::agent("t", "greedy").unwrap();
    let run = sql::run_of(&scope);
    let mut options = StatementOptions::default();
    options.quota_bytes = Some(QUOTA);
    options.timeout = Some(Duration::from_secs(60));
    provider.exec(&run, &scope, "CREATE TABLE t (n bigint, v text)", &[], options.clone()).await.unwrap();
    for (what, sql) in [
        (
            "rows of a table",
            "INSERT INTO t SELECT a * b, repeat(md5((a * b)::text), 8) FROM generate_series(1, 5000) a, generate_series(1, 10000) b",
        ),
        (
            "long texts",
            "INSERT INTO t SELECT g, (SELECT string_agg(md5((g * i)::text), '') FROM generate_series(1, 300) i) FROM generate_series(1, 500000) g",
        ),
        (
            "a new table",
            "CREATE TABLE u AS SELECT a * b AS n, repeat(md5((a * b)::text), 8) AS v FROM generate_series(1, 5000) a, generate_series(1, 10000) b",
        ),
        (
            "a materialised view",
            "CREATE MATERIALIZED VIEW m AS SELECT a * b AS n, repeat(md5((a * b)::text), 8) AS v FROM generate_series(1, 5000) a, generate_series(1, 10000) b",
        ),
    ] {
        let most = Arc::new(AtomicI64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let client = place.client().await;
        let (seen, ends) = (Arc::clone(&most), Arc::clone(&over));
        let before: i64 =
            client.query_one("SELECT pg_database_size(current_database())", &[]).await.unwrap().get(0);
        let watch = tokio::spawn(async move {
            while !ends.load(Ordering::Acquire) {
                let now: i64 = client
                    .query_one("SELECT pg_database_size(current_database())", &[])
                    .await
                    .unwrap()
                    .get(0);
                seen.fetch_max(now - before, Ordering::AcqRel);
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        });
        let begun = std::time::Instant::now();
        let error = provider.exec(&run, &scope, sql, &[], options.clone()).await.unwrap_err();
        over.store(true, Ordering::Release);
        watch.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{what}: {error}");
        let overshoot = most.load(Ordering::Acquire) - i64::try_from(QUOTA).unwrap();
        println!(
            "{what}: {} KiB over a quota of {} KiB, ended after {:?}",
            overshoot >> 10,
            QUOTA >> 10,
            begun.elapsed()
        );
        assert!(overshoot <= OVERSHOOT, "{what}: {overshoot} bytes over the quota");
        let bytes = provider.sql_usage(&scope).await.unwrap().bytes;
        assert!(bytes <= QUOTA, "{what}: {bytes} bytes are said to be used of {QUOTA}");
        let rows =
            provider.query(&run, &scope, "SELECT count(*) FROM t", &[], options.clone()).await.unwrap();
        assert_eq!(serde_json::to_string(&rows.rows).unwrap(), "[[0]]", "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_count_against_the_quota() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let scope = Scope::agent("t", "verbose").unwrap();
    let list = |count: usize, of: &str| {
        (0..count).map(|at| of.replace('#', &at.to_string())).collect::<Vec<_>>().join(", ")
    };
    let long = "x".repeat(100_000);
    let mut before = 0;
    for (sql, least) in [
        ("CREATE TABLE t (a text, b text, CONSTRAINT c CHECK (a <> ''))".to_owned(), 8_192),
        (format!("CREATE TYPE e AS ENUM ({})", list(1_000, "'label #'")), 150_000),
        (format!("CREATE TYPE r AS ({})", list(1_000, "c# int")), 150_000),
        // Stored compressed.
        (
            format!("ALTER TABLE t ADD CONSTRAINT d CHECK (b NOT IN ({}))", list(1_000, "'value # of many'")),
            4_000,
        ),
        (format!("COMMENT ON CONSTRAINT c ON t IS '{long}'"), 100_000),
        ("CREATE INDEX i ON t (a)".to_owned(), 8_192),
        (format!("COMMENT ON INDEX i IS '{long}'"), 100_000),
        (format!("COMMENT ON COLUMN t.a IS '{long}'"), 100_000),
    ] {
        sql::exec(&provider, &scope, &sql).await.unwrap();
        let bytes = provider.sql_usage(&scope).await.unwrap().bytes;
        let what: String = sql.chars().take(30).collect();
        assert!((least..4 * least + 200_000).contains(&(bytes - before)), "{what}: {} bytes", bytes - before);
        before = bytes;
    }
    let mut options = StatementOptions::default();
    options.quota_bytes = Some(before + 50_000);
    let more = format!("CREATE TYPE f AS ENUM ({})", list(1_000, "'label #'"));
    let error = provider.exec(&sql::run_of(&scope), &scope, &more, &[], options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_transaction_does_not_use_up_the_server_s_locks() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let (scope, other) = (Scope::agent("t", "greedy").unwrap(), Scope::agent("t", "modest").unwrap());
    let run = sql::run_of(&scope);
    let state = provider.begin(&run, &scope, None).await.unwrap();
    let options = || StatementOptions::default().in_tx(state.tx.clone());
    let columns = (0..200).map(|at| format!("c{at} int UNIQUE")).collect::<Vec<_>>().join(", ");
    let mut made = 0;
    let error = loop {
        let sql = format!("CREATE TABLE t{made} ({columns})");
        match provider.exec(&run, &scope, &sql, &[], options()).await {
            Ok(_) if made < 200 => made += 1,
            done => break done.expect_err("there is no end to it"),
        }
    };
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(error.details().get("transaction").and_then(|told| told.as_str()), Some("open"), "{error}");
    sql::exec(&provider, &other, "CREATE TABLE t (n int)").await.unwrap();
    provider.exec(&run, &scope, "INSERT INTO t0 DEFAULT VALUES", &[], options()).await.unwrap();
    provider.exec(&run, &scope, "DROP TABLE t0", &[], options()).await.unwrap();
    provider.commit(&run, &scope, &state.tx).await.unwrap();
    sql::exec(&provider, &scope, &format!("CREATE TABLE more ({columns})")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_has_no_more_objects_than_can_be_dropped_at_once() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let scope = Scope::agent("t", "sprawling").unwrap();
    let columns =
        (0..700).map(|at| format!("c{at} int DEFAULT 1 CHECK (c{at} > 0)")).collect::<Vec<_>>().join(", ");
    let mut made = 0;
    let error = loop {
        match sql::exec(&provider, &scope, &format!("CREATE TABLE t{made} ({columns})")).await {
            Ok(_) if made < 200 => made += 1,
            done => break done.expect_err("there is no end to it"),
        }
    };
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.message().contains("drop some first"), "{error}");
    sql::exec(&provider, &scope, "DROP TABLE t0").await.unwrap();
    sql::exec(&provider, &scope, &format!("CREATE TABLE more ({columns})")).await.unwrap();
    assert!(provider.drop_sql_scope(&scope).await.unwrap());
}
