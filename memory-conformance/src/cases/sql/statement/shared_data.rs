//! SHR: data that the operator shares with every scope.

use memory_core::sql::SqlValue;
use memory_core::{ErrorKind, Scope};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_some};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.shared.read-from-everywhere", [Sql, SharedSchemas], ["SHR-1", "OWN-5"], |cx| {
        shares(cx)?;
        let mut theirs: Scope = cx.scope()?;
        theirs.tenant = cx.other_tenant()?;
        for scope in [cx.scope()?, theirs] {
            let db = cx.database_of(scope)?;
            expect_eq!(db.texts(WORDS).await?, ["one", "two", "three"], "from a scope without a database");
            db.exec("CREATE TABLE mine (id INTEGER)").await?;
            db.exec("INSERT INTO mine VALUES (2)").await?;
            expect_eq!(db.texts(WORDS).await?, ["one", "two", "three"], "from a scope with one");
            let joined = db.texts("SELECT word FROM mine JOIN conformance_shared USING (id)").await?;
            expect_eq!(joined, ["two"], "a join with a table of the scope's");
            let copied = db.exec("INSERT INTO mine SELECT id FROM conformance_shared").await?;
            expect_eq!(copied.rows_affected, 3, "rows that `exec` takes from shared data");
        }
    }),
    case!("sql.shared.never-written", [Sql, SharedSchemas], ["SHR-2"], |cx, db: Database| {
        shares(cx)?;
        db.exec("CREATE TABLE mine (id INTEGER)").await?;
        for statement in [
            "INSERT INTO conformance_shared VALUES (9, 'nine')",
            "UPDATE conformance_shared SET word = 'x'",
            "DELETE FROM conformance_shared",
            "DROP TABLE conformance_shared",
            "ALTER TABLE conformance_shared ADD COLUMN x INTEGER",
            "CREATE INDEX by_word ON conformance_shared (word)",
        ] {
            let error = expect_some!(db.exec(statement).await.err(), "the refusal of `{statement}`");
            check!(
                matches!(
                    error.kind(),
                    ErrorKind::StatementRefused | ErrorKind::ReadOnly | ErrorKind::InvalidArgument
                ),
                "`{statement}` failed with {}: {error}",
                error.kind()
            );
            expect_eq!(db.texts(WORDS).await?, ["one", "two", "three"], "shared rows after `{statement}`");
        }
    }),
    case!(
        "sql.shared.own-table-wins",
        [Sql, SharedSchemas],
        ["SHR-3"],
        |cx, own: Database, other: Database| {
            shares(cx)?;
            own.exec("CREATE TABLE conformance_shared (id INTEGER, word TEXT)").await?;
            own.exec_with("INSERT INTO conformance_shared VALUES (1, ?)", &[text("mine")]).await?;
            expect_eq!(own.texts(WORDS).await?, ["mine"], "in the scope with a table of that name");
            expect_eq!(other.texts(WORDS).await?, ["one", "two", "three"], "in another scope");
            own.exec("DELETE FROM conformance_shared").await?;
            expect_eq!(own.count("conformance_shared").await?, 0);
            own.exec("DROP TABLE conformance_shared").await?;
            expect_eq!(own.texts(WORDS).await?, ["one", "two", "three"], "after the scope's own was dropped");
        }
    ),
    case!("sql.shared.own-table-of-another-handle", [Sql, SharedSchemas], ["SHR-3"], |cx| {
        shares(cx)?;
        let beside = cx.on(cx.store().another_handle().await?);
        let here = cx.database()?;
        let there = beside.database_of(here.scope.clone())?;
        there.exec("CREATE TABLE mine (id INTEGER)").await?;
        // Often enough that the statement is kept prepared.
        for _ in 0..3 {
            expect_eq!(
                here.texts(WORDS).await?,
                ["one", "two", "three"],
                "before there is a table of that name"
            );
        }
        there.exec("CREATE TABLE conformance_shared (id INTEGER, word TEXT)").await?;
        there.exec_with("INSERT INTO conformance_shared VALUES (1, ?)", &[text("mine")]).await?;
        for _ in 0..2 {
            expect_eq!(
                here.texts(WORDS).await?,
                ["mine"],
                "once another handle has created the scope's own table"
            );
        }
        there.exec("DROP TABLE conformance_shared").await?;
        expect_eq!(here.texts(WORDS).await?, ["one", "two", "three"], "after another handle dropped it");
    }),
    case!("sql.shared.not-counted", [Sql, SharedSchemas], ["SHR-4"], |cx, db: Database| {
        shares(cx)?;
        db.query(WORDS).await?;
        expect_eq!(db.bytes().await?, 0, "bytes of a scope that only read shared data");
        check!(
            db.tables().await?.is_empty(),
            "shared tables are described as the scope's: {:?}",
            db.tables().await?
        );
        db.exec("CREATE TABLE mine (id INTEGER)").await?;
        let names: Vec<String> = db.tables().await?.into_iter().map(|table| table.name).collect();
        expect_eq!(names, ["mine"], "the scope's tables");
        expect_eq!(db.value("SELECT count(*) FROM conformance_shared").await?, SqlValue::Int(3));
    }),
];

const WORDS: &str = "SELECT word FROM conformance_shared ORDER BY id";

fn shares(cx: &Cx) -> CaseResult {
    if cx.store().sql_setup().shares_data { Ok(()) } else { Err(Stop::skipped("the harness shares no data")) }
}
