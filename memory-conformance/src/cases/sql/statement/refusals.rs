//! REF: what no statement may do, and the resulting errors.

use memory_core::sql::SqlValue;
use memory_core::{Error, ErrorKind};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind, expect_some};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.refuse.second-statement", [Sql], ["REF-1"], |cx| {
        let db = precious(cx).await?;
        for two in [
            "SELECT 1; SELECT 2",
            "INSERT INTO precious (id) VALUES (3); DROP TABLE precious",
            "DELETE FROM precious; --",
            "SELECT 1; DELETE FROM precious",
            "SELECT ';'; UPDATE precious SET word = 'x'",
            "SELECT 1 /* ; */ ; /* ; */ DELETE FROM precious;",
            "SELECT 1;;DELETE FROM precious",
        ] {
            let is_one = two.ends_with("--");
            let outcome = db.exec(two).await;
            if is_one {
                // A comment after the end is not a second statement: this one runs and is undone.
                expect_eq!(outcome?.rows_affected, 2, "`{two}`");
                db.exec("INSERT INTO precious (id, word) VALUES (1, 'one'), (2, 'two')").await?;
                continue;
            }
            expect_kind!(outcome, ErrorKind::StatementRefused, "`{two}` by `exec`");
            let asked = db.query(two).await;
            check!(asked.is_err(), "`{two}` by `query` succeeded");
            is_untouched(&db, two).await?;
        }
    }),
    case!("sql.refuse.final-semicolon-is-none", [Sql], ["REF-1"], |cx| {
        let db = precious(cx).await?;
        for one in
            ["SELECT 7;", " \n SELECT 7 ; \t\n", "/* a; b */ SELECT 7 -- ; c\n;", "-- x\nSELECT 7; -- end"]
        {
            expect_eq!(db.int(one).await?, 7, "`{one}`");
        }
    }),
    case!("sql.refuse.write-in-query", [Sql], ["REF-2"], |cx| {
        let db = precious(cx).await?;
        for write in writes(cx) {
            expect_kind!(db.query(write).await, ErrorKind::ReadOnly, "`{write}` by `query`");
            is_untouched(&db, write).await?;
        }
    }),
    case!("sql.refuse.write-in-query-within-transaction", [Sql, SqlTransactions], ["REF-2"], |cx| {
        let db = precious(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("UPDATE precious SET word = 'two' WHERE id = 2").await?;
        for write in writes(cx) {
            expect_kind!(tx.query(write).await, ErrorKind::ReadOnly, "`{write}` by `query` in a transaction");
            expect_eq!(tx.count("precious").await?, 2, "rows in the transaction after `{write}`");
        }
        tx.exec("UPDATE precious SET word = 'one' WHERE id = 1").await?;
        tx.commit().await?;
        is_untouched(&db, "refused writes in a transaction").await?;
    }),
    case!("sql.refuse.transaction-words", [Sql], ["REF-3"], |cx| {
        let db = precious(cx).await?;
        for word in TRANSACTION_WORDS {
            expect_kind!(db.exec(word).await, ErrorKind::StatementRefused, "`{word}` by `exec`");
            check!(db.query(word).await.is_err(), "`{word}` by `query` succeeded");
            is_untouched(&db, word).await?;
        }
        db.exec("INSERT INTO precious (id) VALUES (3)").await?;
        expect_eq!(db.by_another_run()?.count("precious").await?, 3, "rows as another run sees them");
    }),
    case!("sql.refuse.transaction-words-within-one", [Sql, SqlTransactions], ["REF-3"], |cx| {
        let db = precious(cx).await?;
        let (tx, _) = db.begin().await?;
        tx.exec("INSERT INTO precious (id) VALUES (3)").await?;
        for word in TRANSACTION_WORDS {
            expect_kind!(tx.exec(word).await, ErrorKind::StatementRefused, "`{word}` in a transaction");
            expect_eq!(tx.count("precious").await?, 3, "rows in the transaction after `{word}`");
            expect_eq!(db.by_another_run()?.count("precious").await?, 2, "rows outside of it after `{word}`");
        }
        expect_eq!(tx.rollback().await?.depth, 0);
        is_untouched(&db, "a transaction that was rolled back").await?;
    }),
    case!("sql.refuse.reaching-out", [Sql], ["REF-4"], |cx| {
        let db = precious(cx).await?;
        for statement in outward(cx) {
            expect_kind!(db.exec(statement).await, ErrorKind::StatementRefused, "`{statement}` by `exec`");
            is_untouched(&db, statement).await?;
        }
    }),
    case!("sql.refuse.reaching-out-in-query", [Sql], ["REF-4"], |cx| {
        let db = precious(cx).await?;
        for statement in outward(cx) {
            let error =
                expect_some!(db.query(statement).await.err(), "the refusal of `{statement}` by `query`");
            check!(
                matches!(error.kind(), ErrorKind::StatementRefused | ErrorKind::ReadOnly),
                "`{statement}` by `query` failed with {}, which is not a refusal: {error}",
                error.kind()
            );
            is_untouched(&db, statement).await?;
        }
    }),
    case!("sql.refuse.own-names", [Sql], ["REF-5"], |cx| {
        let statements = cx.in_dialect(
            vec![
                "CREATE TABLE _mem_state (n INTEGER)",
                "CREATE TABLE sqlite_mine (n INTEGER)",
                "CREATE INDEX _mem_i ON precious (word)",
                "CREATE VIEW _mem_v AS SELECT 1",
                "ALTER TABLE precious RENAME TO _mem_precious",
                "DROP TABLE _mem_state",
                "SELECT * FROM _mem_state",
            ],
            vec![
                "CREATE TABLE pg_catalog.mine (n INTEGER)",
                "CREATE TABLE _mem_state (n INTEGER)",
                "ALTER TABLE precious RENAME TO _mem_precious",
                "DROP TABLE pg_catalog.pg_class",
            ],
        );
        all_refused(cx, &statements).await?;
    }),
    case!("sql.refuse.catalog", [Sql], ["REF-5"], |cx| {
        let statements = cx.in_dialect(
            vec![
                "DELETE FROM sqlite_schema",
                "DELETE FROM sqlite_master WHERE name = 'precious'",
                "UPDATE sqlite_schema SET sql = 'CREATE TABLE precious (x)'",
                "INSERT INTO sqlite_master (type, name) VALUES ('table', 'x')",
                "DROP TABLE sqlite_schema",
                "ALTER TABLE sqlite_schema RENAME TO x",
            ],
            vec![
                "DELETE FROM pg_class",
                "UPDATE pg_catalog.pg_class SET relname = 'x'",
                "DROP TABLE pg_class",
                "DELETE FROM information_schema.tables",
            ],
        );
        all_refused(cx, &statements).await?;
    }),
    case!("sql.refuse.says-what-and-instead", [Sql], ["REF-6"], |cx| {
        let db = precious(cx).await?;
        let reach = cx.in_dialect("ATTACH DATABASE 'x' AS y", "COPY precious TO '/tmp/x'");
        for statement in ["BEGIN", "SELECT 1; SELECT 2", reach] {
            let error = expect_kind!(db.exec(statement).await, ErrorKind::StatementRefused, "`{statement}`");
            check!(
                error.message().split_whitespace().count() >= 4,
                "`{statement}`: the refusal does not say what to do instead: {error}"
            );
            let construct = error.details().get("construct").and_then(|value| value.as_str());
            check!(
                construct.is_some_and(|construct| !construct.is_empty()),
                "`{statement}`: the refusal does not name what was refused in details.construct"
            );
        }
    }),
    case!("sql.refuse.no-sql", [Sql], ["REF-7"], |cx| {
        let db = precious(cx).await?;
        for statement in [
            "SELEC 1",
            "SELECT FROM WHERE",
            "hello",
            "SELECT * precious",
            "SELECT (1",
            "SELECT 'open",
            "SELECT 1 1 1",
        ] {
            for (op, result) in
                [("exec", db.exec(statement).await.map(drop)), ("query", db.query(statement).await.map(drop))]
            {
                let error = expect_some!(result.err(), "the error of `{statement}` by `{op}`");
                check!(
                    matches!(error.kind(), ErrorKind::StatementRefused | ErrorKind::InvalidArgument),
                    "`{statement}` by `{op}` failed with {}: {error}",
                    error.kind()
                );
            }
        }
        is_untouched(&db, "texts that are not statements").await?;
    }),
    case!("sql.refuse.by-the-engine", [Sql], ["REF-7"], |cx| {
        let db = precious(cx).await?;
        for statement in [
            "SELECT * FROM missing",
            "SELECT missing FROM precious",
            "INSERT INTO precious (missing) VALUES (1)",
            "INSERT INTO precious (id) VALUES (1, 2)",
            "CREATE TABLE precious (n INTEGER)",
            "DROP TABLE missing",
            "INSERT INTO precious (id) VALUES (1)",
            "ALTER TABLE precious ADD COLUMN word TEXT",
        ] {
            expect_kind!(db.exec(statement).await, ErrorKind::InvalidArgument, "`{statement}`");
        }
        expect_kind!(
            db.query("SELECT * FROM missing").await,
            ErrorKind::InvalidArgument,
            "a missing table in `query`"
        );
        is_untouched(&db, "statements that the engine refused").await?;
    }),
    case!("sql.refuse.constraint-named", [Sql], ["REF-8"], |cx| {
        let db = precious(cx).await?;
        db.exec_all(&[
            "CREATE TABLE strict (id INTEGER PRIMARY KEY, a INTEGER NOT NULL, b INTEGER UNIQUE, \
         c INTEGER CHECK (c > 0), d INTEGER REFERENCES precious (id))",
            "INSERT INTO strict VALUES (1, 1, 1, 1, 1)",
        ])
        .await?;
        for (statement, constraint) in [
            ("INSERT INTO strict VALUES (1, 1, 2, 1, 1)", "primary_key"),
            ("INSERT INTO strict VALUES (2, NULL, 2, 1, 1)", "not_null"),
            ("INSERT INTO strict VALUES (2, 1, 1, 1, 1)", "unique"),
            ("INSERT INTO strict VALUES (2, 1, 2, 0, 1)", "check"),
            ("INSERT INTO strict VALUES (2, 1, 2, 1, 99)", "foreign_key"),
        ] {
            let error = expect_kind!(db.exec(statement).await, ErrorKind::InvalidArgument, "`{statement}`");
            let named = error.details().get("constraint").and_then(|value| value.as_str());
            // An engine may report a primary key as a unique constraint.
            let fits = named == Some(constraint) || (constraint == "primary_key" && named == Some("unique"));
            check!(fits, "`{statement}`: details.constraint is {named:?}, expected {constraint:?}");
        }
    }),
    case!("sql.refuse.no-value-shown", [Sql], ["REF-8"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE t (v TEXT UNIQUE, n INTEGER CHECK (n < 10), p TEXT)",
            "CREATE TABLE p (v TEXT PRIMARY KEY)",
        ])
        .await?;
        let secret = "s3cret-of-the-row";
        db.exec_with("INSERT INTO t (v) VALUES (?)", &[text(secret)]).await?;
        for (sql, args) in [
            ("INSERT INTO t (v) VALUES (?)", vec![text(secret)]),
            ("INSERT INTO t (v, n) VALUES (?, 50)", vec![text(format!("{secret}-2"))]),
            ("INSERT INTO t (v) VALUES (?, ?)", vec![text(secret), text(secret)]),
            ("UPDATE t SET n = 99 WHERE v = ?", vec![text(secret)]),
            ("SELECT * FROM missing WHERE v = ?", vec![text(secret)]),
        ] {
            let error = expect_some!(db.exec_with(sql, &args).await.err(), "the error of `{sql}`");
            let mut shown = format!("{error} {error:?} {}", serde_json::to_string(error.details())?);
            let mut source = std::error::Error::source(&error);
            while let Some(inner) = source {
                shown.push_str(&inner.to_string());
                source = inner.source();
            }
            check!(!shown.contains(secret), "`{sql}`: the error shows a value: {shown}");
        }
    }),
    case!("sql.refuse.too-long-or-blank", [Sql], ["REF-9"], |cx| {
        let db = precious(cx).await?;
        let long = format!("SELECT 1 -- {}", "x".repeat(1 << 20));
        expect_kind!(db.query(&long).await, ErrorKind::TooLarge, "a statement of over 1 MiB by `query`");
        expect_kind!(db.exec(&long).await, ErrorKind::TooLarge, "a statement of over 1 MiB by `exec`");
        for blank in ["", " \n\t"] {
            expect_kind!(db.exec(blank).await, ErrorKind::InvalidArgument, "a blank statement");
        }
        for nothing in [";", "-- only a comment", "/* nothing */"] {
            let error = expect_some!(db.exec(nothing).await.err(), "the error of `{nothing}`");
            check!(
                matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::StatementRefused),
                "`{nothing}` failed with {}",
                error.kind()
            );
        }
        is_untouched(&db, "statements that are too long or none").await?;
    }),
    case!("sql.refuse.deep-nesting-ends", [Sql], ["REF-9"], |cx| {
        let db = precious(cx).await?;
        let nested = |open: &str, close: &str, times: usize| {
            format!("SELECT {}1{}", open.repeat(times), close.repeat(times))
        };
        for bomb in [
            nested("(", ")", 10_000),
            nested("(SELECT ", ")", 2_000),
            nested("-", "", 100_000),
            nested("NOT ", "", 20_000),
            nested("abs(", ")", 5_000),
            nested("CASE WHEN 1 = 1 THEN ", " END", 3_000),
            format!("SELECT 1{}", "+1".repeat(40_000)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(20_000)),
            format!("SELECT {}1{}", "/*".repeat(20_000), "*/".repeat(20_000)),
            format!("SELECT 'a'{}", " || 'a'".repeat(20_000)),
            format!("SELECT * FROM precious{}", ", precious".repeat(5_000)),
        ] {
            let started = bomb.get(..40).unwrap_or_default();
            if let Err(error) =
                db.with(|options| options.timeout = Some(crate::cx::ms(5_000))).query(&bomb).await
            {
                check!(
                    !matches!(
                        error.kind(),
                        ErrorKind::Internal | ErrorKind::Corrupt | ErrorKind::OutcomeUnknown
                    ),
                    "`{started}…` failed with {}: {error}",
                    error.kind()
                );
            }
            expect_eq!(db.count("precious").await?, 2, "rows after `{started}…`");
        }
    }),
];

async fn precious<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE precious (id INTEGER PRIMARY KEY, word TEXT)").await?;
    db.exec("INSERT INTO precious (id, word) VALUES (1, 'one'), (2, 'two')").await?;
    Ok(db)
}

/// Proves that the database is unchanged.
async fn is_untouched(db: &Database<'_>, what: &str) -> CaseResult {
    let rows = db.rows("SELECT id, word FROM precious ORDER BY id").await?;
    let due = [(1, "one"), (2, "two")].map(|(id, word)| vec![SqlValue::Int(id), text(word)]);
    expect_eq!(rows, due, "what is stored after {what}");
    let tables: Vec<String> = db.tables().await?.into_iter().map(|table| table.name).collect();
    expect_eq!(tables, ["precious"], "the tables after {what}");
    Ok(())
}

fn writes(cx: &Cx) -> Vec<&'static str> {
    let mut writes = vec![
        "INSERT INTO precious (id) VALUES (3)",
        "INSERT INTO precious (id) VALUES (4) RETURNING id",
        "UPDATE precious SET word = 'x'",
        "UPDATE precious SET word = 'x' RETURNING word",
        "DELETE FROM precious",
        "DELETE FROM precious RETURNING *",
        "WITH n AS (SELECT 9 AS id) INSERT INTO precious (id) SELECT id FROM n",
        "WITH n AS (SELECT 1 AS id) DELETE FROM precious WHERE id IN (SELECT id FROM n)",
        "CREATE TABLE other (n INTEGER)",
        "CREATE TABLE copy AS SELECT * FROM precious",
        "CREATE INDEX by_word ON precious (word)",
        "CREATE VIEW seen AS SELECT * FROM precious",
        "ALTER TABLE precious ADD COLUMN n INTEGER",
        "ALTER TABLE precious RENAME TO gone",
        "DROP TABLE precious",
    ];
    writes.extend(cx.in_dialect(
        [
            "REPLACE INTO precious (id, word) VALUES (1, 'x')",
            "INSERT OR REPLACE INTO precious VALUES (2, 'x')",
        ],
        [
            "WITH gone AS (DELETE FROM precious RETURNING id) SELECT id FROM gone",
            "SELECT id INTO other FROM precious",
        ],
    ));
    writes
}

const TRANSACTION_WORDS: [&str; 9] = [
    "BEGIN",
    "BEGIN TRANSACTION",
    "COMMIT",
    "END",
    "ROLLBACK",
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
    "/* hidden */ rollback -- it\n;",
];

fn outward(cx: &Cx) -> Vec<&'static str> {
    cx.in_dialect(
        vec![
            "ATTACH DATABASE 'other.db' AS other",
            "ATTACH ':memory:' AS m",
            "DETACH DATABASE main",
            "PRAGMA journal_mode = OFF",
            "PRAGMA writable_schema = ON",
            "PRAGMA user_version = 7",
            "PRAGMA database_list",
            "VACUUM INTO 'copy.db'",
            "SELECT load_extension('evil')",
            "SELECT readfile('/etc/passwd')",
            "SELECT writefile('x', 'y')",
            "CREATE VIRTUAL TABLE v USING csv(filename='/etc/passwd')",
            "CREATE VIRTUAL TABLE v USING dbpage",
            "SELECT * FROM pragma_database_list",
            "CREATE TEMP TABLE hidden (n INTEGER)",
            "CREATE TEMP TRIGGER t AFTER INSERT ON precious BEGIN DELETE FROM precious; END",
        ],
        vec![
            "COPY precious TO '/tmp/x'",
            "COPY precious FROM PROGRAM 'id'",
            "SET search_path = pg_catalog",
            "RESET ALL",
            "SET ROLE postgres",
            "CREATE EXTENSION dblink",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT set_config('statement_timeout', '0', false)",
            "SELECT * FROM pg_authid",
            "SELECT nextval('16400')",
            "SELECT currval('16400'::regclass)",
            "SELECT ('{16400}'::text).\"_regclass\"",
            "CREATE TABLE hidden (n INTEGER DEFAULT nextval('16400'))",
            "LISTEN x",
            "LOAD 'evil'",
            "DO 'BEGIN END'",
            "CREATE SCHEMA other",
            "CREATE ROLE r",
            "GRANT ALL ON precious TO PUBLIC",
            "CREATE TEMP TABLE hidden (n INTEGER)",
        ],
    )
}

/// The error of a statement that must be refused, or fail like any wrong statement.
async fn refused(db: &Database<'_>, statement: &str) -> CaseResult<Error> {
    match db.exec(statement).await {
        Ok(outcome) => Err(Stop::failed(format_args!("`{statement}` succeeded with {outcome:?}"))),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::StatementRefused | ErrorKind::ReadOnly | ErrorKind::InvalidArgument
            ) =>
        {
            Ok(error)
        }
        Err(error) => Err(Stop::failed(format_args!("`{statement}` failed with {}: {error}", error.kind()))),
    }
}

async fn all_refused(cx: &Cx, statements: &[&str]) -> CaseResult {
    let db = precious(cx).await?;
    for statement in statements {
        refused(&db, statement).await?;
        is_untouched(&db, statement).await?;
    }
    Ok(())
}
