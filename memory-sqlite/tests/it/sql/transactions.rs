//! Transactions: their levels, their limits, their ends; their state is always known and told.

use std::time::{Duration, Instant};

use crate::support::files::folder;
use crate::support::sql::{Sql, transaction_of, within};
use crate::support::{agent, block_on, eventually, fast, poll_once};
use memory_core::ErrorKind;
use memory_core::sql::{StatementOptions, TxId};
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
fn what_a_transaction_wrote_is_seen_by_others_once_it_commits() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 1);
    assert_eq!(sql.int("SELECT count(*) FROM t"), 0);
    assert_eq!(sql.commit(&tx).unwrap().depth, 0);
    assert_eq!(sql.int("SELECT count(*) FROM t"), 1);
}

#[test]
fn what_is_rolled_back_was_never_there() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    sql.exec_in(&tx, "CREATE TABLE u (b)");
    assert_eq!(sql.rollback(&tx).unwrap().depth, 0);
    assert_eq!(sql.int("SELECT count(*) FROM t"), 0);
    assert_eq!(sql.tables(), ["t"]);
}

#[test]
fn savepoints_nest_and_each_call_ends_the_innermost() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    let inner = sql.try_begin(Some(&tx)).unwrap();
    assert_eq!((&inner.tx, inner.depth), (&tx, 2));
    sql.exec_in(&tx, "INSERT INTO t VALUES (2)");
    assert_eq!(sql.try_begin(Some(&tx)).unwrap().depth, 3);
    sql.exec_in(&tx, "INSERT INTO t VALUES (3)");
    assert_eq!(sql.commit(&tx).unwrap().depth, 2);
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 3);
    assert_eq!(sql.rollback(&tx).unwrap().depth, 1);
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 1);
    assert_eq!(sql.commit(&tx).unwrap().depth, 0);
    assert_eq!(sql.int("SELECT sum(a) FROM t"), 1);
}

#[test]
fn there_are_seventeen_levels_and_the_eighteenth_leaves_them_as_they_are() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    for depth in 2..=17 {
        assert_eq!(sql.try_begin(Some(&tx)).unwrap().depth, depth);
        sql.exec_in(&tx, &format!("INSERT INTO t VALUES ({depth})"));
    }
    let error = sql.try_begin(Some(&tx)).unwrap_err();
    assert_eq!((error.kind(), transaction_of(&error)), (ErrorKind::TransactionLimit, Some("open")));
    for depth in (0..=16).rev() {
        assert_eq!(sql.commit(&tx).unwrap().depth, depth);
    }
    assert_eq!(sql.int("SELECT count(*) FROM t"), 16);
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
fn an_unknown_ended_or_foreign_transaction_is_lost_and_nothing_runs() {
    let (_folder, sql) = open(fast());
    let ended = sql.begin();
    sql.commit(&ended).unwrap();
    let open = sql.begin();
    let other = sql.at(agent("bob"));
    for (who, tx) in [(&sql, &TxId::new("tx-0")), (&sql, &TxId::new("")), (&sql, &ended), (&other, &open)] {
        let statement = who.try_exec_in(tx, "CREATE TABLE x (a)").unwrap_err();
        let errors = [
            statement,
            who.commit(tx).unwrap_err(),
            who.rollback(tx).unwrap_err(),
            who.try_begin(Some(tx)).unwrap_err(),
        ];
        for error in errors {
            assert_eq!((error.kind(), transaction_of(&error)), (ErrorKind::TransactionLost, Some("lost")));
        }
    }
    sql.rollback(&open).unwrap();
    assert_eq!(sql.tables(), ["t"]);
    assert!(other.tables().is_empty());
}

#[test]
fn another_run_takes_part_by_naming_it() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    let child = sql.by_run("run-2");
    child.exec_in(&tx, "INSERT INTO t VALUES (1)");
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 1);
    child.commit(&tx).unwrap();
    assert_eq!(sql.int("SELECT count(*) FROM t"), 1);
}

#[test]
fn a_statement_that_fails_undoes_itself_alone() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    for bad in [
        "INSERT INTO t VALUES (2), (3), (1)",
        "INSERT OR FAIL INTO t VALUES (4), (5), (1)",
        "INSERT INTO missing VALUES (1)",
        "SELEKT 1",
        "PRAGMA user_version = 4",
    ] {
        let error = sql.try_exec_in(&tx, bad).unwrap_err();
        assert_eq!(transaction_of(&error), Some("open"), "{bad}: {error:?}");
    }
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 1);
    sql.commit(&tx).unwrap();
    assert_eq!(sql.int("SELECT sum(a) FROM t"), 1);
}

#[test]
fn no_statement_of_an_agents_ends_a_transaction() {
    let (_folder, sql) = open(fast());
    sql.exec("CREATE TABLE r (a)");
    let _ = sql.try_exec("CREATE TRIGGER back BEFORE INSERT ON r BEGIN SELECT RAISE(ROLLBACK, 'no'); END");
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    for sly in [
        "COMMIT",
        "END",
        "ROLLBACK",
        "SAVEPOINT x",
        "RELEASE mem_0",
        "ROLLBACK TO mem_0",
        "BEGIN",
        "INSERT OR ROLLBACK INTO t VALUES (1)",
        "UPDATE OR ROLLBACK t SET a = 1",
    ] {
        let error = sql.try_exec_in(&tx, sly).unwrap_err();
        assert_eq!(
            (error.kind(), transaction_of(&error)),
            (ErrorKind::StatementRefused, Some("open")),
            "{sly}"
        );
    }
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 1);
    sql.commit(&tx).unwrap();
}

#[test]
fn a_constraint_that_does_not_hold_at_commit_leaves_the_transaction_open() {
    let (_folder, sql) = open(fast());
    sql.exec("CREATE TABLE parent (id INTEGER PRIMARY KEY)");
    sql.exec("CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED)");
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO child VALUES (7)");
    let error = sql.commit(&tx).unwrap_err();
    assert_eq!(
        (error.kind(), transaction_of(&error)),
        (ErrorKind::InvalidArgument, Some("open")),
        "{error:?}"
    );
    sql.exec_in(&tx, "INSERT INTO parent VALUES (7)");
    assert_eq!(sql.commit(&tx).unwrap().depth, 0);
    assert_eq!(sql.int("SELECT count(*) FROM child"), 1);
}

#[test]
fn a_query_in_a_transaction_only_reads() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    let options = StatementOptions::default().in_tx(tx.clone());
    let error = sql.try_query_with("INSERT INTO t VALUES (1) RETURNING a", &[], options).unwrap_err();
    assert_eq!((error.kind(), transaction_of(&error)), (ErrorKind::ReadOnly, Some("open")));
    assert_eq!(sql.int_in(&tx, "SELECT count(*) FROM t"), 0);
}

#[test]
fn readers_go_on_and_a_writer_waits_until_its_deadline() {
    let (_folder, sql) = open(fast());
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    assert_eq!(sql.int("SELECT count(*) FROM t"), 0);
    let began = Instant::now();
    let waits = sql.exec_async("INSERT INTO t VALUES (2)", &[], within(Duration::from_millis(60)));
    let error = block_on(waits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(began.elapsed() >= Duration::from_millis(60));
    sql.commit(&tx).unwrap();
    sql.exec("INSERT INTO t VALUES (2)");
    assert_eq!(sql.int("SELECT count(*) FROM t"), 2);
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
fn the_end_of_a_run_rolls_back_its_transactions_in_every_scope_and_no_others() {
    let (_folder, sql) = open(fast());
    let in_run_scope = sql.at(sql.run_scope());
    in_run_scope.exec("CREATE TABLE scratch (a)");
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES (1)");
    let other = sql.at(agent("bob")).by_run("run-2");
    other.exec("CREATE TABLE t (a)");
    let others = other.begin();
    sql.end_run();
    assert_eq!(sql.try_exec_in(&tx, "SELECT 1").unwrap_err().kind(), ErrorKind::TransactionLost);
    sql.exec("INSERT INTO t VALUES (2)");
    assert_eq!(sql.int("SELECT sum(a) FROM t"), 2);
    other.exec_in(&others, "INSERT INTO t VALUES (1)");
    other.commit(&others).unwrap();
    assert!(in_run_scope.tables().is_empty());
    assert!(!sql.scopes().contains(&sql.run_scope()));
    sql.end_run();
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
