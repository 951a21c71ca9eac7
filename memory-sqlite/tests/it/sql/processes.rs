//! Several processes on one scope's database, and processes that die.

use std::path::Path;
use std::time::Duration;

use crate::support::child::{self, Child};
use crate::support::files::place;
use crate::support::sql::{Sql, within};
use crate::support::{block_on, quiet};
use memory_core::ErrorKind;
use memory_core::sql::TxId;
use memory_sqlite::Durability;

fn open(path: &Path) -> Sql {
    Sql::open(path, quiet())
}

/// The child: executes commands, line by line.
fn obey() {
    let sql = open(Path::new(&child::given("DATABASE")));
    let mut tx: Option<TxId> = None;
    child::say("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (order, text) = line.split_once(' ').unwrap_or((&line, ""));
        let told = match order {
            "exec" => sql.try_exec(text).map(|done| done.rows_affected.to_string()),
            "count" => Ok(sql.int(text).to_string()),
            "begin" => sql.try_begin(None).map(|begun| {
                tx = Some(begun.tx);
                "begun".to_owned()
            }),
            "in" => sql.try_exec_in(tx.as_ref().unwrap(), text).map(|done| done.rows_affected.to_string()),
            "commit" => sql.commit(tx.as_ref().unwrap()).map(|state| state.depth.to_string()),
            "drop" => Ok(sql.drop_scope().to_string()),
            other => panic!("no such order: {other}"),
        };
        child::say(&told.unwrap_or_else(|error| error.kind().code().to_owned()));
    }
    sql.close();
}

#[test]
fn another_processs_writer_is_awaited_within_the_deadline() {
    if child::role().is_some() {
        return obey();
    }
    let (_folder, path) = place();
    let sql = open(&path);
    sql.exec("CREATE TABLE t (a)");
    let mut other = Child::obedient(child::this_test!(), &path);
    assert_eq!(other.ask("begin"), "begun");
    assert_eq!(other.ask("in INSERT INTO t VALUES (1)"), "1");
    let error = block_on(sql.exec_async("INSERT INTO t VALUES (2)", &[], within(Duration::from_millis(80))));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(sql.int("SELECT count(*) FROM t"), 0);
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| sql.exec("INSERT INTO t VALUES (3)"));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(other.ask("commit"), "0");
        waits.join().unwrap();
    });
    assert_eq!(other.ask("count SELECT sum(a) FROM t"), "4");
    other.end();
}

#[test]
fn connections_to_a_dropped_database_move_to_the_new_one() {
    if child::role().is_some() {
        return obey();
    }
    let (_folder, path) = place();
    let sql = open(&path);
    let mut other = Child::obedient(child::this_test!(), &path);
    for round in 0..10 {
        assert_eq!(other.ask(&format!("exec CREATE TABLE old{round} (a)")), "0");
        assert_eq!(other.ask(&format!("count SELECT count(*) FROM old{round}")), "0");
        assert!(sql.drop_scope());
        // It reads and writes the current database, not the one it has open.
        assert_eq!(other.ask(&format!("exec INSERT INTO old{round} VALUES (1)")), "invalid_argument");
        sql.exec("CREATE TABLE new (a)");
        assert_eq!(other.ask("exec INSERT INTO new VALUES (1)"), "1");
        assert_eq!(sql.int("SELECT count(*) FROM new"), 1);
        assert_eq!(other.ask("drop"), "true");
        assert!(sql.tables().is_empty());
    }
    // Another process's open transaction delays the drop, since it is older.
    sql.exec("CREATE TABLE t (a)");
    assert_eq!(other.ask("begin"), "begun");
    assert_eq!(other.ask("in INSERT INTO t VALUES (1)"), "1");
    std::thread::scope(|threads| {
        let drops = threads.spawn(|| sql.drop_scope());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(other.ask("commit"), "0");
        assert!(drops.join().unwrap());
    });
    assert_eq!(other.ask("exec INSERT INTO t VALUES (2)"), "invalid_argument");
    other.end();
}

/// Adds a row to two tables in each transaction, and reports each commit.
fn write_until_killed() {
    let sql = open(Path::new(&child::given("DATABASE")));
    let from = child::number("FROM");
    child::say("ready");
    for number in from.. {
        let tx = sql.begin();
        sql.exec_in(&tx, &format!("INSERT INTO a VALUES ({number}, hex(zeroblob(3000)))"));
        sql.try_begin(Some(&tx)).unwrap();
        sql.exec_in(&tx, &format!("INSERT INTO b VALUES ({number})"));
        sql.commit(&tx).unwrap();
        sql.commit(&tx).unwrap();
        child::say(&number.to_string());
    }
}

#[test]
fn a_process_killed_in_a_transaction_leaves_all_of_it_or_nothing() {
    if child::role().is_some() {
        return write_until_killed();
    }
    let (_folder, path) = place();
    let mut config = quiet();
    config.durability = Durability::Full;
    {
        let sql = Sql::open(&path, config);
        sql.exec("CREATE TABLE a (n INTEGER PRIMARY KEY, pad)");
        sql.exec("CREATE TABLE b (n INTEGER PRIMARY KEY)");
    }
    let mut from = 1;
    for round in 0..12 {
        let number = from.to_string();
        let test = child::this_test!();
        let mut writer =
            Child::with(test, "write", &[("DATABASE", path.as_os_str()), ("FROM", number.as_ref())]);
        assert_eq!(writer.expect_line(), "ready");
        let mut last = from - 1;
        for _ in 0..(3 + round % 5) {
            last = writer.expect_line().parse().unwrap();
        }
        std::thread::sleep(Duration::from_micros(900 * round));
        writer.kill();
        for line in writer.rest() {
            last = line.parse().unwrap();
        }
        let sql = open(&path);
        let (a, b) = (sql.int("SELECT max(n) FROM a"), sql.int("SELECT max(n) FROM b"));
        assert_eq!((a, sql.int("SELECT count(*) FROM a")), (b, sql.int("SELECT count(*) FROM b")));
        let last = i64::try_from(last).unwrap();
        assert!(a == last || a == last + 1, "{a} committed, {last} acknowledged");
        // Nothing that the killed process held blocks anyone.
        sql.exec("CREATE TABLE IF NOT EXISTS c (n)");
        from = u64::try_from(a).unwrap() + 1;
    }
}
