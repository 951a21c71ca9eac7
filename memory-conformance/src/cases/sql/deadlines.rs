//! TIM: deadlines and concurrency.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use memory_core::ErrorKind;
use memory_core::sql::SqlValue;

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::database::Database;
use crate::cx::{Cx, ms};
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("sql.time.endless-query", [Sql], ["TIM-1", "TIM-2"], |cx| {
        let db = counter(cx).await?;
        let hurried = db.with(|options| options.timeout = Some(ms(100)));
        let started = Instant::now();
        let late = hurried.query(&format!("{ENDLESS} SELECT count(*) FROM s")).await;
        expect_kind!(late, ErrorKind::Timeout, "an endless query");
        was_soon(started, "an endless query")?;
        expect_eq!(db.int("SELECT n FROM t").await?, 0, "the next query");
        db.exec("UPDATE t SET n = 1").await?;
        expect_eq!(db.int("SELECT n FROM t").await?, 1, "after the next write");
    }),
    case!("sql.time.endless-write", [Sql], ["TIM-1", "TIM-2", "SQL-6"], |cx| {
        let db = counter(cx).await?;
        let hurried = db.with(|options| options.timeout = Some(ms(100)));
        let started = Instant::now();
        let late = hurried.exec(&format!("INSERT INTO t {ENDLESS} SELECT i FROM s")).await;
        expect_kind!(late, ErrorKind::Timeout, "an endless insert");
        was_soon(started, "an endless insert")?;
        expect_eq!(db.count("t").await?, 1, "rows after an endless insert");
        let late = hurried.exec(&format!("UPDATE t SET n = ({ENDLESS} SELECT count(*) FROM s)")).await;
        expect_kind!(late, ErrorKind::Timeout, "an endless update");
        expect_eq!(db.int("SELECT n FROM t").await?, 0, "the row after an endless update");
        db.exec("INSERT INTO t VALUES (5)").await?;
        expect_eq!(db.count("t").await?, 2, "rows after the next write");
    }),
    case!("sql.time.one-long-product", [Sql], ["TIM-1"], |cx| {
        let db = counter(cx).await?;
        db.exec("INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 1000) SELECT i FROM s")
        .await?;
        let hurried = db.with(|options| options.timeout = Some(ms(100)));
        let started = Instant::now();
        let late =
            hurried.query("SELECT count(*) FROM t a, t b, t c, t d WHERE a.n + b.n + c.n + d.n = 7").await;
        expect_kind!(late, ErrorKind::Timeout, "10^12 rows of a product");
        was_soon(started, "a product")?;
    }),
    case!("sql.time.others-go-on", [Sql], ["TIM-1", "TIM-2"], |cx| {
        let (busy, other) = (counter(cx).await?, counter(cx).await?);
        let slow = busy.with(|options| options.timeout = Some(ms(700)));
        let sql = format!("{ENDLESS} SELECT count(*) FROM s");
        let late: BoxFuture<'_, CaseResult> = Box::pin(async {
            expect_kind!(slow.query(&sql).await, ErrorKind::Timeout, "an endless query");
            Ok(())
        });
        let quick: BoxFuture<'_, CaseResult> = Box::pin(async {
            for _ in 0..10 {
                other.exec("UPDATE t SET n = n + 1").await?;
            }
            Ok(())
        });
        let same: BoxFuture<'_, CaseResult> = Box::pin(async {
            busy.by_another_run()?.exec("UPDATE t SET n = n + 1").await?;
            Ok(())
        });
        cx.threads(vec![late, quick, same])?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        expect_eq!(other.int("SELECT n FROM t").await?, 10, "increments of another scope");
        expect_eq!(busy.int("SELECT n FROM t").await?, 1, "an increment of the same scope");
    }),
    case!("sql.many.increments", [Sql], ["TIM-3"], |cx| {
        let db = counter(cx).await?;
        let runs = (0..6).map(|_| db.by_another_run()).collect::<CaseResult<Vec<_>>>()?;
        let work = runs.iter().map(|run| Box::pin(count_up(run, 15)) as BoxFuture<'_, CaseResult>).collect();
        cx.threads(work)?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        expect_eq!(db.int("SELECT n FROM t").await?, 90, "six times fifteen increments");
    }),
    case!("sql.many.increments-of-two-handles", [Sql], ["TIM-3", "TIM-6"], |cx| {
        let beside = cx.on(cx.store().another_handle().await?);
        let here = counter(cx).await?;
        let there = beside.database_of(here.scope.clone())?;
        let work: Vec<BoxFuture<'_, CaseResult>> = vec![
            Box::pin(count_up(&here, 25)),
            Box::pin(count_up(&there, 25)),
            Box::pin(count_up(&here, 25)),
        ];
        cx.threads(work)?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        expect_eq!(here.int("SELECT n FROM t").await?, 75, "increments of two handles");
        expect_eq!(there.int("SELECT n FROM t").await?, 75, "the same by the other handle");
    }),
    case!("sql.many.scopes-at-once", [Sql], ["TIM-3", "OWN-1"], |cx| {
        let mut databases = Vec::new();
        for _ in 0..6 {
            databases.push(counter(cx).await?);
        }
        let work =
            databases.iter().map(|db| Box::pin(count_up(db, 10)) as BoxFuture<'_, CaseResult>).collect();
        cx.threads(work)?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        for db in &databases {
            expect_eq!(db.int("SELECT n FROM t").await?, 10, "increments of one of six scopes");
        }
    }),
    case!("sql.many.statement-seen-whole", [Sql], ["TIM-4"], |cx| {
        let db = twenty(cx).await?;
        let reader = db.by_another_run()?;
        let write: BoxFuture<'_, CaseResult> = Box::pin(async {
            for n in 1..=30 {
                db.exec(&format!("UPDATE t SET n = {n}")).await?;
            }
            Ok(())
        });
        cx.threads(vec![write, Box::pin(read_often(&reader))])?
            .into_iter()
            .collect::<CaseResult<Vec<()>>>()?;
    }),
    case!("sql.many.transaction-seen-whole", [Sql, SqlTransactions], ["TIM-4", "TX-2"], |cx| {
        let db = twenty(cx).await?;
        let reader = db.by_another_run()?;
        let write: BoxFuture<'_, CaseResult> = Box::pin(async {
            for n in 1..=15 {
                let (tx, _) = db.begin().await?;
                tx.exec("DELETE FROM t").await?;
                let refill = format!(
                    "INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20) \
                 SELECT {n} FROM s"
                );
                tx.exec(&refill).await?;
                tx.commit().await?;
            }
            Ok(())
        });
        cx.threads(vec![write, Box::pin(read_often(&reader))])?
            .into_iter()
            .collect::<CaseResult<Vec<()>>>()?;
    }),
    case!("sql.many.transactions-one-by-one", [Sql, SqlTransactions], ["TIM-3", "TX-12"], |cx| {
        let db = counter(cx).await?;
        let runs = (0..4).map(|_| db.by_another_run()).collect::<CaseResult<Vec<_>>>()?;
        let work = runs
            .iter()
            .map(|run| {
                Box::pin(async move {
                    for _ in 0..5 {
                        let (tx, _) = run.begin().await?;
                        tx.exec("UPDATE t SET n = n + 1").await?;
                        tx.exec("INSERT INTO t VALUES (0)").await?;
                        tx.commit().await?;
                    }
                    Ok(())
                }) as BoxFuture<'_, CaseResult>
            })
            .collect();
        cx.threads(work)?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        expect_eq!(db.int("SELECT CAST(max(n) AS INTEGER) FROM t").await?, 20, "increments of transactions");
        expect_eq!(db.count("t").await?, 21, "rows of transactions");
    }),
    case!("sql.future.dropped", [Sql], ["TIM-5"], |cx| {
        let db = counter(cx).await?;
        for round in 1..=10 {
            let mut write: BoxFuture<'_, _> =
                Box::pin(async { db.exec("INSERT INTO t VALUES (1), (2), (3)").await });
            let polled = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            drop(write);
            if let Poll::Ready(outcome) = polled {
                outcome?;
            }
            // A dropped write may still be running; the next write comes after it.
            db.exec("UPDATE t SET n = n").await?;
            let rows = db.count("t").await?;
            check!(
                rows % 3 == 1,
                "{rows} rows after {round} dropped inserts of three: one was written in part"
            );
        }
    }),
    case!("sql.future.dropped-query", [Sql], ["TIM-5"], |cx| {
        let db = counter(cx).await?;
        let sql = format!("{ENDLESS} SELECT count(*) FROM s");
        // A provider may work inside the poll: the deadline limits a single poll too.
        let slow = db.with(|options| options.timeout = Some(ms(400)));
        for _ in 0..20 {
            let mut query: BoxFuture<'_, _> = Box::pin(async { slow.query(&sql).await });
            if query.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
        }
        let next = db.with(|options| options.timeout = Some(ms(30_000)));
        expect_eq!(next.int("SELECT n FROM t").await?, 0, "a query after many that were dropped");
        next.exec("UPDATE t SET n = 1").await?;
        expect_eq!(next.int("SELECT n FROM t").await?, 1);
    }),
];

const ENDLESS: &str = "WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s)";

async fn counter<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE t (n INTEGER)").await?;
    db.exec("INSERT INTO t VALUES (0)").await?;
    Ok(db)
}

/// Fails if the deadline of 100 ms was exceeded by far.
fn was_soon(started: Instant, what: &str) -> CaseResult {
    let took = started.elapsed();
    check!(took < Duration::from_secs(8), "{what} with a deadline of 100 ms took {} ms", took.as_millis());
    Ok(())
}

async fn count_up(db: &Database<'_>, times: u32) -> CaseResult {
    for _ in 0..times {
        let outcome = db.exec("UPDATE t SET n = n + 1").await?;
        expect_eq!(outcome.rows_affected, 1, "rows of one increment");
    }
    Ok(())
}

/// Reads while another task writes; every answer must be one of the complete states.
async fn read_often(db: &Database<'_>) -> CaseResult {
    for _ in 0..60 {
        let rows = db.rows("SELECT count(DISTINCT n), count(*) FROM t").await?;
        expect_eq!(rows, [[SqlValue::Int(1), SqlValue::Int(20)]], "different numbers and rows of one answer");
    }
    Ok(())
}

async fn twenty<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE t (n INTEGER)").await?;
    db.exec("INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20) SELECT 0 FROM s")
        .await?;
    Ok(db)
}
