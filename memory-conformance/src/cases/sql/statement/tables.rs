//! TBL: results of `describe_tables`.

use memory_core::sql::TableInfo;

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::database::Database;

pub(crate) const CASES: &[Case] = &[
    case!("sql.tables.tables-and-views", [Sql], ["TBL-1"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE zebras (n INTEGER)",
            "CREATE TABLE ants (n INTEGER UNIQUE)",
            "CREATE VIEW middle AS SELECT n FROM ants",
            "CREATE INDEX by_n ON zebras (n)",
        ])
        .await?;
        let kinds: Vec<(String, String)> =
            db.tables().await?.into_iter().map(|table| (table.name, table.kind)).collect();
        let due = [("ants", "table"), ("middle", "view"), ("zebras", "table")];
        expect_eq!(
            kinds,
            due.map(|(name, kind)| (name.to_owned(), kind.to_owned())),
            "tables and views by name"
        );
    }),
    case!(
        "sql.tables.of-the-scope-alone",
        [Sql],
        ["TBL-1", "OWN-1"],
        |cx, mine: Database, theirs: Database| {
            mine.exec("CREATE TABLE mine (a INTEGER)").await?;
            theirs.exec("CREATE TABLE theirs (b INTEGER)").await?;
            expect_eq!(names(&mine).await?, ["mine"]);
            expect_eq!(names(&theirs).await?, ["theirs"]);
        }
    ),
    case!("sql.tables.follow-changes", [Sql], ["TBL-1", "TBL-2"], |cx, db: Database| {
        db.exec("CREATE TABLE a (n INTEGER)").await?;
        db.exec("CREATE TABLE b (n INTEGER)").await?;
        expect_eq!(names(&db).await?, ["a", "b"]);
        db.exec("ALTER TABLE a RENAME TO c").await?;
        db.exec("ALTER TABLE c ADD COLUMN word TEXT").await?;
        db.exec("DROP TABLE b").await?;
        let tables = db.tables().await?;
        expect_eq!(tables.len(), 1, "tables after one was dropped");
        let columns: Vec<&str> =
            named(&tables, "c")?.columns.iter().map(|column| column.name.as_str()).collect();
        expect_eq!(columns, ["n", "word"], "columns after one was added");
    }),
    case!("sql.tables.definitions-that-had-nothing-to-do", [Sql], ["SQL-2"], |cx, db: Database| {
        let (create, drop) = ("CREATE TABLE IF NOT EXISTS t (n INTEGER)", "DROP TABLE IF EXISTS t");
        for _ in 0..3 {
            db.exec_all(&[drop, drop, create, create]).await?;
            expect_eq!(names(&db).await?, ["t"], "tables after one was made, and would have been made again");
            db.exec_all(&[drop, drop]).await?;
            check!(
                names(&db).await?.is_empty(),
                "a table is left that was dropped, and would have been again"
            );
        }
    }),
    case!("sql.tables.columns", [Sql], ["TBL-2"], |cx, db: Database| {
        db.exec("CREATE TABLE t (zeta TEXT NOT NULL, alpha INTEGER, \"mid dle\" DOUBLE PRECISION DEFAULT 1.5, flag BOOLEAN)")
        .await?;
        db.exec("CREATE VIEW v AS SELECT alpha AS renamed, zeta FROM t").await?;
        let tables = db.tables().await?;
        let table = named(&tables, "t")?;
        let found: Vec<(&str, bool)> =
            table.columns.iter().map(|column| (column.name.as_str(), column.nullable)).collect();
        let due = [("zeta", false), ("alpha", true), ("mid dle", true), ("flag", true)];
        expect_eq!(found, due, "columns in order, and whether NULL is allowed");
        let types: Vec<String> =
            table.columns.iter().map(|column| column.declared_type.to_ascii_lowercase()).collect();
        expect_eq!(types, ["text", "integer", "double precision", "boolean"], "declared types");
        check!(
            table.columns.iter().all(|column| column.primary_key == 0),
            "a primary key in a table without one"
        );
        let view: Vec<&str> =
            named(&tables, "v")?.columns.iter().map(|column| column.name.as_str()).collect();
        expect_eq!(view, ["renamed", "zeta"], "columns of a view");
    }),
    case!("sql.tables.primary-keys", [Sql], ["TBL-2"], |cx, db: Database| {
        db.exec("CREATE TABLE one (a INTEGER PRIMARY KEY, b TEXT)").await?;
        db.exec("CREATE TABLE two (a INTEGER NOT NULL, b TEXT NOT NULL, c TEXT, PRIMARY KEY (b, a))").await?;
        let tables = db.tables().await?;
        let places = |name| -> CaseResult<Vec<u32>> {
            Ok(named(&tables, name)?.columns.iter().map(|column| column.primary_key).collect())
        };
        expect_eq!(places("one")?, [1, 0], "places in a key of one column");
        expect_eq!(places("two")?, [2, 1, 0], "places in a key of two columns");
    }),
    case!("sql.tables.indexes", [Sql], ["TBL-3"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE t (a INTEGER, b TEXT)",
            "CREATE TABLE u (a INTEGER)",
            "CREATE INDEX t_by_a ON t (a)",
            "CREATE UNIQUE INDEX t_by_both ON t (b, a)",
        ])
        .await?;
        let tables = db.tables().await?;
        let mut found = named(&tables, "t")?.indexes.clone();
        found.sort();
        expect_eq!(found, ["t_by_a", "t_by_both"], "indexes of `t`");
        check!(named(&tables, "u")?.indexes.is_empty(), "a table without an index has one");
    }),
    case!("sql.tables.names-that-need-quotes", [Sql], ["TBL-1", "TBL-2", "TBL-3"], |cx, db: Database| {
        let awkward = ["select", "a b", "it's", "a\"b", "\u{e9}t\u{e9}", "x;y", "main.t", "sqlitex", "%"];
        for name in awkward {
            let quoted = name.replace('"', "\"\"");
            db.exec(&format!("CREATE TABLE \"{quoted}\" (\"{quoted} column\" INTEGER)")).await?;
            db.exec(&format!("CREATE INDEX \"{quoted} index\" ON \"{quoted}\" (\"{quoted} column\")"))
                .await?;
        }
        let tables = db.tables().await?;
        expect_eq!(tables.len(), awkward.len(), "tables");
        for name in awkward {
            let table = named(&tables, name)?;
            expect_eq!(table.indexes, [format!("{name} index")], "the index of `{name}`");
            let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
            expect_eq!(columns, [format!("{name} column")], "the column of `{name}`");
        }
    }),
    case!("sql.tables.what-is-committed", [Sql, SqlTransactions], ["TBL-4"], |cx, db: Database| {
        db.exec("CREATE TABLE before (n INTEGER)").await?;
        let (tx, _) = db.begin().await?;
        tx.exec("CREATE TABLE during (n INTEGER)").await?;
        expect_eq!(names(&db).await?, ["before"], "tables while a transaction creates another");
        tx.commit().await?;
        expect_eq!(names(&db).await?, ["before", "during"], "tables after its commit");
    }),
];

fn named<'a>(tables: &'a [TableInfo], name: &str) -> CaseResult<&'a TableInfo> {
    Ok(expect_some!(tables.iter().find(|table| table.name == name), "the table `{name}`"))
}

async fn names(db: &Database<'_>) -> CaseResult<Vec<String>> {
    Ok(db.tables().await?.into_iter().map(|table| table.name).collect())
}
