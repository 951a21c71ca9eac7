//! ARG: each argument is bound to its placeholder.

use memory_core::sql::SqlValue;
use memory_core::{ErrorKind, SqlDialect};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.args.data-not-sql", [Sql], ["ARG-1"], |cx| {
        let db = table(cx).await?;
        db.exec("CREATE TABLE precious (n INTEGER)").await?;
        for evil in [
            "'); DROP TABLE precious; --",
            "x' OR '1'='1",
            "\"; DELETE FROM precious; /*",
            "$1 ? :a",
            "\\'; DROP TABLE precious",
            "%_*",
        ] {
            db.exec("DELETE FROM t").await?;
            db.exec_with("INSERT INTO t (a) VALUES (?)", &[text(evil)]).await?;
            let found = db.value_with("SELECT a FROM t WHERE a = ?", &[text(evil)]).await?;
            expect_eq!(found, text(evil), "an argument with SQL in it");
            let others = db.query_with("SELECT a FROM t WHERE a = $1", &[text("x")]).await?;
            check!(others.rows.is_empty(), "a comparison with another text found a row");
        }
        expect_eq!(db.count("precious").await?, 0, "the other table");
    }),
    case!("sql.args.question-marks-in-order", [Sql], ["ARG-2"], |cx| {
        let db = table(cx).await?;
        db.exec_with("INSERT INTO t (c, a, b) VALUES (?, ?, ?)", &texts(&["first", "second", "third"]))
            .await?;
        expect_eq!(row(&db).await?, texts(&["second", "third", "first"]), "three arguments by `?`");
        let found = db
            .query_with(
                "SELECT a FROM t WHERE c = ? AND a <> ? AND b = ?",
                &texts(&["first", "first", "third"]),
            )
            .await?;
        expect_eq!(found.rows, [texts(&["second"])], "three arguments by `?` in a condition");
    }),
    case!("sql.args.dollars-in-any-order", [Sql], ["ARG-3"], |cx| {
        let db = table(cx).await?;
        db.exec_with("INSERT INTO t (a, b, c) VALUES ($3, $1, $2)", &texts(&["one", "two", "three"])).await?;
        expect_eq!(row(&db).await?, texts(&["three", "one", "two"]), "three arguments by `$3, $1, $2`");
        let found = db.query_with("SELECT a FROM t WHERE c = $2 AND b = $1", &texts(&["one", "two"])).await?;
        expect_eq!(found.rows, [texts(&["three"])], "two arguments by `$2` and `$1`");
    }),
    case!("sql.args.dollars-repeat", [Sql], ["ARG-3"], |cx| {
        let db = table(cx).await?;
        db.exec_with("INSERT INTO t (a, b, c) VALUES ($2, $1, $2)", &texts(&["one", "two"])).await?;
        expect_eq!(row(&db).await?, texts(&["two", "one", "two"]), "two arguments, one of them twice");
        let changed = db.exec_with("UPDATE t SET b = $1 WHERE b <> $1", &texts(&["new"])).await?;
        expect_eq!(changed.rows_affected, 1, "an update that names its argument twice");
    }),
    case!("sql.args.ten-and-more", [Sql], ["ARG-3"], |cx, db: Database| {
        db.exec("CREATE TABLE n (at INTEGER, i INTEGER)").await?;
        let rows: Vec<String> = (1..=12).rev().map(|at| format!("({at}, ${at})")).collect();
        let args: Vec<SqlValue> = (1..=12).map(|at| SqlValue::Int(at * 100)).collect();
        db.exec_with(&format!("INSERT INTO n VALUES {}", rows.join(", ")), &args).await?;
        let due: Vec<i64> = (1..=12).map(|at| at * 100).collect();
        expect_eq!(db.ints("SELECT i FROM n ORDER BY at").await?, due, "`$12` to `$1`");
    }),
    case!("sql.args.too-few-or-many", [Sql], ["ARG-4"], |cx| {
        let db = table(cx).await?;
        for (sql, args) in [
            ("INSERT INTO t (a, b) VALUES (?, ?)", 1),
            ("INSERT INTO t (a, b) VALUES (?, ?)", 3),
            ("INSERT INTO t (a, b) VALUES ($1, $2)", 1),
            ("INSERT INTO t (a, b) VALUES ($2, $1)", 3),
            ("INSERT INTO t (a) VALUES ('x')", 1),
            ("INSERT INTO t (a) VALUES (?)", 0),
        ] {
            let refused = db.exec_with(sql, &vec![text("v"); args]).await;
            expect_kind!(refused, ErrorKind::InvalidArgument, "`{sql}` with {args} arguments");
        }
        for (sql, args) in [("SELECT a FROM t WHERE a = ?", 0), ("SELECT a FROM t WHERE a = $1", 2)] {
            let refused = db.query_with(sql, &vec![text("v"); args]).await;
            expect_kind!(refused, ErrorKind::InvalidArgument, "`{sql}` with {args} arguments");
        }
        expect_eq!(db.count("t").await?, 0, "rows of statements whose arguments did not fit");
    }),
    case!("sql.args.none-in-literals", [Sql], ["ARG-5"], |cx| {
        let db = table(cx).await?;
        let sql = "INSERT INTO t (a, b, c) VALUES ('? $1 $9', ?, 'it''s ?') /* ? $7 */ -- ? $8";
        db.exec_with(sql, &texts(&["bound"])).await?;
        expect_eq!(
            row(&db).await?,
            texts(&["? $1 $9", "bound", "it's ?"]),
            "placeholders in literals and comments"
        );
        let rows = db.query_with("SELECT b AS \"? $2\" FROM t WHERE b = $1", &texts(&["bound"])).await?;
        expect_eq!(rows.columns, ["? $2"], "placeholders in a quoted name");
    }),
    case!("sql.args.names-are-refused", [Sql], ["ARG-6"], |cx| {
        let db = table(cx).await?;
        for sql in [
            "INSERT INTO t (a) VALUES (:a)",
            "INSERT INTO t (a) VALUES (@a)",
            "INSERT INTO t (a) VALUES ($a)",
            "INSERT INTO t (a, b) VALUES (:a, ?)",
        ] {
            match db.exec_with(sql, &texts(&["v"])).await {
                Err(error)
                    if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::StatementRefused) =>
                {
                    check!(error.message().len() > 10, "`{sql}`: the refusal gives no advice: {error}");
                }
                other => {
                    drop(expect_kind!(other, ErrorKind::InvalidArgument, "`{sql}`"));
                }
            }
        }
        expect_eq!(db.count("t").await?, 0, "rows of statements that were refused");
    }),
    case!("sql.args.over-the-limit", [Sql], ["ARG-7"], |cx, db: Database| {
        let refused = db.query_with("SELECT 1", &vec![SqlValue::Null; 32_767]).await;
        expect_kind!(refused, ErrorKind::TooLarge, "32,767 arguments");
    }),
    case!("sql.args.arrays", [Sql], ["ARG-8"], |cx, db: Database| {
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        for n in 1..=4 {
            db.exec_with("INSERT INTO t VALUES (?)", &[SqlValue::Int(n)]).await?;
        }
        let numbers = array(&[SqlValue::Int(3), SqlValue::Int(1), SqlValue::Null, SqlValue::Int(9)]);
        if cx.dialect() != SqlDialect::Postgres {
            let refused = db
                .query_with("SELECT n FROM t WHERE n IN (SELECT value FROM json_each(?))", &[numbers])
                .await;
            let error =
                expect_kind!(refused, ErrorKind::InvalidArgument, "an array on an engine without arrays");
            check!(error.message().contains("json_each"), "the refusal gives no advice: {error}");
            return Ok(());
        }
        let found = db
            .query_with("SELECT n FROM t WHERE n = ANY ($1) ORDER BY n", std::slice::from_ref(&numbers))
            .await?;
        expect_eq!(found.rows, [[SqlValue::Int(1)], [SqlValue::Int(3)]], "the rows that an array names");

        let nasty =
            ["NULL", "", "null", "a\"b", "back\\slash\\", "{", "}", "x,y", " ", "'; DROP TABLE t; --", "é🦀"];
        let mut given = texts(&nasty);
        given.push(SqlValue::Null);
        let sql = "SELECT v FROM unnest($1::text[]) WITH ORDINALITY AS u (v, at) ORDER BY at";
        let back: Vec<SqlValue> =
            db.query_with(sql, &[array(&given)]).await?.rows.into_iter().flatten().collect();
        expect_eq!(back, given, "the texts of an array");

        for (sql, elements) in [
            ("bigint", vec![SqlValue::Int(i64::MAX), SqlValue::Int(i64::MIN)]),
            ("boolean", vec![SqlValue::Bool(true), SqlValue::Bool(false)]),
            (
                "double precision",
                vec![SqlValue::Real(0.1), SqlValue::Real(f64::INFINITY), SqlValue::Real(5e-324)],
            ),
            ("numeric", vec![SqlValue::Numeric("1.10".to_owned())]),
            ("bytea", vec![SqlValue::Blob(vec![0, 92, 34, 255]), SqlValue::Blob(vec![])]),
        ] {
            let read = format!("SELECT v FROM unnest($1::{sql}[]) WITH ORDINALITY AS u (v, at) ORDER BY at");
            let rows = db.query_with(&read, &[array(&elements)]).await?.rows;
            expect_eq!(rows.into_iter().flatten().collect::<Vec<_>>(), elements, "the elements of a {sql}[]");
        }

        let nested = array(&[
            array(&[SqlValue::Int(1), SqlValue::Int(2)]),
            array(&[SqlValue::Int(3), SqlValue::Null]),
        ]);
        expect_eq!(
            db.value_with("SELECT ($1::int[])[2][1]", &[nested]).await?,
            SqlValue::Int(3),
            "an element of an array of arrays"
        );
        let none = db.value_with("SELECT count(*) FROM unnest($1::int[])", &[array(&[])]).await?;
        expect_eq!(none, SqlValue::Int(0), "the elements of an empty array");
        let untyped = db.value_with("SELECT cardinality($1)", &[numbers]).await?;
        expect_eq!(untyped, SqlValue::Int(4), "the number of elements where no type is required");

        db.exec("CREATE TABLE kept (words text[])").await?;
        db.exec_with("INSERT INTO kept VALUES (?)", &[array(&texts(&["a b", "c"]))]).await?;
        expect_eq!(db.value("SELECT words[1] FROM kept").await?, text("a b"), "an array that was stored");
    }),
    case!("sql.args.malformed-arrays", [Sql], ["ARG-9"], |cx, db: Database| {
        db.exec("CREATE TABLE t (a TEXT)").await?;
        let one = || SqlValue::Int(1);
        let deep = (0..6).fold(array(&[one()]), |inner, _| array(&[inner]));
        for (what, argument) in [
            ("arrays of different lengths", array(&[array(&[one()]), array(&[one(), one()])])),
            ("an array beside a value", array(&[one(), array(&[one()])])),
            ("an empty array in an array", array(&[array(&[])])),
            ("seven levels", deep),
            ("a text to embed in an array", array(&[SqlValue::Embed("tea".to_owned())])),
        ] {
            let refused = db.exec_with("INSERT INTO t VALUES (CAST(? AS TEXT))", &[argument]).await;
            expect_kind!(refused, ErrorKind::InvalidArgument, "an argument with {what}");
        }
        expect_eq!(db.count("t").await?, 0, "rows of refused statements");
    }),
    case!("sql.args.alike-in-scopes-that-differ", [Sql], ["ARG-10"], |cx| {
        let mut all = alone(cx).await?;
        for alias in ["forwards", "backwards"] {
            for (declared, due) in &all {
                let db = cx.database()?;
                create(&db, declared).await?;
                let found = stored(&db, alias).await?;
                expect_eq!(&found, due, "in a column of type {declared}, after other scopes");
            }
            all.reverse();
        }
    }),
    case!("sql.args.alike-after-definitions", [Sql], ["ARG-10"], |cx| {
        let due = alone(cx).await?;
        let beside = cx.on(cx.store().another_handle().await?);
        let here = cx.database()?;
        let there = beside.database_of(here.scope.clone())?;
        for (declared, due) in due.iter().chain(due.iter().rev()) {
            create(&here, declared).await?;
            expect_eq!(&stored(&here, "own").await?, due, "in a new column of type {declared}");
        }
        for (declared, due) in due.iter().chain(due.iter().rev()) {
            create(&there, declared).await?;
            expect_eq!(
                &stored(&here, "own").await?,
                due,
                "in a column of type {declared} that another handle made"
            );
        }
        for (declared, due) in due.iter().filter(|_| cx.dialect() == SqlDialect::Postgres) {
            there.exec(&format!("ALTER TABLE pt ALTER COLUMN c TYPE {declared} USING NULL")).await?;
            expect_eq!(&stored(&here, "own").await?, due, "in a column that another handle made {declared}");
        }
    }),
    case!("sql.args.alike-after-rollback", [Sql, SqlTransactions], ["ARG-10"], |cx| {
        let due = alone(cx).await?;
        let db = cx.database()?;
        for ((declared, due), (other, due_within)) in due.iter().zip(due.iter().skip(1)) {
            create(&db, declared).await?;
            stored(&db, "own").await?;
            let (tx, _) = db.begin().await?;
            create(&tx, other).await?;
            expect_eq!(&stored(&tx, "own").await?, due_within, "in a column that a transaction made {other}");
            tx.rollback().await?;
            expect_eq!(&stored(&db, "own").await?, due, "in a column that a rollback left {declared}");
        }
    }),
];

/// What each column type stores if nothing else has run with the same text.
async fn alone(cx: &Cx) -> CaseResult<Vec<(&'static str, Vec<Vec<SqlValue>>)>> {
    let mut all = Vec::new();
    for (declared, alias) in [("TEXT", "alone_t"), ("NUMERIC", "alone_n"), ("DOUBLE PRECISION", "alone_d")] {
        let db = cx.database()?;
        create(&db, declared).await?;
        all.push((declared, stored(&db, alias).await?));
    }
    Ok(all)
}

async fn create(db: &Database<'_>, declared: &str) -> CaseResult {
    db.exec("DROP TABLE IF EXISTS pt").await?;
    db.exec(&format!("CREATE TABLE pt (n INTEGER, c {declared})")).await?;
    Ok(())
}

/// The table's contents after every statement that may depend on its column's type; the alias makes the texts differ.
async fn stored(db: &Database<'_>, alias: &str) -> CaseResult<Vec<Vec<SqlValue>>> {
    db.exec("DELETE FROM pt").await?;
    let insert = format!("INSERT INTO pt AS {alias} (n, c) VALUES (?, ?)");
    let values = [
        SqlValue::Real(2.5),
        SqlValue::Real(0.123_456_789_012_345_66),
        SqlValue::Real(1e21),
        SqlValue::Int(5),
        SqlValue::Int(9_007_199_254_740_993),
        SqlValue::Numeric("1.10".to_owned()),
        text("1e3"),
    ];
    for (n, value) in (0..).map(SqlValue::Int).zip(values) {
        db.exec_with(&insert, &[n, value]).await?;
    }
    let mut rows = db.rows("SELECT n, c FROM pt ORDER BY n").await?;
    let half = format!("SELECT count(*) FROM pt AS {alias} WHERE c = ?");
    rows.push(vec![db.value_with(&half, &[text("2.5")]).await?]);
    Ok(rows)
}

async fn table<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE t (a TEXT, b TEXT, c TEXT)").await?;
    Ok(db)
}

async fn row(db: &Database<'_>) -> CaseResult<Vec<SqlValue>> {
    let mut rows = db.rows("SELECT a, b, c FROM t").await?;
    check!(rows.len() == 1, "{} rows instead of one", rows.len());
    Ok(rows.pop().unwrap_or_default())
}

fn texts(values: &[&str]) -> Vec<SqlValue> {
    values.iter().map(|value| text(*value)).collect()
}

fn array(elements: &[SqlValue]) -> SqlValue {
    SqlValue::Array(elements.to_vec())
}
