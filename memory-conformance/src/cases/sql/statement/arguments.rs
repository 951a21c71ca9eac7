//! ARG: each argument is bound to its placeholder.

use memory_core::ErrorKind;
use memory_core::sql::SqlValue;

use crate::case::cases;
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

cases! {
    "sql.args.data-not-sql": [Sql], ["ARG-1"] => data_not_sql;
    "sql.args.question-marks-in-order": [Sql], ["ARG-2"] => in_order;
    "sql.args.dollars-in-any-order": [Sql], ["ARG-3"] => any_order;
    "sql.args.dollars-repeat": [Sql], ["ARG-3"] => repeated;
    "sql.args.ten-and-more": [Sql], ["ARG-3"] => ten_and_more;
    "sql.args.too-few-or-many": [Sql], ["ARG-4"] => counted;
    "sql.args.none-in-literals": [Sql], ["ARG-5"] => none_in_literals;
    "sql.args.names-are-refused": [Sql], ["ARG-6"] => names;
    "sql.args.over-the-limit": [Sql], ["ARG-7"] => over_the_limit;
}

async fn table<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE t (a TEXT, b TEXT, c TEXT)").await?;
    Ok(db)
}

async fn row(db: &Database<'_>) -> CaseResult<Vec<SqlValue>> {
    let mut rows = db.rows("SELECT a, b, c FROM t").await?;
    check!(rows.len() == 1, "{} rows where one was written", rows.len());
    Ok(rows.pop().unwrap_or_default())
}

fn texts(values: &[&str]) -> Vec<SqlValue> {
    values.iter().map(|value| text(*value)).collect()
}

async fn data_not_sql(cx: &Cx) -> CaseResult {
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
    Ok(())
}

async fn in_order(cx: &Cx) -> CaseResult {
    let db = table(cx).await?;
    db.exec_with("INSERT INTO t (c, a, b) VALUES (?, ?, ?)", &texts(&["first", "second", "third"])).await?;
    expect_eq!(row(&db).await?, texts(&["second", "third", "first"]), "three arguments by `?`");
    let found = db
        .query_with("SELECT a FROM t WHERE c = ? AND a <> ? AND b = ?", &texts(&["first", "first", "third"]))
        .await?;
    expect_eq!(found.rows, [texts(&["second"])], "three arguments by `?` in a condition");
    Ok(())
}

async fn any_order(cx: &Cx) -> CaseResult {
    let db = table(cx).await?;
    db.exec_with("INSERT INTO t (a, b, c) VALUES ($3, $1, $2)", &texts(&["one", "two", "three"])).await?;
    expect_eq!(row(&db).await?, texts(&["three", "one", "two"]), "three arguments by `$3, $1, $2`");
    let found = db.query_with("SELECT a FROM t WHERE c = $2 AND b = $1", &texts(&["one", "two"])).await?;
    expect_eq!(found.rows, [texts(&["three"])], "two arguments by `$2` and `$1`");
    Ok(())
}

async fn repeated(cx: &Cx) -> CaseResult {
    let db = table(cx).await?;
    db.exec_with("INSERT INTO t (a, b, c) VALUES ($2, $1, $2)", &texts(&["one", "two"])).await?;
    expect_eq!(row(&db).await?, texts(&["two", "one", "two"]), "two arguments, one of them twice");
    let changed = db.exec_with("UPDATE t SET b = $1 WHERE b <> $1", &texts(&["new"])).await?;
    expect_eq!(changed.rows_affected, 1, "an update that names its argument twice");
    Ok(())
}

async fn ten_and_more(cx: &Cx) -> CaseResult {
    let db = cx.database()?;
    db.exec("CREATE TABLE n (at INTEGER, i INTEGER)").await?;
    let rows: Vec<String> = (1..=12).rev().map(|at| format!("({at}, ${at})")).collect();
    let args: Vec<SqlValue> = (1..=12).map(|at| SqlValue::Int(at * 100)).collect();
    db.exec_with(&format!("INSERT INTO n VALUES {}", rows.join(", ")), &args).await?;
    let due: Vec<i64> = (1..=12).map(|at| at * 100).collect();
    expect_eq!(db.ints("SELECT i FROM n ORDER BY at").await?, due, "`$12` to `$1`");
    Ok(())
}

async fn counted(cx: &Cx) -> CaseResult {
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
    Ok(())
}

async fn none_in_literals(cx: &Cx) -> CaseResult {
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
    Ok(())
}

async fn names(cx: &Cx) -> CaseResult {
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
    Ok(())
}

async fn over_the_limit(cx: &Cx) -> CaseResult {
    let db = cx.database()?;
    let refused = db.query_with("SELECT 1", &vec![SqlValue::Null; 32_767]).await;
    expect_kind!(refused, ErrorKind::TooLarge, "32,767 arguments");
    Ok(())
}
