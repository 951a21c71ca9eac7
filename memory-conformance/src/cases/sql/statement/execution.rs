//! SQL: effects and results of statements.

use memory_core::ErrorKind;
use memory_core::sql::SqlValue;

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.exec.rows-come-back", [Sql], ["SQL-1", "SQL-2"], |cx| {
        let db = words_of(cx).await?;
        let rows = db.query("SELECT id, word FROM words ORDER BY id DESC").await?;
        let due: Vec<Vec<SqlValue>> = [(3, "three"), (2, "two"), (1, "one")]
            .map(|(id, word)| vec![SqlValue::Int(id), text(word)])
            .into();
        expect_eq!(rows.rows, due, "three rows in falling order");
        check!(!rows.truncated, "three rows are reported as truncated");
        db.exec("INSERT INTO words (id, word) VALUES (4, 'four')").await?;
        expect_eq!(db.count("words").await?, 4, "rows after one more");
        expect_eq!(db.value("SELECT word FROM words WHERE id = 4").await?, text("four"));
    }),
    case!("sql.exec.survives-reopening", [Sql], ["SQL-2"], |cx| {
        let own = cx.on(cx.open().await?);
        let scope = own.scope()?;
        {
            let db = own.database_of(scope.clone())?;
            db.exec("CREATE TABLE t (n INTEGER)").await?;
            db.exec("INSERT INTO t VALUES (7)").await?;
        }
        let again = own.reopened_with(crate::TestEmbedder::new()).await?;
        let db = again.database_of(scope)?;
        expect_eq!(db.ints("SELECT n FROM t").await?, [7], "after the store was closed and opened");
        db.exec("INSERT INTO t VALUES (8)").await?;
        expect_eq!(db.count("t").await?, 2);
    }),
    case!("sql.exec.seen-by-every-handle", [Sql], ["SQL-2", "TIM-6"], |cx| {
        let beside = cx.on(cx.store().another_handle().await?);
        let here = cx.database()?;
        let there = beside.database_of(here.scope.clone())?;
        here.exec("CREATE TABLE t (n INTEGER)").await?;
        for n in 1..=5 {
            let (writer, reader) = if n % 2 == 0 { (&here, &there) } else { (&there, &here) };
            writer.exec(&format!("INSERT INTO t VALUES ({n})")).await?;
            expect_eq!(reader.count("t").await?, n, "rows as the other handle sees them");
        }
    }),
    case!("sql.exec.reads-too", [Sql], ["SQL-9"], |cx| {
        let db = words_of(cx).await?;
        let outcome = db.exec("SELECT id FROM words ORDER BY id").await?;
        expect_eq!(outcome.rows_affected, 0, "rows that a SELECT changed");
        let rows = expect_some!(outcome.returning, "the rows of a SELECT by `exec`");
        expect_eq!(rows.rows, [1, 2, 3].map(|id| vec![SqlValue::Int(id)]), "a SELECT by `exec`");
    }),
    case!("sql.affected.counts", [Sql], ["SQL-3"], |cx| {
        let db = words_of(cx).await?;
        for (statement, due) in [
            ("INSERT INTO words (id, word) VALUES (4, 'four'), (5, 'five')", 2),
            ("UPDATE words SET word = 'many' WHERE id > 1", 4),
            ("UPDATE words SET word = 'none' WHERE id > 100", 0),
            ("DELETE FROM words WHERE id <= 2", 2),
            ("DELETE FROM words WHERE id <= 2", 0),
            ("DELETE FROM words", 3),
        ] {
            expect_eq!(db.exec(statement).await?.rows_affected, due, "rows that `{statement}` changed");
        }
    }),
    case!("sql.affected.not-the-statement-before", [Sql], ["SQL-3"], |cx| {
        let db = words_of(cx).await?;
        expect_eq!(db.exec("UPDATE words SET word = 'x'").await?.rows_affected, 3);
        for statement in
            ["CREATE TABLE other (n INTEGER)", "CREATE INDEX by_n ON other (n)", "DROP TABLE other"]
        {
            let outcome = db.exec(statement).await?;
            expect_eq!(
                outcome.rows_affected,
                0,
                "rows that `{statement}` changed, after a statement with three"
            );
        }
    }),
    case!("sql.returning.rows", [Sql], ["SQL-4"], |cx| {
        let db = words_of(cx).await?;
        let inserted = db
            .exec("INSERT INTO words (id, word) VALUES (10, 'ten'), (11, 'eleven') RETURNING id, word")
            .await?;
        expect_eq!(inserted.rows_affected, 2);
        let rows = expect_some!(inserted.returning, "the rows of INSERT … RETURNING");
        expect_eq!(rows.columns, ["id", "word"], "columns of RETURNING");
        expect_eq!(
            rows.rows,
            [(10, "ten"), (11, "eleven")].map(|(id, word)| vec![SqlValue::Int(id), text(word)])
        );
        let updated = db.exec("UPDATE words SET word = 'TEN' WHERE id = 10 RETURNING word AS now").await?;
        let rows = expect_some!(updated.returning, "the row of UPDATE … RETURNING");
        expect_eq!((rows.columns, rows.rows), (vec!["now".to_owned()], vec![vec![text("TEN")]]));
        let deleted = db.exec("DELETE FROM words WHERE id = 11 RETURNING id").await?;
        let rows = expect_some!(deleted.returning, "the row of DELETE … RETURNING");
        expect_eq!(rows.rows, [[SqlValue::Int(11)]]);
        let nothing = db.exec("DELETE FROM words WHERE id = 99 RETURNING id").await?;
        check!(nothing.returning.is_none_or(|rows| rows.rows.is_empty()), "rows of a delete that found none");
        let silent = db.exec("INSERT INTO words (id, word) VALUES (12, 'twelve')").await?;
        check!(silent.returning.is_none_or(|rows| rows.rows.is_empty()), "rows without RETURNING");
    }),
    case!("sql.columns.named-in-order", [Sql], ["SQL-1", "SQL-5"], |cx| {
        let db = words_of(cx).await?;
        let rows = db.query("SELECT word, id, id + 1 AS \"the next\" FROM words WHERE id = 1").await?;
        expect_eq!(rows.columns, ["word", "id", "the next"], "names of columns, in order");
        expect_eq!(rows.rows, [[text("one"), SqlValue::Int(1), SqlValue::Int(2)]]);
        let none = db.query("SELECT word, id FROM words WHERE id > 100").await?;
        expect_eq!(none.columns, ["word", "id"], "names of columns of an empty result");
        check!(none.rows.is_empty() && !none.truncated, "rows where none match");
    }),
    case!("sql.columns.repeat", [Sql], ["SQL-5"], |cx| {
        let db = words_of(cx).await?;
        let rows = db.query("SELECT id AS a, word AS a, id AS a FROM words WHERE id = 2").await?;
        expect_eq!(rows.columns, ["a", "a", "a"], "a name that occurs three times");
        expect_eq!(rows.rows, [[SqlValue::Int(2), text("two"), SqlValue::Int(2)]]);
    }),
    case!("sql.fail.keeps-no-row", [Sql], ["SQL-6"], |cx| {
        let db = words_of(cx).await?;
        let refused =
            db.exec("INSERT INTO words (id, word) VALUES (7, 'a'), (8, 'b'), (1, 'again'), (9, 'c')").await;
        expect_kind!(refused, ErrorKind::InvalidArgument, "four rows, the third of which repeats a key");
        expect_eq!(
            db.ints("SELECT id FROM words ORDER BY id").await?,
            [1, 2, 3],
            "rows after a failed insert"
        );
        let refused = db
            .exec("INSERT INTO words (id, word) SELECT 10 - id, word FROM words UNION ALL SELECT 1, 'x'")
            .await;
        expect_kind!(refused, ErrorKind::InvalidArgument, "an INSERT … SELECT that repeats a key at its end");
        expect_eq!(db.count("words").await?, 3, "rows after a failed INSERT … SELECT");
    }),
    case!("sql.fail.keeps-no-update", [Sql], ["SQL-6"], |cx| {
        let db = words_of(cx).await?;
        db.exec("CREATE TABLE small (id INTEGER PRIMARY KEY, n INTEGER CHECK (n < 100))").await?;
        db.exec("INSERT INTO small VALUES (1, 10), (2, 20), (3, 95), (4, 30)").await?;
        let refused = db.exec("UPDATE small SET n = n + 10").await;
        expect_kind!(refused, ErrorKind::InvalidArgument, "an update that the third row refuses");
        let now = db.ints("SELECT n FROM small ORDER BY id").await?;
        expect_eq!(now, [10, 20, 95, 30], "rows after a failed update");
    }),
    case!("sql.engine.relations", [Sql], ["SQL-7"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
            "CREATE TABLE visits (person INTEGER REFERENCES people (id), day INTEGER, km INTEGER)",
            "INSERT INTO people VALUES (1, 'ann'), (2, 'bob'), (3, 'cid')",
            "INSERT INTO visits VALUES (1, 1, 5), (1, 2, 7), (2, 1, 11), (1, 3, 1)",
        ])
        .await?;
        let totals = db
            .rows(
                "SELECT name, count(day) AS visits, coalesce(sum(km), 0) AS km FROM people \
             LEFT JOIN visits ON person = id GROUP BY id, name HAVING count(day) < 5 ORDER BY km DESC, name",
            )
            .await?;
        let due = [("ann", 3, 13), ("bob", 1, 11), ("cid", 0, 0)]
            .map(|(name, visits, km)| vec![text(name), SqlValue::Int(visits), SqlValue::Int(km)]);
        expect_eq!(totals, due, "a join with an aggregate");
        let running = db
            .ints("SELECT sum(km) OVER (PARTITION BY person ORDER BY day) FROM visits ORDER BY person, day")
            .await?;
        expect_eq!(running, [5, 12, 13, 11], "a window function");
        let above = db
            .texts(
                "WITH far AS (SELECT person, sum(km) AS km FROM visits GROUP BY person) \
             SELECT name FROM people WHERE id IN (SELECT person FROM far WHERE km > 12)",
            )
            .await?;
        expect_eq!(above, ["ann"], "a common table expression and a subquery");
    }),
    case!("sql.engine.upserts", [Sql], ["SQL-7"], |cx, db: Database| {
        db.exec("CREATE TABLE counts (word TEXT PRIMARY KEY, n INTEGER NOT NULL DEFAULT 1)").await?;
        for word in ["a", "b", "a", "a"] {
            let sql =
                "INSERT INTO counts (word) VALUES (?) ON CONFLICT (word) DO UPDATE SET n = counts.n + 1";
            db.exec_with(sql, &[text(word)]).await?;
        }
        expect_eq!(db.ints("SELECT n FROM counts ORDER BY word").await?, [3, 1], "an upsert that counts");
        let ignored = db.exec("INSERT INTO counts (word) VALUES ('a') ON CONFLICT DO NOTHING").await?;
        expect_eq!(ignored.rows_affected, 0, "rows that an upsert which does nothing changed");
    }),
    case!("sql.engine.views-and-indexes", [Sql], ["SQL-7"], |cx| {
        let db = words_of(cx).await?;
        db.exec_all(&[
            "CREATE INDEX by_word ON words (word)",
            "CREATE UNIQUE INDEX by_both ON words (word, id)",
            "CREATE VIEW low AS SELECT id, word FROM words WHERE id < 3",
            "INSERT INTO words VALUES (0, 'zero')",
            "ALTER TABLE words ADD COLUMN length INTEGER",
            "UPDATE words SET length = length(word)",
        ])
        .await?;
        expect_eq!(
            db.texts("SELECT word FROM low ORDER BY id").await?,
            ["zero", "one", "two"],
            "through a view"
        );
        expect_eq!(db.int("SELECT sum(length) FROM words").await?, 15, "a column added later");
        db.exec_all(&["DROP VIEW low", "DROP INDEX by_word", "DROP TABLE words"]).await?;
        expect_kind!(
            db.query("SELECT * FROM words").await,
            ErrorKind::InvalidArgument,
            "a table that was dropped"
        );
    }),
    case!("sql.engine.constraints-hold", [Sql], ["SQL-7", "SQL-6"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
            "CREATE TABLE children (id INTEGER PRIMARY KEY, parent INTEGER NOT NULL REFERENCES parents (id))",
            "INSERT INTO parents VALUES (1)",
            "INSERT INTO children VALUES (10, 1)",
        ])
        .await?;
        for orphan in [
            "INSERT INTO children VALUES (11, 2)",
            "INSERT INTO children VALUES (12, NULL)",
            "DELETE FROM parents WHERE id = 1",
            "UPDATE parents SET id = 5",
        ] {
            expect_kind!(db.exec(orphan).await, ErrorKind::InvalidArgument, "`{orphan}`");
        }
        expect_eq!((db.count("parents").await?, db.count("children").await?), (1, 1));
    }),
    case!("sql.engine.millions-of-steps", [Sql], ["SQL-7"], |cx, db: Database| {
        let sum = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) \
               SELECT CAST(sum(i % 7) AS INTEGER) FROM n";
        expect_eq!(db.int(sum).await?, 599_997, "a sum over 200,000 rows");
    }),
    case!("sql.text.words-mean-nothing", [Sql], ["SQL-8"], |cx| {
        let db = words_of(cx).await?;
        let harmless = "sElEcT 'DROP TABLE words; ATTACH ''x'' AS y' AS \"PRAGMA\", word AS \"COMMIT\" /* VACUUM; BEGIN */ \
                    FROM words -- ROLLBACK; DELETE FROM words\n wHeRe id = 1";
        let rows = db.query(harmless).await?;
        expect_eq!(rows.columns, ["PRAGMA", "COMMIT"], "quoted names");
        expect_eq!(rows.rows, [[text("DROP TABLE words; ATTACH 'x' AS y"), text("one")]]);
        let written =
            db.exec("INSERT INTO words (id, word) VALUES (9, 'BEGIN; -- load_extension(''x'')')").await?;
        expect_eq!(written.rows_affected, 1);
        db.exec("CREATE TABLE \"attach\" (\"pragma\" TEXT, \"select\" TEXT)").await?;
        db.exec("INSERT INTO \"attach\" (\"pragma\", \"select\") VALUES ('a', 'b')").await?;
        expect_eq!(
            db.value("SELECT \"pragma\" FROM \"attach\"").await?,
            text("a"),
            "names that are words of SQL"
        );
        expect_eq!(db.count("words").await?, 4);
    }),
];

/// A table of numbered words.
async fn words_of<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT)").await?;
    db.exec("INSERT INTO words (id, word) VALUES (3, 'three'), (1, 'one'), (2, 'two')").await?;
    Ok(db)
}
