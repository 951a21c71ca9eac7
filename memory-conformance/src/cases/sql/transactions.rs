//! TX: a transaction as seen by its owner.

use std::collections::BTreeSet;

use memory_core::sql::{SqlValue, TxId};
use memory_core::{Error, ErrorKind, SqlDialect};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::database::Database;
use crate::cx::{Cx, ms};

pub(crate) const CASES: &[Case] = &[
    case!("sql.tx.commits", [Sql, SqlTransactions], ["TX-1", "TX-2"], |cx| {
        let db = table(cx).await?;
        let (tx, state) = db.begin().await?;
        expect_eq!(state.depth, 1, "the depth of a transaction just opened");
        tx.exec("INSERT INTO t VALUES (1)").await?;
        tx.exec("INSERT INTO t VALUES (2)").await?;
        let state = tx.commit().await?;
        expect_eq!(state.depth, 0, "the depth after the last commit");
        expect_eq!(db.ints(ALL).await?, [1, 2], "what was committed");
        expect_eq!(
            db.by_another_run()?.ints(ALL).await?,
            [1, 2],
            "what was committed, as another run sees it"
        );
    }),
    case!("sql.tx.rolls-back", [Sql, SqlTransactions], ["TX-2"], |cx| {
        let db = table(cx).await?;
        db.exec("INSERT INTO t VALUES (1)").await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (2)").await?;
        tx.exec("UPDATE t SET n = n + 10").await?;
        tx.exec("DELETE FROM t WHERE n = 11").await?;
        expect_eq!(tx.rollback().await?.depth, 0, "the depth after the last rollback");
        expect_eq!(db.ints(ALL).await?, [1], "after a rollback");
        db.exec("INSERT INTO t VALUES (3)").await?;
        expect_eq!(db.ints(ALL).await?, [1, 3], "after a later write");
    }),
    case!("sql.tx.rolls-tables-back", [Sql, SqlTransactions], ["TX-2"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("CREATE TABLE other (n INTEGER)").await?;
        tx.exec("ALTER TABLE t ADD COLUMN word TEXT").await?;
        tx.exec("INSERT INTO other VALUES (1)").await?;
        tx.rollback().await?;
        expect_kind!(
            db.query("SELECT * FROM other").await,
            ErrorKind::InvalidArgument,
            "a table that was rolled back"
        );
        expect_kind!(
            db.query("SELECT word FROM t").await,
            ErrorKind::InvalidArgument,
            "a column that was rolled back"
        );
    }),
    case!("sql.tx.unseen-until-commit", [Sql, SqlTransactions], ["TX-2"], |cx| {
        let db = table(cx).await?;
        db.exec("INSERT INTO t VALUES (1)").await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (2)").await?;
        tx.exec("CREATE TABLE other (n INTEGER)").await?;
        expect_eq!(db.ints(ALL).await?, [1], "as the same run sees it outside of the transaction");
        expect_eq!(db.by_another_run()?.ints(ALL).await?, [1], "as another run sees it");
        check!(
            db.query("SELECT * FROM other").await.is_err(),
            "a table is seen before its transaction commits"
        );
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1, 2], "after the commit");
        expect_eq!(db.count("other").await?, 0);
    }),
    case!("sql.tx.reads-its-own", [Sql, SqlTransactions], ["TX-2", "TX-1"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1), (2)").await?;
        expect_eq!(tx.ints(ALL).await?, [1, 2], "`query` within the transaction");
        let counted = tx.exec("UPDATE t SET n = n + (SELECT count(*) FROM t) * 10 RETURNING n").await?;
        expect_eq!(counted.rows_affected, 2, "rows of the transaction that an update finds");
        expect_eq!(tx.ints(ALL).await?, [21, 22]);
        tx.rollback().await?;
    }),
    case!("sql.tx.unnamed-commits-alone", [Sql, SqlTransactions], ["TX-3"], |cx| {
        let (db, other) = (table(cx).await?, table(cx).await?);
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        // The same run, another scope, no transaction named.
        let elsewhere = other.by(&db.run);
        elsewhere.exec("INSERT INTO t VALUES (7)").await?;
        tx.rollback().await?;
        expect_eq!(
            elsewhere.ints(ALL).await?,
            [7],
            "what committed by itself while the run had a transaction open"
        );
        db.exec("INSERT INTO t VALUES (2)").await?;
        expect_eq!(db.ints(ALL).await?, [2], "what committed by itself after the transaction");
    }),
    case!("sql.tx.unknown-is-lost", [Sql, SqlTransactions], ["TX-4"], |cx| {
        let db = table(cx).await?;
        db.exec("INSERT INTO t VALUES (1)").await?;
        let (real, state) = db.begin().await?;
        real.rollback().await?;
        let longer = format!("{}0", state.tx.as_str());
        for name in ["", "tx", "0", "1", &longer, &"x".repeat(10_000), "'; DROP TABLE t; --", "\0", "../../x"]
        {
            let shown: String = name.chars().take(20).collect();
            is_lost(&db.within(&TxId::new(name)), &format!("named {shown:?}")).await?;
        }
        expect_eq!(db.ints(ALL).await?, [1], "after statements in transactions that never were");
    }),
    case!("sql.tx.ended-is-lost", [Sql, SqlTransactions], ["TX-4"], |cx| {
        let db = table(cx).await?;
        let (committed, _) = db.begin().await?;
        committed.exec("INSERT INTO t VALUES (1)").await?;
        committed.commit().await?;
        is_lost(&committed, "that was committed").await?;
        let (undone, _) = db.begin().await?;
        undone.exec("INSERT INTO t VALUES (2)").await?;
        undone.rollback().await?;
        is_lost(&undone, "that was rolled back").await?;
        let (open, _) = db.begin().await?;
        is_lost(&committed, "that was committed, while another is open").await?;
        open.exec("INSERT INTO t VALUES (3)").await?;
        open.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1, 3]);
    }),
    case!("sql.tx.of-another-scope-is-lost", [Sql, SqlTransactions], ["TX-4", "OWN-1"], |cx| {
        let (mine, theirs) = (table(cx).await?, table(cx).await?);
        let (tx, state) = theirs.begin().await?;
        is_lost(&mine.by(&theirs.run).within(&state.tx), "of another scope, by its own run").await?;
        is_lost(&mine.within(&state.tx), "of another scope").await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        tx.commit().await?;
        expect_eq!((mine.count("t").await?, theirs.count("t").await?), (0, 1));
    }),
    case!("sql.tx.of-another-tenant-is-lost", [Sql, SqlTransactions], ["TX-4", "OWN-1"], |cx| {
        let theirs = table(cx).await?;
        let mut scope = theirs.scope.clone();
        scope.tenant = cx.other_tenant()?;
        let mine = cx.database_of(scope)?;
        mine.exec("CREATE TABLE t (n INTEGER)").await?;
        let (tx, state) = theirs.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        is_lost(&mine.within(&state.tx), "of another tenant").await?;
        tx.commit().await?;
        expect_eq!((mine.count("t").await?, theirs.count("t").await?), (0, 1));
    }),
    case!("sql.tx.names-never-return", [Sql, SqlTransactions], ["TX-15"], |cx| {
        let (one, other) = (table(cx).await?, table(cx).await?);
        let mut seen = BTreeSet::new();
        for at in 0..20 {
            let db = if at % 3 == 0 { &other } else { &one };
            let (tx, state) = db.begin().await?;
            check!(seen.insert(state.tx.clone()), "transaction {at} has the name of an earlier one");
            if at % 2 == 0 {
                tx.commit().await?
            } else {
                tx.rollback().await?
            };
        }
    }),
    case!("sql.savepoint.rolls-back-alone", [Sql, SqlTransactions], ["TX-5"], |cx| {
        let db = table(cx).await?;
        let (tx, state) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let inner = tx.savepoint().await?;
        expect_eq!((&inner.tx, inner.depth), (&state.tx, 2), "the name and depth of a savepoint");
        tx.exec("INSERT INTO t VALUES (2)").await?;
        let left = tx.rollback().await?;
        expect_eq!(left.depth, 1, "the depth that is left");
        expect_eq!(tx.ints(ALL).await?, [1], "in the transaction, after its savepoint was rolled back");
        tx.exec("INSERT INTO t VALUES (3)").await?;
        expect_eq!(tx.commit().await?.depth, 0);
        expect_eq!(db.ints(ALL).await?, [1, 3], "what the transaction committed");
    }),
    case!("sql.savepoint.commit-joins-the-outer", [Sql, SqlTransactions], ["TX-5"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.savepoint().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        expect_eq!(tx.commit().await?.depth, 1, "the depth after a savepoint was committed");
        expect_eq!(db.ints(ALL).await?, [0_i64; 0], "outside, after only a savepoint was committed");
        expect_eq!(tx.ints(ALL).await?, [1]);
        tx.rollback().await?;
        expect_eq!(db.ints(ALL).await?, [0_i64; 0], "after the transaction around it was rolled back");
    }),
    case!("sql.savepoint.depths", [Sql, SqlTransactions], ["TX-5", "TX-1"], |cx| {
        let db = table(cx).await?;
        let (tx, first) = db.begin().await?;
        let mut seen = vec![first.depth];
        for n in 2..=4 {
            seen.push(tx.savepoint().await?.depth);
            tx.exec(&format!("INSERT INTO t VALUES ({n})")).await?;
        }
        for rolls_back in [true, false, true] {
            let state = if rolls_back { tx.rollback().await? } else { tx.commit().await? };
            expect_eq!(state.tx, first.tx, "the name that `commit` and `rollback` answer");
            seen.push(state.depth);
        }
        expect_eq!(seen, [1, 2, 3, 4, 3, 2, 1], "depths on the way in and out");
        expect_eq!(tx.ints(ALL).await?, [0_i64; 0], "an inner commit survived the rollback around it");
        tx.exec("INSERT INTO t VALUES (9)").await?;
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [9]);
    }),
    case!("sql.savepoint.deepest", [Sql, SqlTransactions], ["TX-6"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        for depth in 2..=17 {
            expect_eq!(tx.savepoint().await?.depth, depth, "the depth of a savepoint");
            tx.exec(&format!("INSERT INTO t VALUES ({depth})")).await?;
        }
        let error = expect_kind!(tx.savepoint().await, ErrorKind::TransactionLimit, "an eighteenth level");
        check!(said_open(&error)?, "an eighteenth level is said to have ended the transaction");
        expect_eq!(tx.count("t").await?, 16, "rows in the transaction after a savepoint was refused");
        expect_eq!(tx.rollback().await?.depth, 16, "the depth after one rollback");
        expect_eq!(tx.savepoint().await?.depth, 17, "a savepoint after one was rolled back");
        for depth in (0..=16).rev() {
            expect_eq!(tx.commit().await?.depth, depth, "the depth after a commit");
        }
        expect_eq!(db.count("t").await?, 15, "rows of the levels that committed");
    }),
    case!("sql.tx.failed-statement-leaves-it-open", [Sql, SqlTransactions], ["TX-8"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        for statement in [
            cx.in_dialect("INSERT OR FAIL INTO t VALUES (2), (1)", "INSERT INTO t VALUES (2), (1)"),
            "INSERT INTO t VALUES (2), (1)",
            "INSERT INTO missing VALUES (1)",
            "SELECT missing FROM t",
        ] {
            let error = expect_kind!(tx.exec(statement).await, ErrorKind::InvalidArgument, "`{statement}`");
            check!(said_open(&error)?, "`{statement}` is said to have ended the transaction");
            expect_eq!(tx.ints(ALL).await?, [1], "in the transaction after `{statement}`");
        }
        tx.exec("INSERT INTO t VALUES (3)").await?;
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1, 3], "what a transaction with failed statements committed");
    }),
    case!("sql.tx.failed-in-savepoint", [Sql, SqlTransactions], ["TX-8", "TX-5"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        tx.savepoint().await?;
        tx.exec("INSERT INTO t VALUES (2)").await?;
        expect_kind!(
            tx.exec("INSERT INTO t VALUES (3), (2)").await,
            ErrorKind::InvalidArgument,
            "a repeated key"
        );
        expect_eq!(tx.ints(ALL).await?, [1, 2], "in the savepoint after a failed statement");
        expect_eq!(tx.rollback().await?.depth, 1, "the depth after the savepoint was rolled back");
        expect_eq!(tx.ints(ALL).await?, [1]);
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1]);
    }),
    case!("sql.tx.refused-statement-leaves-it-open", [Sql, SqlTransactions], ["TX-8"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let reach = cx.in_dialect("ATTACH ':memory:' AS x", "COPY t TO '/tmp/x'");
        let few = "INSERT INTO t VALUES (?)";
        for error in [
            expect_kind!(tx.exec(reach).await, ErrorKind::StatementRefused, "`{reach}` in a transaction"),
            expect_kind!(tx.exec(few).await, ErrorKind::InvalidArgument, "an argument too few"),
            expect_kind!(tx.query("DELETE FROM t").await, ErrorKind::ReadOnly, "a write by `query`"),
        ] {
            check!(said_open(&error)?, "a refused statement is said to have ended the transaction: {error}");
        }
        tx.exec("INSERT INTO t VALUES (2)").await?;
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1, 2], "what a transaction with refused statements committed");
    }),
    case!("sql.tx.late-statement-is-told", [Sql, SqlTransactions], ["TX-8", "TIM-1"], |cx| {
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let hurried = tx.with(|options| options.timeout = Some(ms(100)));
        let endless =
            "INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM s) SELECT i FROM s";
        let error = expect_kind!(hurried.exec(endless).await, ErrorKind::Timeout, "an endless insert");
        is_as_told(&db, &tx, &error, "a statement that took too long").await?;
    }),
    case!("sql.tx.full-is-told", [Sql, SqlTransactions], ["TX-8", "QTA-1"], |cx| {
        let db = table(cx).await?;
        db.exec("CREATE TABLE big (v TEXT)").await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        let cramped = tx.with(|options| options.quota_bytes = Some(256 << 10));
        let fill = "INSERT INTO big WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 50000) \
                SELECT 'some text of some length that takes room' FROM s";
        let error =
            expect_kind!(cramped.exec(fill).await, ErrorKind::QuotaExceeded, "two megabytes in 256 KiB");
        is_as_told(&db, &tx, &error, "a statement that found no room").await?;
    }),
    case!("sql.tx.or-rollback-is-told", [Sql, SqlTransactions], ["TX-8", "REF-3"], |cx| {
        if cx.dialect() != SqlDialect::Sqlite {
            return Err(Stop::skipped("the dialect has no `OR ROLLBACK`"));
        }
        let db = table(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO t VALUES (1)").await?;
        for statement in ["INSERT OR ROLLBACK INTO t VALUES (1)", "UPDATE OR ROLLBACK t SET n = 1"] {
            let error = match tx.exec(statement).await {
                // An update of one row to the same number violates nothing.
                Ok(_) => continue,
                Err(error) => error,
            };
            if error.kind() != ErrorKind::StatementRefused {
                return is_as_told(&db, &tx, &error, "`OR ROLLBACK`").await;
            }
        }
        expect_eq!(tx.ints(ALL).await?, [1], "in the transaction after refused statements");
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1]);
    }),
    case!("sql.tx.refused-commit-is-told", [Sql, SqlTransactions], ["TX-16"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE t (n INTEGER PRIMARY KEY)",
            "CREATE TABLE c (n INTEGER REFERENCES t (n) DEFERRABLE INITIALLY DEFERRED)",
        ])
        .await?;
        let (tx, _) = db.begin().await?;
        tx.exec_with("INSERT INTO c VALUES (?)", &[SqlValue::Int(5)]).await?;
        let error = expect_kind!(tx.commit().await, ErrorKind::InvalidArgument, "a commit of an orphan");
        check!(db.count("c").await? == 0, "a commit that was refused has committed");
        if said_open(&error)? {
            tx.exec("INSERT INTO t VALUES (5)").await?;
            expect_eq!(tx.commit().await?.depth, 0, "the depth after a commit that was put right");
            expect_eq!(db.count("c").await?, 1);
        } else {
            is_lost(&tx, "whose commit was refused").await?;
        }
    }),
];

async fn table<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE t (n INTEGER UNIQUE)").await?;
    Ok(db)
}

const ALL: &str = "SELECT n FROM t ORDER BY n";

/// Every call that names the transaction is `transaction_lost` and has no effect.
pub(super) async fn is_lost(db: &Database<'_>, why: &str) -> CaseResult {
    let lost = ErrorKind::TransactionLost;
    let error =
        expect_kind!(db.exec("INSERT INTO t VALUES (4711)").await, lost, "`exec` in a transaction {why}");
    check!(!said_open(&error)?, "a transaction {why} is reported as open");
    expect_kind!(db.exec("DELETE FROM t").await, lost, "another `exec` in a transaction {why}");
    expect_kind!(db.query("SELECT 1").await, lost, "`query` in a transaction {why}");
    expect_kind!(db.savepoint().await, lost, "a savepoint in a transaction {why}");
    expect_kind!(db.commit().await, lost, "`commit` of a transaction {why}");
    expect_kind!(db.rollback().await, lost, "`rollback` of a transaction {why}");
    Ok(())
}

/// Whether the transaction is open, according to an error.
fn said_open(error: &Error) -> CaseResult<bool> {
    match error.details().get("transaction").and_then(|value| value.as_str()) {
        Some("open") => Ok(true),
        Some("lost") => Ok(false),
        other => Err(Stop::failed(format_args!(
            "details.transaction is {other:?}, expected \"open\" or \"lost\", in {}: {error}",
            error.kind()
        ))),
    }
}

/// After a failed statement the transaction is as reported: open with row 1 only, or lost entirely.
async fn is_as_told(db: &Database<'_>, tx: &Database<'_>, error: &Error, what: &str) -> CaseResult {
    if said_open(error)? {
        expect_eq!(tx.ints(ALL).await?, [1], "in the transaction after {what}");
        tx.exec("INSERT INTO t VALUES (2)").await?;
        tx.commit().await?;
        expect_eq!(db.ints(ALL).await?, [1, 2], "what was committed after {what}");
    } else {
        is_lost(tx, &format!("that {what} ended")).await?;
        expect_eq!(db.ints(ALL).await?, [0_i64; 0], "rows of a transaction that {what} ended");
    }
    // In either case the scope works.
    db.with(|options| options.timeout = Some(ms(30_000))).exec("INSERT INTO t VALUES (99)").await?;
    Ok(())
}
