//! Statements that end early: at their deadline, because nobody waits any more, or because the store closes.

use std::time::{Duration, Instant};

use crate::support::files::folder;
use crate::support::sql::{Sql, transaction_of, within};
use crate::support::{agent, fast};
use memory_core::ErrorKind;
use memory_core::sql::StatementOptions;
use tempfile::TempDir;

const ENDLESS: &str =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
const ENDLESS_WRITE: &str = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n LIMIT 100000000";

fn open() -> (TempDir, Sql) {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), fast());
    sql.exec("CREATE TABLE t (a)");
    sql.exec("INSERT INTO t VALUES (1)");
    (folder, sql)
}

/// Polls a future on a runtime for a while, then drops it.
fn drop_after<F: Future>(time: Duration, future: F) -> Option<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(time, future).await.ok() })
}

#[test]
fn a_dropped_statement_has_run_whole_or_not_at_all_and_lets_the_next_one_go_on() {
    let (_folder, sql) = open();
    for round in 0_u64..20 {
        let many = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000) SELECT i FROM n";
        let time = Duration::from_micros(200 * round);
        drop(drop_after(time, sql.exec_async(many, &[], StatementOptions::default())));
        sql.exec("INSERT INTO t VALUES (1)");
        let count = sql.int("SELECT count(*) FROM t");
        assert_eq!(
            (count - 1 - i64::try_from(round + 1).unwrap()) % 3_000,
            0,
            "{count} rows after round {round}"
        );
    }
    // An endless one holds its scope only as long as somebody waits for it.
    drop(drop_after(
        Duration::from_millis(50),
        sql.exec_async(ENDLESS_WRITE, &[], StatementOptions::default()),
    ));
    let began = Instant::now();
    sql.exec("INSERT INTO t VALUES (1)");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn in_a_transaction_a_reader_that_is_dropped_leaves_it_open_and_a_writer_leaves_all_or_nothing() {
    let (_folder, sql) = open();
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (2)");
    let options = || StatementOptions::default().in_tx(tx.clone());
    let endless = sql.facet().query(&sql.run, &sql.scope, ENDLESS, &[], options());
    assert!(drop_after(Duration::from_millis(50), endless).is_none());
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 2);
    assert!(drop_after(Duration::from_millis(50), sql.exec_async(ENDLESS_WRITE, &[], options())).is_none());
    // The engine may have rolled all of it back, which is then reported.
    match sql.try_exec_in(&tx, "INSERT INTO t VALUES (3)") {
        Ok(_) => {
            assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 3);
            sql.commit(&tx).unwrap();
            assert_eq!(sql.int("SELECT count(*) FROM t"), 3);
        }
        Err(error) => {
            assert_eq!((error.kind(), transaction_of(&error)), (ErrorKind::TransactionLost, Some("lost")));
            assert_eq!(sql.int("SELECT count(*) FROM t"), 1);
        }
    }
}

#[test]
fn one_scopes_endless_queries_leave_threads_for_the_others() {
    let mut config = fast();
    config.sql.workers = 3;
    config.sql.readers_per_scope = 2;
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), config);
    sql.exec("CREATE TABLE t (a)");
    std::thread::scope(|threads| {
        for _ in 0..6 {
            threads.spawn(|| sql.try_query_with(ENDLESS, &[], within(Duration::from_secs(600))).unwrap_err());
        }
        std::thread::sleep(Duration::from_millis(50));
        // It has a shorter deadline than the others.
        let other = sql.at(agent("bob")).try_query_with("SELECT 1", &[], within(Duration::from_secs(60)));
        sql.clone().close();
        other.unwrap();
    });
}

#[test]
fn closing_ends_what_runs() {
    let (_folder, sql) = open();
    let began = Instant::now();
    let error = std::thread::scope(|threads| {
        let endless = threads.spawn(|| sql.try_query(ENDLESS).unwrap_err());
        std::thread::sleep(Duration::from_millis(100));
        sql.clone().close();
        endless.join().unwrap()
    });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_ne!(error.kind(), ErrorKind::Internal, "{error:?}");
    assert_eq!(sql.try_exec("SELECT 1").unwrap_err().kind(), ErrorKind::Unavailable);
}
