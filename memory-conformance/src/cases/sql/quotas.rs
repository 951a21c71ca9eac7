//! QTA: a quota refuses growth and never blocks other work.

use memory_core::sql::SqlValue;
use memory_core::{ErrorKind, Result, SqlDialect};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.quota.growth-is-refused", [Sql], ["QTA-1"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        let rows = fill(cx, &db).await?;
        check!(rows >= 10, "{rows} rows of 8,000 bytes were stored in 512 KiB");
        expect_eq!(db.count("t").await?, rows, "rows after one was refused");
        expect_kind!(insert(cx, &db, 5_000).await, ErrorKind::QuotaExceeded, "a further row");
        let last = db.value(&format!("SELECT v FROM t WHERE id = {rows}")).await?;
        check!(last == text(noise(cx, rows.unsigned_abs())), "the last accepted row is damaged");
    }),
    case!("sql.quota.one-huge-statement", [Sql], ["QTA-1", "SQL-6"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        insert(cx, &db, 1).await?;
        let huge = "INSERT INTO t (id, v) WITH RECURSIVE s (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM s WHERE i < 60000) \
                SELECT i, 'a text of some length that takes its room ' || i FROM s";
        expect_kind!(db.exec(huge).await, ErrorKind::QuotaExceeded, "3 MB in one statement");
        expect_eq!(db.ints("SELECT id FROM t").await?, [1], "rows after a statement that was too big");
        insert(cx, &db, 2).await?;
        let copy = "CREATE TABLE copies AS WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 200) \
                SELECT t.v || s.i AS v FROM t, s";
        expect_kind!(db.exec(copy).await, ErrorKind::QuotaExceeded, "creating a table of 3 MB");
        expect_eq!(db.count("t").await?, 2);
        check!(db.query("SELECT 1 FROM copies").await.is_err(), "a table that was refused is there");
    }),
    case!("sql.quota.growth-by-update", [Sql], ["QTA-1"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        for id in 1..=20 {
            insert(cx, &db, id).await?;
        }
        let grown = db.exec("UPDATE t SET v = v || v || v || v || v || v || v || v").await;
        expect_kind!(grown, ErrorKind::QuotaExceeded, "rows that grow eightfold");
        let length = db.int("SELECT max(length(v)) FROM t").await?;
        expect_eq!(length, i64::try_from(ROW).unwrap_or(0), "the longest text after a refused update");
    }),
    case!("sql.quota.growth-by-index", [Sql], ["QTA-1"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        for id in 1..=40 {
            // Shorter, since an engine may not index texts of 8,000 bytes.
            let args = [
                SqlValue::Int(id),
                text(noise(cx, id.unsigned_abs()).chars().take(2_000).collect::<String>()),
            ];
            db.exec_with("INSERT INTO t (id, v) VALUES (?, ?)", &args).await?;
        }
        let tight = db.with(|options| options.quota_bytes = Some(96 << 10));
        expect_kind!(
            tight.exec("CREATE INDEX by_v ON t (v)").await,
            ErrorKind::QuotaExceeded,
            "an index over the quota"
        );
        expect_eq!(db.count("t").await?, 40);
    }),
    case!("sql.quota.deleting-makes-room", [Sql], ["QTA-2"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        let rows = fill(cx, &db).await?;
        expect_eq!(
            db.exec("DELETE FROM t WHERE id <= 5").await?.rows_affected,
            5,
            "rows deleted at the quota"
        );
        insert(cx, &db, 2_000).await?;
        expect_eq!(db.exec("DELETE FROM t").await?.rows_affected, u64::try_from(rows - 4).unwrap_or(0));
        expect_eq!(fill(cx, &db).await? >= rows - 2, true, "as many rows fit once all were deleted");
    }),
    case!("sql.quota.dropping-makes-room", [Sql], ["QTA-2"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        fill(cx, &db).await?;
        db.exec("DROP TABLE t").await?;
        db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)").await?;
        insert(cx, &db, 1).await?;
        expect_eq!(db.count("t").await?, 1);
    }),
    case!("sql.quota.deleting-within-transaction", [Sql, SqlTransactions], ["QTA-2"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        let rows = fill(cx, &db).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("DELETE FROM t WHERE id <= 3").await?;
        insert(cx, &tx, 3_000).await?;
        tx.commit().await?;
        expect_eq!(db.count("t").await?, rows - 2, "rows after a transaction that freed space");
    }),
    case!("sql.quota.lowered", [Sql], ["QTA-3"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        for id in 1..=40 {
            insert(cx, &db, id).await?;
        }
        let low = db.with(|options| options.quota_bytes = Some(64 << 10));
        expect_kind!(
            insert(cx, &low, 41).await,
            ErrorKind::QuotaExceeded,
            "a row over a quota that was lowered"
        );
        expect_eq!(low.count("t").await?, 40, "reading over the quota");
        expect_eq!(
            low.exec("DELETE FROM t WHERE id > 30").await?.rows_affected,
            10,
            "deleting over the quota"
        );
        expect_kind!(
            insert(cx, &low, 42).await,
            ErrorKind::QuotaExceeded,
            "a row while it is still over the quota"
        );
        low.exec("DELETE FROM t WHERE id > 2").await?;
        insert(cx, &low, 43).await?;
        expect_eq!(low.ints("SELECT id FROM t ORDER BY id").await?, [1, 2, 43]);
    }),
    case!("sql.quota.freeing-past-it", [Sql], ["QTA-3"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        db.exec("CREATE TABLE other (id INTEGER PRIMARY KEY, v TEXT)").await?;
        db.exec("CREATE INDEX by_id ON t (id, v)").await?;
        for id in 1..=20 {
            let args = [
                SqlValue::Int(id),
                text(noise(cx, id.unsigned_abs()).chars().take(2_000).collect::<String>()),
            ];
            db.exec_with("INSERT INTO t (id, v) VALUES (?, ?)", &args).await?;
        }
        db.exec("INSERT INTO other SELECT id, v FROM t").await?;
        let low = db.with(|options| options.quota_bytes = Some(16 << 10));
        let growing =
            ["UPDATE t SET v = v || v", "CREATE INDEX again ON t (id)", "CREATE TABLE more (id INTEGER)"];
        for sql in growing {
            expect_kind!(low.exec(sql).await, ErrorKind::QuotaExceeded, "`{sql}` far over the quota");
        }
        let truncate = match cx.dialect() {
            SqlDialect::Postgres => "TRUNCATE other",
            _ => "DELETE FROM other",
        };
        let freeing = [
            "DELETE FROM t WHERE id > 10",
            "DROP INDEX by_id",
            truncate,
            "DROP TABLE other",
            "DELETE FROM t",
        ];
        for sql in freeing {
            low.exec(sql).await?;
        }
        expect_eq!(low.count("t").await?, 0);
        low.exec("DROP TABLE t").await?;
    }),
    case!("sql.quota.raised", [Sql], ["QTA-1"], |cx| {
        let db = cramped(cx, 128 << 10).await?;
        let rows = fill(cx, &db).await?;
        let roomy = db.with(|options| options.quota_bytes = Some(QUOTA));
        for id in 1..=10 {
            insert(cx, &roomy, rows + id).await?;
        }
        expect_eq!(db.count("t").await?, rows + 10, "rows after the quota was raised");
    }),
    case!("sql.usage.follows", [Sql], ["QTA-4"], |cx| {
        let db = cramped(cx, 64 << 20).await?;
        let empty = db.bytes().await?;
        for id in 1..=50 {
            insert(cx, &db, id).await?;
        }
        let full = db.bytes().await?;
        check!(full >= empty + 300_000, "{full} bytes with 400,000 of text, {empty} without");
        check!(full <= empty + 2_000_000, "{full} bytes with 400,000 of text");
        db.exec("DROP TABLE t").await?;
        let dropped = db.bytes().await?;
        check!(dropped < full / 2, "{dropped} bytes after the table was dropped, {full} before");
        cx.sql().drop_sql_scope(&db.scope).await?;
        expect_eq!(db.bytes().await?, 0, "bytes of a database that was dropped");
    }),
    case!("sql.usage.never-passes-the-quota", [Sql], ["QTA-4", "QTA-1"], |cx| {
        let db = cramped(cx, QUOTA).await?;
        fill(cx, &db).await?;
        for _ in 0..3 {
            // Smaller and smaller rows fit, until none does.
            for size in [4_000_usize, 500, 50] {
                for _ in 0..200 {
                    let value: String = noise(cx, 7).chars().take(size).collect();
                    if db.exec_with("INSERT INTO t (v) VALUES (?)", &[text(value)]).await.is_err() {
                        break;
                    }
                }
            }
            let bytes = db.bytes().await?;
            check!(bytes <= QUOTA, "{bytes} bytes are used of {QUOTA}");
        }
    }),
    case!("sql.quota.of-others", [Sql], ["QTA-5"], |cx| {
        let (full, other) = (cramped(cx, QUOTA).await?, cramped(cx, QUOTA).await?);
        let before = other.bytes().await?;
        fill(cx, &full).await?;
        expect_eq!(other.bytes().await?, before, "bytes of a scope next to a full one");
        insert(cx, &other, 1).await?;
        expect_eq!(other.count("t").await?, 1);
    }),
];

const QUOTA: u64 = 512 << 10;
const ROW: usize = 8_000;

/// A table under a quota.
async fn cramped<'a>(cx: &'a Cx, quota: u64) -> CaseResult<Database<'a>> {
    let db = cx.database()?.with(|options| options.quota_bytes = Some(quota));
    db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)").await?;
    Ok(db)
}

/// A text that no engine can compress.
fn noise(cx: &Cx, seed: u64) -> String {
    let mut random = cx.random();
    for _ in 0..seed % 97 {
        random.bits();
    }
    let mut text = String::with_capacity(ROW);
    while text.len() < ROW {
        text.push_str(&format!("{:016x}", random.bits() ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
    text
}

async fn insert(cx: &Cx, db: &Database<'_>, id: i64) -> Result<()> {
    let args = [SqlValue::Int(id), text(noise(cx, id.unsigned_abs()))];
    db.exec_with("INSERT INTO t (id, v) VALUES (?, ?)", &args).await.map(drop)
}

/// Fills the database until the quota refuses; returns the number of rows.
async fn fill(cx: &Cx, db: &Database<'_>) -> CaseResult<i64> {
    for id in 1..=1_000 {
        if let Err(error) = insert(cx, db, id).await {
            expect_kind!(Err::<(), _>(error), ErrorKind::QuotaExceeded, "a row over the quota");
            return Ok(id - 1);
        }
    }
    Err(Stop::failed(format_args!("8 MB were stored within a quota of {QUOTA} bytes")))
}
