//! Transactions: their levels, limits and ends; their state is always known and reported.

use std::time::{Duration, Instant};

use crate::support::files::folder;
use crate::support::sql::Sql;
use crate::support::{agent, eventually, fast, poll_once};
use memory_sqlite::SqliteConfig;
use tempfile::TempDir;

fn open(config: SqliteConfig) -> (TempDir, Sql) {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), config);
    sql.exec("CREATE TABLE t (a INTEGER UNIQUE)");
    (folder, sql)
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
fn a_begin_that_nobody_waits_for_leaves_nothing_open() {
    let (_folder, sql) = open(fast());
    for _ in 0..200 {
        let begin = sql.facet().begin(&sql.run, &sql.scope, None);
        // Occasionally it is answered at once.
        if let Some(begun) = poll_once(begin) {
            sql.rollback(&begun.unwrap().tx).unwrap();
        }
    }
    // If one had been left open, this would wait until its idle limit.
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
