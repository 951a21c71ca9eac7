//! RES: results are limited in rows and bytes, and say so when cut.

use memory_core::ErrorKind;
use memory_core::sql::SqlValue;

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.cap.rows", [Sql], ["RES-1"], |cx| {
        let db = numbers(cx, 10).await?;
        for (cap, came, truncated) in [(1, 1, true), (9, 9, true), (10, 10, false), (11, 10, false)] {
            let answer =
                db.with(|options| options.max_rows = cap).query("SELECT i FROM n ORDER BY i").await?;
            let due: Vec<Vec<SqlValue>> = (1..=came).map(|i| vec![SqlValue::Int(i)]).collect();
            expect_eq!(answer.rows, due, "ten rows with a cap of {cap}");
            expect_eq!(answer.truncated, truncated, "`truncated` of ten rows with a cap of {cap}");
        }
        let none = db.with(|options| options.max_rows = 1).query("SELECT i FROM n WHERE i > 99").await?;
        check!(none.rows.is_empty() && !none.truncated, "no row with a cap of 1 is reported as truncated");
    }),
    case!("sql.cap.rows-by-default", [Sql], ["RES-1"], |cx| {
        let db = numbers(cx, 10_001).await?;
        let answer = db.query("SELECT i FROM n ORDER BY i").await?;
        expect_eq!(answer.rows.len(), 10_000, "rows of 10,001 with the default cap");
        check!(answer.truncated, "10,001 rows with a cap of 10,000 are reported as complete");
        let answer = db.query("SELECT i FROM n WHERE i <= 10000 ORDER BY i").await?;
        check!(answer.rows.len() == 10_000 && !answer.truncated, "10,000 rows with a cap of 10,000 are cut");
    }),
    case!("sql.cap.bytes", [Sql], ["RES-2"], |cx, db: Database| {
        db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)").await?;
        for id in 1..=10 {
            db.exec_with("INSERT INTO t VALUES ($1, $2)", &[SqlValue::Int(id), text("x".repeat(1_000))])
                .await?;
        }
        let capped = db.with(|options| options.max_bytes = 4_500);
        let answer = capped.query("SELECT v FROM t ORDER BY id").await?;
        check!(
            (1..=4).contains(&answer.rows.len()),
            "{} rows of 1,000 characters came with a cap of 4,500 bytes",
            answer.rows.len()
        );
        check!(answer.truncated, "10,000 characters with a cap of 4,500 bytes are reported as complete");
        check!(
            answer.rows.iter().all(|row| *row == [text("x".repeat(1_000))]),
            "a row that came is not whole"
        );
        let whole = db.with(|options| options.max_bytes = 100_000).query("SELECT v FROM t").await?;
        check!(
            whole.rows.len() == 10 && !whole.truncated,
            "10,000 characters are cut with a cap of 100,000 bytes"
        );
    }),
    case!("sql.cap.bytes-of-blobs", [Sql], ["RES-2"], |cx, db: Database| {
        db.exec(cx.in_dialect("CREATE TABLE t (v BLOB)", "CREATE TABLE t (v BYTEA)")).await?;
        for _ in 0..4 {
            db.exec_with("INSERT INTO t VALUES (?)", &[SqlValue::Blob(vec![7; 10_000])]).await?;
        }
        let answer = db.with(|options| options.max_bytes = 25_000).query("SELECT v FROM t").await?;
        check!(
            answer.rows.len() <= 2 && answer.truncated,
            "{} blobs of 10,000 in 25,000 bytes",
            answer.rows.len()
        );
    }),
    case!("sql.cap.first-row-too-big", [Sql], ["RES-2"], |cx, db: Database| {
        db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)").await?;
        db.exec_with("INSERT INTO t VALUES (1, ?), (2, 'small')", &[text("x".repeat(50_000))]).await?;
        let capped = db.with(|options| options.max_bytes = 1_000);
        let answer = capped.query("SELECT v FROM t ORDER BY id").await?;
        check!(answer.rows.is_empty(), "a row of 50,000 characters came with a cap of 1,000 bytes");
        check!(answer.truncated, "an answer whose first row is too big is reported as complete");
        expect_eq!(answer.columns, ["v"], "columns of an answer that was cut to nothing");
        expect_eq!(capped.value("SELECT v FROM t WHERE id = 2").await?, text("small"), "a row that fits");
    }),
    case!("sql.cap.returning-writes-all", [Sql], ["RES-3", "RES-1"], |cx| {
        let db = numbers(cx, 20).await?;
        let capped = db.with(|options| options.max_rows = 3);
        let outcome = capped.exec("UPDATE n SET i = i + 100 RETURNING i").await?;
        expect_eq!(outcome.rows_affected, 20, "rows that an update with a capped RETURNING changed");
        let rows = expect_some!(outcome.returning, "the rows of RETURNING");
        check!(rows.rows.len() == 3 && rows.truncated, "{} rows of 20 with a cap of 3", rows.rows.len());
        expect_eq!(db.int("SELECT count(*) FROM n WHERE i > 100").await?, 20, "rows that were changed");
        let small = db.with(|options| options.max_bytes = 10);
        let outcome = small.exec("DELETE FROM n RETURNING 'a text of some length'").await?;
        check!(
            outcome.returning.is_some_and(|rows| rows.truncated),
            "RETURNING over the cap of bytes is whole"
        );
        expect_eq!(db.count("n").await?, 0, "rows after a delete whose answer was cut");
    }),
    case!("sql.cap.zero", [Sql], ["RES-4"], |cx| {
        let db = numbers(cx, 2).await?;
        for (what, capped) in [
            ("rows", db.with(|options| options.max_rows = 0)),
            ("bytes", db.with(|options| options.max_bytes = 0)),
        ] {
            expect_kind!(
                capped.query("SELECT i FROM n").await,
                ErrorKind::InvalidArgument,
                "a cap of 0 {what}"
            );
            let refused = capped.exec("DELETE FROM n").await;
            expect_kind!(refused, ErrorKind::InvalidArgument, "`exec` with a cap of 0 {what}");
        }
        expect_eq!(db.count("n").await?, 2, "rows after statements that were refused");
    }),
];

/// A table of the numbers from 1 to `count`.
async fn numbers<'a>(cx: &'a Cx, count: i64) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE n (i BIGINT)").await?;
    db.exec(&format!(
        "INSERT INTO n (i) WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {count}) \
         SELECT i FROM s"
    ))
    .await?;
    Ok(db)
}
