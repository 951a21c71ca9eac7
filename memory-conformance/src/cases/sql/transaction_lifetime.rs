//! TX: transactions among concurrent callers, and how abandoned ones end.

use std::task::{Context, Poll, Waker};

use memory_core::{ErrorKind, RunContext, ScopeId, ScopeKind};

use super::transactions::is_lost;
use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::database::Database;
use crate::cx::{Cx, ms};
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("sql.tx.most-at-once", [Sql, SqlTransactions], ["TX-7"], |cx| {
        let mut open = Vec::new();
        let refused = loop {
            let db = cx.database()?;
            match db.begin().await {
                Ok((tx, _)) => open.push(tx),
                refused => break refused.map(|(_, state)| state),
            }
            check!(open.len() <= 1_024, "more than 1,024 transactions are open at the same time");
        };
        expect_kind!(refused, ErrorKind::TransactionLimit, "one transaction more than {}", open.len());
        check!(!open.is_empty(), "not even one transaction can be open");
        for tx in &open {
            expect_eq!(tx.int("SELECT 1").await?, 1, "a statement in a transaction when all are open");
        }
        if let Some(tx) = open.pop() {
            tx.rollback().await?;
        }
        let (one, _) = cx.database()?.begin().await?;
        one.rollback().await?;
        for tx in open {
            tx.rollback().await?;
        }
    }),
    case!("sql.tx.survives-its-caller", [Sql, SqlTransactions], ["TX-9"], |cx| {
        let db = table(cx).await?;
        // Each call from a thread that ends after it.
        let begin: BoxFuture<'_, _> = Box::pin(async { db.begin().await });
        let mut begun = cx.threads(vec![begin])?;
        let Some(begun) = begun.pop() else { return Err(Stop::failed("no thread")) };
        let (tx, _) = begun?;
        for n in 1..=3 {
            let tx = &tx;
            let write: BoxFuture<'_, _> =
                Box::pin(async move { tx.exec(&format!("INSERT INTO t VALUES ({n})")).await });
            cx.threads(vec![write])?.into_iter().collect::<Result<Vec<_>, _>>()?;
        }
        expect_eq!(db.count("t").await?, 0, "rows outside, before the commit");
        let commit: BoxFuture<'_, _> = Box::pin(async { tx.commit().await });
        cx.threads(vec![commit])?.into_iter().collect::<Result<Vec<_>, _>>()?;
        expect_eq!(db.ints(ALL).await?, [1, 2, 3], "what calls of several threads wrote in one transaction");
    }),
    case!("sql.tx.idle-is-rolled-back", [Sql, SqlTransactions], ["TX-9", "TX-4"], |cx| {
        let cx = &cx.with_tx_idle(ms(IDLE)).await?;
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        // A waiting writer proceeds without any action by the one that left.
        pass(cx, IDLE + 1_000);
        db.by_another_run()?
            .with(|options| options.timeout = Some(ms(30_000)))
            .exec("INSERT INTO t VALUES (2)")
            .await?;
        is_lost(&tx, "that lay idle for too long").await?;
        expect_eq!(db.ints(ALL).await?, [2], "rows of a transaction that was idle for too long");
    }),
    case!("sql.tx.use-keeps-it", [Sql, SqlTransactions], ["TX-9"], |cx| {
        let cx = &cx.with_tx_idle(ms(IDLE)).await?;
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        for n in 0..6 {
            pass(cx, IDLE / 4);
            tx.exec(&format!("INSERT INTO t VALUES ({n})")).await?;
        }
        tx.commit().await?;
        expect_eq!(db.count("t").await?, 6, "rows of a transaction that was used throughout");
    }),
    case!("sql.tx.ends-with-its-run", [Sql, SqlTransactions], ["TX-10"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        cx.provider().end_run(&db.run.tenant, &db.run.root_run).await?;
        is_lost(&tx, "whose run has ended").await?;
        let other = db.by_another_run()?.with(|options| options.timeout = Some(ms(BEFORE_IDLE)));
        other.exec("INSERT INTO t VALUES (2)").await?;
        expect_eq!(db.ints(ALL).await?, [2], "after the run of a transaction has ended");
    }),
    case!("sql.tx.ends-with-its-run-in-every-scope", [Sql, SqlTransactions], ["TX-10"], |cx| {
        let first = table(cx).await?;
        let mut open = Vec::new();
        for kind in [ScopeKind::Agent, ScopeKind::User, ScopeKind::Run] {
            let db = cx.database_of(cx.scope_of(kind)?)?.by(&first.run);
            db.exec("CREATE TABLE t (n INTEGER)").await?;
            let (tx, _) = db.begin().await?;
            tx.exec("INSERT INTO t VALUES (1)").await?;
            tx.savepoint().await?;
            open.push((db, tx));
        }
        // A child of the tree has one open too.
        let child = child_of(&first.run)?;
        let (tx, _) = first.by(&child).begin().await?;
        open.push((first.clone(), tx));
        cx.provider().end_run(&first.run.tenant, &first.run.root_run).await?;
        for (db, tx) in open {
            is_lost(&tx, "whose run has ended").await?;
            expect_eq!(db.by_another_run()?.count("t").await?, 0, "rows of a {:?} scope", db.scope.kind);
        }
    }),
    case!("sql.tx.of-other-runs-goes-on", [Sql, SqlTransactions], ["TX-10"], |cx| {
        let (db, other) = (table(cx).await?, table(cx).await?);
        let (tx, _) = db.begin().await?;
        let (theirs, _) = other.begin().await?;
        theirs.exec("INSERT INTO t VALUES (1)").await?;
        cx.provider().end_run(&db.run.tenant, &db.run.root_run).await?;
        is_lost(&tx, "whose run has ended").await?;
        // A run with the same name in another tenant.
        cx.provider().end_run(&cx.other_tenant()?, &other.run.root_run).await?;
        theirs.exec("INSERT INTO t VALUES (2)").await?;
        theirs.commit().await?;
        expect_eq!(other.ints(ALL).await?, [1, 2], "what a run wrote while others ended");
    }),
    case!("sql.tx.readers-do-not-wait", [Sql, SqlTransactions], ["TX-11"], |cx| {
        let db = table(cx).await?;
        db.exec("INSERT INTO t VALUES (1)").await?;
        let (tx, _) = db.begin().await?;
        tx.exec("UPDATE t SET n = 100").await?;
        let reader = db.by_another_run()?.with(|options| options.timeout = Some(ms(30_000)));
        for _ in 0..5 {
            expect_eq!(reader.ints(ALL).await?, [1], "a query while a transaction is open");
            tx.exec("UPDATE t SET n = n + 1").await?;
        }
        check!(reader.tables().await?.len() == 1, "`describe_tables` while a transaction is open");
        reader.bytes().await?;
        tx.commit().await?;
        expect_eq!(reader.ints(ALL).await?, [105], "a query after the commit");
    }),
    case!("sql.tx.writer-waits", [Sql, SqlTransactions], ["TX-12"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let other = db.by_another_run()?.with(|options| options.timeout = Some(ms(30_000)));
        let write: BoxFuture<'_, CaseResult> = Box::pin(async {
            other.exec("INSERT INTO t SELECT count(*) * 10 FROM t").await?;
            Ok(())
        });
        let end: BoxFuture<'_, CaseResult> = Box::pin(async {
            std::thread::sleep(ms(100));
            tx.exec("INSERT INTO t VALUES (2)").await?;
            tx.commit().await?;
            Ok(())
        });
        cx.threads(vec![write, end])?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        expect_eq!(db.ints(ALL).await?, [1, 2, 20], "a writer that waited, and what it found");
    }),
    case!("sql.tx.writer-times-out", [Sql, SqlTransactions], ["TX-12", "TIM-1"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let hurried = db.by_another_run()?.with(|options| options.timeout = Some(ms(80)));
        expect_kind!(
            hurried.exec("INSERT INTO t VALUES (2)").await,
            ErrorKind::Timeout,
            "a writer while a transaction is open"
        );
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1], "after a writer has given up");
        db.by_another_run()?.exec("INSERT INTO t VALUES (3)").await?;
        expect_eq!(db.ints(ALL).await?, [1, 3]);
    }),
    case!("sql.tx.begin-waits", [Sql, SqlTransactions], ["TX-12"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let other = db.by_another_run()?;
        let second: BoxFuture<'_, CaseResult> = Box::pin(async {
            let (second, state) = other.begin().await?;
            expect_eq!(state.depth, 1, "the depth of the second transaction of a scope");
            second.exec("INSERT INTO t SELECT count(*) * 10 FROM t").await?;
            second.commit().await?;
            Ok(())
        });
        let first: BoxFuture<'_, CaseResult> = Box::pin(async {
            std::thread::sleep(ms(50));
            tx.commit().await?;
            Ok(())
        });
        cx.threads(vec![second, first])?.into_iter().collect::<CaseResult<Vec<()>>>()?;
        expect_eq!(db.count("t").await?, 2, "rows of two transactions, one after the other");
    }),
    case!("sql.tx.dropped-begin", [Sql, SqlTransactions], ["TX-13"], |cx| {
        let db = table(cx).await?;
        for _ in 0..10 {
            let begin: BoxFuture<'_, _> = Box::pin(async { db.begin().await });
            if let Some(Ok((tx, _))) = poll_once(begin).await {
                tx.rollback().await?;
            }
        }
        let other = db.by_another_run()?.with(|options| options.timeout = Some(ms(BEFORE_IDLE)));
        other.exec("INSERT INTO t VALUES (1)").await?;
        expect_eq!(db.count("t").await?, 1, "rows after dropped calls of `begin`");
    }),
    case!("sql.tx.another-run-joins-by-name", [Sql, SqlTransactions], ["TX-14"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let child = child_of(&db.run)?;
        expect_eq!(
            db.by(&child).count("t").await?,
            0,
            "rows that a child sees without naming the transaction"
        );
        let joined = tx.by(&child);
        expect_eq!(joined.ints(ALL).await?, [1], "rows that a child sees in the transaction");
        joined.exec("INSERT INTO t VALUES (2)").await?;
        joined.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1, 2], "what two runs wrote in one transaction");
    }),
    case!("sql.tx.dropped-statement", [Sql, SqlTransactions], ["TIM-5", "TX-9"], |cx| {
        let db = table(cx).await?;
        for round in 0..5 {
            db.exec("DELETE FROM t").await?;
            let (tx, _) = db.begin().await?;
            tx.exec("INSERT INTO t VALUES (1)").await?;
            let write: BoxFuture<'_, _> = Box::pin(async { tx.exec("INSERT INTO t VALUES (2), (3)").await });
            drop(poll_once(write).await);
            match tx.commit().await {
                Ok(state) => {
                    expect_eq!(state.depth, 0, "the depth after the commit, round {round}");
                    let rows = db.ints(ALL).await?;
                    check!(
                        rows == [1] || rows == [1, 2, 3],
                        "a dropped statement has written in part: {rows:?}, round {round}"
                    );
                }
                lost => {
                    expect_kind!(lost, ErrorKind::TransactionLost, "a commit after a dropped statement");
                    expect_eq!(db.ints(ALL).await?, [0_i64; 0], "rows of a lost transaction");
                }
            }
        }
    }),
];

async fn table<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE t (n INTEGER)").await?;
    Ok(db)
}

const ALL: &str = "SELECT n FROM t ORDER BY n";

/// Polls once, then drops.
async fn poll_once<T>(mut future: BoxFuture<'_, T>) -> Option<T> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Long for a statement, short to wait for.
const IDLE: u64 = 2_500;

/// Less than the default idle limit, at whose end a transaction that was left open no longer blocks.
const BEFORE_IDLE: u64 = 10_000;

/// Lets time pass on both clocks.
fn pass(cx: &Cx, millis: u64) {
    cx.advance_ms(millis);
    std::thread::sleep(ms(millis));
}

fn child_of(run: &RunContext) -> CaseResult<RunContext> {
    let mut child = run.clone();
    child.run = ScopeId::new(format!("{}-child", run.run))?;
    Ok(child)
}
