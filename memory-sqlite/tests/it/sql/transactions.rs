//! Transactions: their levels, their limits, their ends; their state is always known and told.

use std::time::{Duration, Instant};

use crate::support::files::folder;
use crate::support::sql::Sql;
use crate::support::{agent, eventually, fast, poll_once};
use memory_core::ErrorKind;
use memory_core::sql::TxId;
use memory_sqlite::SqliteConfig;
use tempfile::TempDir;

fn open(config: SqliteConfig) -> (TempDir, Sql) {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), config);
    sql.exec("CREATE TABLE t (a INTEGER UNIQUE)");
    (folder, sql)
}

fn idle(millis: u64) -> SqliteConfig {
    let mut config = fast();
    config.sql.tx_idle_ms = millis;
    config
}

#[test]
fn sixty_four_transactions_may_be_open_and_ending_one_makes_room() {
    let (_folder, sql) = open(fast());
    let at = |number: usize| sql.at(agent(&format!("agent-{number}")));
    let open: Vec<(Sql, TxId)> = (0..64).map(|number| (at(number), at(number).begin())).collect();
    assert_eq!(at(64).try_begin(None).unwrap_err().kind(), ErrorKind::TransactionLimit);
    open[10].0.rollback(&open[10].1).unwrap();
    let tx = at(64).begin();
    at(64).exec_in(&tx, "CREATE TABLE t (a)");
    for (sql, tx) in open.iter().filter(|(_, tx)| *tx != open[10].1) {
        sql.exec_in(tx, "CREATE TABLE mine (a)");
        sql.commit(tx).unwrap();
    }
    at(64).commit(&tx).unwrap();
    assert_eq!(sql.scopes().len(), 65);
}

#[test]
fn writers_that_wait_take_no_thread_and_go_on_in_their_order() {
    let mut config = fast();
    config.sql.workers = 1;
    let (_folder, sql) = open(config);
    let tx = sql.begin();
    std::thread::scope(|threads| {
        let waiting: Vec<_> = (0..8)
            .map(|number| {
                let sql = sql.clone();
                threads.spawn(move || sql.exec(&format!("INSERT INTO t VALUES ({number})")))
            })
            .collect();
        // The one thread is free for the transaction, and for readers.
        for number in 100..120 {
            sql.exec_in(&tx, &format!("INSERT INTO t VALUES ({number})"));
            assert_eq!(sql.int("SELECT count(*) FROM t"), 0);
        }
        sql.commit(&tx).unwrap();
        waiting.into_iter().for_each(|writer| drop(writer.join().unwrap()));
    });
    assert_eq!(sql.int("SELECT count(*) FROM t"), 28);
}

#[test]
fn an_idle_transaction_is_rolled_back_and_each_use_begins_the_time_anew() {
    let (_folder, sql) = open(idle(400));
    let used = sql.begin();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(900) {
        sql.int_in(&used, "SELECT count(*) FROM t");
        std::thread::sleep(Duration::from_millis(20));
    }
    sql.exec_in(&used, "INSERT INTO t VALUES (1)");
    // Nobody uses it any more: the next writer need not wait for long.
    sql.exec("INSERT INTO t VALUES (2)");
    let error = sql.try_exec_in(&used, "INSERT INTO t VALUES (3)").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionLost);
    assert!(error.message().contains("too long"), "{error}");
    assert_eq!(sql.int("SELECT sum(a) FROM t"), 2);
}

#[test]
fn a_begin_that_nobody_waits_for_leaves_nothing_open() {
    let (_folder, sql) = open(fast());
    for _ in 0..200 {
        let begin = sql.facet().begin(&sql.run, &sql.scope, None);
        // Now and then it is answered at once.
        if let Some(begun) = poll_once(begin) {
            sql.rollback(&begun.unwrap().tx).unwrap();
        }
    }
    // Had one been left open, this would wait until it is idle for too long.
    let began = Instant::now();
    sql.exec("INSERT INTO t VALUES (1)");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    eventually("64 transactions may be begun again", || {
        let open: Vec<_> =
            (0..64).map(|number| sql.at(agent(&format!("a{number}"))).try_begin(None)).collect();
        let all = open.iter().all(Result::is_ok);
        for (number, begun) in open.into_iter().enumerate() {
            if let Ok(begun) = begun {
                sql.at(agent(&format!("a{number}"))).rollback(&begun.tx).unwrap();
            }
        }
        all.then_some(())
    });
}

#[test]
fn names_are_never_given_twice() {
    let folder = folder();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let sql = Sql::open(&folder.path().join("memory.db"), fast());
        for _ in 0..20 {
            let tx = sql.begin();
            sql.rollback(&tx).unwrap();
            assert!(seen.insert(tx.as_str().to_owned()));
        }
    }
}
