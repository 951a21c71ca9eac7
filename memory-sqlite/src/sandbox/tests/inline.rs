//! Queries on the caller's thread: which may run there, and that none takes long.

use std::time::{Duration, Instant};

use memory_core::sql::{Rows, SqlValue};
use memory_validator::Mode;

use super::super::{Cancel, Role, Sandbox, Statement};
use super::TestDatabase;

/// How long a caller may be held up, on a busy machine.
const BOUND: Duration = Duration::from_secs(15);

fn statement<'a>(sql: &'a str, args: &'a [SqlValue], mode: Mode, cancel: &'a Cancel) -> Statement<'a> {
    Statement {
        sql,
        args,
        mode,
        deadline: Instant::now() + Duration::from_secs(30),
        max_rows: 10_000,
        max_bytes: 8 << 20,
        frees: false,
        cancel,
    }
}

fn on_a_thread(reader: &mut Sandbox, sql: &str, args: &[SqlValue]) -> Rows {
    let cancel = Cancel::default();
    let ran = reader.run(&statement(sql, args, Mode::Query, &cancel));
    ran.unwrap_or_else(|error| panic!("{sql}: {error}")).rows.unwrap()
}

/// Runs it inline, within the bound; `None` if it does not run inline.
fn here(reader: &mut Sandbox, sql: &str, args: &[SqlValue]) -> Option<Rows> {
    let (cancel, began) = (Cancel::default(), Instant::now());
    let ran = reader.run_inline(&statement(sql, args, Mode::Query, &cancel));
    assert!(began.elapsed() < BOUND, "{:?}: {sql}", began.elapsed());
    ran.map(|ran| ran.rows.unwrap())
}

/// Runs it until it is known. Each run must be quick, which a busy machine may prevent.
fn come_to_know(reader: &mut Sandbox, sql: &str, args: &[SqlValue]) {
    for _ in 0..20 {
        on_a_thread(reader, sql, args);
    }
}

/// Runs it inline, however often a busy machine prevents that.
fn here_at_last(reader: &mut Sandbox, sql: &str, args: &[SqlValue]) -> Rows {
    let mut tries = (0..1_000).filter_map(|_| {
        let found = here(reader, sql, args);
        if found.is_none() {
            come_to_know(reader, sql, args);
        }
        found
    });
    tries.next().unwrap_or_else(|| panic!("never runs inline: {sql}"))
}

/// As [`here_at_last`], for a query that is new each time.
fn anew_at_last(reader: &mut Sandbox, sql: impl Fn(usize) -> String) -> (String, Rows) {
    let mut tries = (1..1_000).filter_map(|n| {
        let found = here(reader, &sql(n), &[]);
        if found.is_none() {
            on_a_thread(reader, &sql(n), &[]);
        }
        found.map(|rows| (sql(n), rows))
    });
    tries.next().unwrap_or_else(|| panic!("never runs inline: {}", sql(0)))
}

fn database(script: &str) -> (TestDatabase, Sandbox) {
    let database = TestDatabase::new();
    database.load(script);
    let reader = database.open(Role::Reader);
    (database, reader)
}

#[test]
fn a_quick_query_that_came_before_runs_inline_with_the_same_answer() {
    let (database, mut reader) =
        database("CREATE TABLE t (a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 'x'), (2, 'y')");
    let sql = "SELECT b FROM t WHERE a = ?";
    assert_eq!(here(&mut reader, sql, &[SqlValue::Int(1)]), None);
    let found = here_at_last(&mut reader, sql, &[SqlValue::Int(2)]);
    assert_eq!(found.rows, [[SqlValue::Text("y".into())]]);
    assert_eq!(found, on_a_thread(&mut reader, sql, &[SqlValue::Int(2)]));
    // Later writes are seen, and the plan compiled before is invalid.
    database.load("UPDATE t SET b = 'z' WHERE a = 2");
    assert_eq!(here_at_last(&mut reader, sql, &[SqlValue::Int(2)]).rows, [[SqlValue::Text("z".into())]]);
    database.load("ALTER TABLE t ADD COLUMN c");
    assert_eq!(here(&mut reader, sql, &[SqlValue::Int(2)]), None);
    assert_eq!(on_a_thread(&mut reader, sql, &[SqlValue::Int(2)]).rows.len(), 1);
}

#[test]
fn a_short_query_that_is_new_runs_at_once_where_its_tables_are_known() {
    let (database, mut reader) = database(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b); INSERT INTO t VALUES (1, 'x'), (2, 'y'); \
         CREATE TABLE u (a); INSERT INTO u VALUES (1); CREATE VIEW v AS SELECT a FROM t; \
         CREATE VIRTUAL TABLE ft USING fts5(a); CREATE VIEW w AS SELECT a FROM ft",
    );
    assert_eq!(here(&mut reader, "SELECT b FROM t WHERE a = 1", &[]), None);
    on_a_thread(&mut reader, "SELECT b FROM t", &[]);
    let (sql, found) = anew_at_last(&mut reader, |n| format!("SELECT b FROM t WHERE a < {n} + 2"));
    assert!(!found.rows.is_empty());
    assert_eq!(found, on_a_thread(&mut reader, &sql, &[]));
    // No other relation may be read, under any name, and a worker reports errors.
    for sql in [
        "SELECT a FROM u",
        "SELECT t.b FROM t JOIN u ON t.a = u.a",
        "SELECT t.b FROM t, u",
        "SELECT t.b FROM t JOIN u USING (a)",
        "SELECT t.b FROM t NATURAL JOIN ft",
        "SELECT a FROM v",
        "SELECT a FROM w",
        "SELECT t.b FROM t, v",
        "SELECT a FROM ft",
        "SELECT b FROM t WHERE a IN (SELECT rowid FROM ft)",
        "SELECT value FROM json_each('[1]')",
        "SELECT name FROM sqlite_schema",
        "SELECT name FROM pragma_table_info('t')",
        "SELECT count(b) FROM t",
        "SELECT nothing FROM t",
        "SELECT b FROM t; SELECT b FROM t",
    ] {
        assert_eq!(here(&mut reader, sql, &[]), None, "{sql}");
    }
    anew_at_last(&mut reader, |n| format!("SELECT b FROM t WHERE a = {n} + 2"));
    // A table replaced by a view.
    database.load("DROP TABLE t; CREATE VIEW t AS SELECT a, a AS b FROM ft");
    assert_eq!(here(&mut reader, "SELECT b FROM t WHERE a = 4", &[]), None);
    on_a_thread(&mut reader, "SELECT b FROM t WHERE a = 5", &[]);
    assert_eq!(here(&mut reader, "SELECT b FROM t WHERE a = 6", &[]), None);
}

#[test]
fn a_new_query_that_takes_long_is_left_to_a_thread_and_so_are_some_after_it() {
    let (database, mut reader) = database("CREATE TABLE t (a)");
    on_a_thread(&mut reader, "SELECT a FROM t", &[]);
    anew_at_last(&mut reader, |n| format!("SELECT a FROM t WHERE a > {n}"));
    database.load("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200000) INSERT INTO t SELECT i FROM n");
    assert_eq!(here(&mut reader, "SELECT sum(a) FROM t WHERE a > 2", &[]), None);
    let mut left = 0;
    for n in 0..4 {
        on_a_thread(&mut reader, "SELECT a FROM t LIMIT 1", &[]);
        left += usize::from(here(&mut reader, &format!("SELECT a FROM t LIMIT 1 + {n}"), &[]).is_none());
    }
    assert!((1..4).contains(&left), "{left}");
}

#[test]
fn a_query_over_a_limit_is_answered_by_a_worker() {
    let (database, mut reader) = database("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x')");
    let all = "SELECT sum(a), max(length(b)) FROM t";
    let longest = "SELECT upper(b) FROM t ORDER BY length(b) DESC LIMIT 1";
    let endless = "SELECT 1 FROM t, t AS u, t AS v WHERE t.a + u.a + v.a < 0";
    for sql in [all, longest, endless] {
        here_at_last(&mut reader, sql, &[]);
    }
    database.load("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200000) INSERT INTO t SELECT i, 'y' FROM n");
    database.load("INSERT INTO t SELECT 0, hex(zeroblob(1000000))");
    assert_eq!(here(&mut reader, endless, &[]), None);
    for (sql, length) in [(all, 1), (longest, 2_000_000)] {
        assert_eq!(here(&mut reader, sql, &[]), None, "{sql}");
        let answer = on_a_thread(&mut reader, sql, &[]);
        let SqlValue::Text(text) = answer.rows[0].last().unwrap() else { continue };
        assert_eq!(text.len(), length, "{sql}");
    }
    // Its last run took too many steps.
    assert_eq!(here(&mut reader, all, &[]), None);
}

#[test]
fn arguments_are_bounded_too() {
    let (_room, mut reader) = database("CREATE TABLE t (a)");
    let sql = "SELECT replace(?, 'a', ?)";
    come_to_know(&mut reader, sql, &[SqlValue::Text("a".into()), SqlValue::Text("b".into())]);
    let long = |length| SqlValue::Text("a".repeat(length));
    assert_eq!(here(&mut reader, sql, &[long(5_000), long(1)]), None);
    // The result is too long.
    assert_eq!(here(&mut reader, sql, &[long(1_900), long(1_900)]), None);
    assert_eq!(on_a_thread(&mut reader, sql, &[long(1_900), long(1_900)]).rows.len(), 1);
}

#[test]
fn queries_with_slow_instructions_never_run_inline() {
    let (database, mut reader) = database(
        "CREATE TABLE t (a); CREATE VIEW v AS SELECT a FROM t; CREATE VIRTUAL TABLE ft USING fts5(a); \
         INSERT INTO t VALUES ('x'); INSERT INTO ft VALUES ('x')",
    );
    for sql in [
        "SELECT count(*) FROM t",
        "SELECT a FROM v",
        "SELECT a FROM ft WHERE ft MATCH 'x'",
        "SELECT t.a FROM t JOIN ft USING (a)",
        "SELECT t.a FROM t NATURAL JOIN ft",
        "SELECT value FROM json_each('[1]')",
        "SELECT name FROM pragma_table_info('t')",
    ] {
        come_to_know(&mut reader, sql, &[]);
        assert_eq!(here(&mut reader, sql, &[]), None, "{sql}");
    }
    // A table replaced by one of these.
    let sql = "SELECT a FROM t";
    here_at_last(&mut reader, sql, &[]);
    database.load("DROP TABLE t; CREATE VIRTUAL TABLE t USING fts5(a)");
    assert_eq!(here(&mut reader, sql, &[]), None);
    come_to_know(&mut reader, sql, &[]);
    assert_eq!(here(&mut reader, sql, &[]), None);
}

#[test]
fn only_compiled_queries_on_readers_run_inline() {
    let (database, mut reader) = database("CREATE TABLE t (a)");
    let sql = "SELECT a FROM t";
    come_to_know(&mut reader, sql, &[]);
    reader.with_runtime_rights(|_| Ok(())).unwrap();
    assert_eq!(here(&mut reader, sql, &[]), None);
    let mut writer = database.writer();
    let (insert, cancel) = ("INSERT INTO t VALUES (1)", Cancel::default());
    for _ in 0..3 {
        writer.run(&statement(insert, &[], Mode::Exec, &cancel)).unwrap();
        assert!(writer.run_inline(&statement(insert, &[], Mode::Exec, &cancel)).is_none());
    }
}

#[test]
fn a_query_with_a_limit_as_argument_is_not_compiled_again_for_every_run() {
    let (_database, mut reader) = database("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    let sql = "SELECT a FROM t WHERE a > ? ORDER BY a LIMIT ?";
    // Nothing is compiled inline.
    here_at_last(&mut reader, sql, &[SqlValue::Int(7), SqlValue::Int(9)]);
}
