//! DMP: dump and restore.

use memory_core::sql::{RestoreMode, RestoreOptions, RestoreOutcome, SqlScopesQuery, SqlValue};
use memory_core::{Error, ErrorKind, Result, Scope, SqlDialect};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::Cx;
use crate::cx::database::{Database, text};
use crate::stream::{collect_lines, lines, next_line};

pub(crate) const CASES: &[Case] = &[
    case!("sql.dump.values-come-back", [Sql], ["DMP-1", "DMP-2"], |cx, db: Database| {
        db.exec(cx.in_dialect(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, i BIGINT, r DOUBLE PRECISION, s TEXT, b BLOB)",
            "CREATE TABLE t (id INTEGER PRIMARY KEY, i BIGINT, r DOUBLE PRECISION, s TEXT, b BYTEA)",
        ))
        .await?;
        let rows = [
            (i64::MAX, 0.1, "it's \"quoted\"\nand \u{1f469}\u{200d}\u{1f680}", vec![0, 255, 10, 13]),
            (i64::MIN, f64::INFINITY, "", Vec::new()),
            ((1 << 53) + 1, 5e-324, "NULL", b"plain text in bytes".to_vec()),
            (-1, -1.797_693_134_862_315_7e308, "X'00'", vec![7; 5_000]),
        ];
        for (id, (i, r, s, b)) in (1..).zip(rows) {
            let args = [SqlValue::Int(id), SqlValue::Int(i), SqlValue::Real(r), text(s), SqlValue::Blob(b)];
            db.exec_with("INSERT INTO t VALUES (?, ?, ?, ?, ?)", &args).await?;
        }
        db.exec("INSERT INTO t (id) VALUES (100)").await?;
        let all = "SELECT * FROM t ORDER BY id";
        let copy = copied(cx, &db).await?;
        expect_eq!(copy.query(all).await?, db.query(all).await?, "rows after dump and restore");
    }),
    case!("sql.restore.quota-holds", [Sql], ["QTA-1"], |cx, db: Database| {
        db.exec("CREATE TABLE t (x TEXT)").await?;
        for letter in ["a", "b", "c", "d", "e", "f"] {
            // Nothing that a store could compress away.
            let long: String =
                (0..60_000_u64).map(|n| format!("{letter}{:04x}", n * 40_503 % 65_521)).collect();
            db.exec_with("INSERT INTO t VALUES (?)", &[text(&long)]).await?;
        }
        let dump = dumped(cx, &db.scope).await?;
        let copy = cx.database()?;
        let restore = async |quota| {
            let dump = lines(dump.iter().cloned().map(Ok).collect());
            cx.sql().restore(&copy.scope, dump, RestoreOptions::default().with_quota_bytes(Some(quota))).await
        };
        expect_kind!(restore(512 << 10).await, ErrorKind::QuotaExceeded, "a restore past its quota");
        has_no_database(cx, &copy, "a restore past its quota").await?;
        restore(16 << 20).await?;
        expect_eq!(copy.int("SELECT count(*) FROM t").await?, 6, "rows restored within the quota");
    }),
    case!("sql.dump.schema-comes-back", [Sql], ["DMP-1"], |cx, db: Database| {
        db.exec_all(&[
        "CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, n INTEGER DEFAULT 7 CHECK (n > 0))",
        "CREATE TABLE a_child (a INTEGER, b INTEGER, parent INTEGER REFERENCES parents (id), PRIMARY KEY (b, a))",
        "CREATE INDEX by_parent ON a_child (parent)",
        "CREATE UNIQUE INDEX by_both ON a_child (a, parent)",
        "CREATE VIEW names AS SELECT name FROM parents WHERE n > 5",
        "CREATE TABLE empty (x TEXT)",
        "INSERT INTO parents (id, name) VALUES (1, 'ann')",
        "INSERT INTO parents (id, name, n) VALUES (2, 'bob', 1)",
        "INSERT INTO a_child VALUES (1, 2, 1), (2, 2, 2)",
    ])
    .await?;
        let copy = copied(cx, &db).await?;
        expect_eq!(
            copy.tables().await?,
            db.tables().await?,
            "tables, columns and indexes after dump and restore"
        );
        expect_eq!(copy.texts("SELECT name FROM names").await?, ["ann"], "a view after dump and restore");
        for refused in [
            "INSERT INTO parents (id, name) VALUES (3, 'ann')",
            "INSERT INTO parents (id, name, n) VALUES (3, 'cid', 0)",
            "INSERT INTO parents (id, name) VALUES (3, NULL)",
            "INSERT INTO a_child VALUES (3, 3, 99)",
            "INSERT INTO a_child VALUES (1, 2, 1)",
            "INSERT INTO a_child VALUES (1, 9, 1)",
        ] {
            expect_kind!(
                copy.exec(refused).await,
                ErrorKind::InvalidArgument,
                "`{refused}` after dump and restore"
            );
        }
        copy.exec("INSERT INTO parents (id, name) VALUES (3, 'cid')").await?;
        expect_eq!(
            copy.int("SELECT n FROM parents WHERE id = 3").await?,
            7,
            "a default after dump and restore"
        );
    }),
    case!("sql.dump.triggers-and-generated-columns", [Sql], ["DMP-1"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE t (n INTEGER, twice INTEGER GENERATED ALWAYS AS (n * 2) STORED)",
            "CREATE TABLE log (n INTEGER)",
        ])
        .await?;
        let trigger = cx.in_dialect(
            "CREATE TRIGGER note AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.n); END",
            // A trigger in this dialect needs a function, which agents cannot create.
            "CREATE VIEW note AS SELECT 1",
        );
        db.exec(trigger).await?;
        db.exec("INSERT INTO t (n) VALUES (1), (2)").await?;
        let logged = db.count("log").await?;
        let copy = copied(cx, &db).await?;
        expect_eq!(copy.ints("SELECT twice FROM t ORDER BY n").await?, [2, 4], "a generated column");
        expect_eq!(copy.count("log").await?, logged, "rows that a trigger wrote, once");
        copy.exec("INSERT INTO t (n) VALUES (5)").await?;
        expect_eq!(copy.ints("SELECT twice FROM t ORDER BY n").await?, [2, 4, 10]);
        db.exec("INSERT INTO t (n) VALUES (5)").await?;
        expect_eq!(copy.count("log").await?, db.count("log").await?, "rows of a trigger that came back");
    }),
    case!("sql.dump.full-text-indexes", [Sql], ["DMP-1"], |cx, db: Database| {
        db.exec("CREATE TABLE texts (id INTEGER PRIMARY KEY, body TEXT)").await?;
        db.exec("INSERT INTO texts VALUES (1, 'dogs'), (2, 'cats')").await?;
        if cx.dialect() != SqlDialect::Sqlite {
            db.exec("CREATE INDEX words ON texts USING gin (to_tsvector('simple', body))").await?;
            let copy = copied(cx, &db).await?;
            expect_eq!(copy.tables().await?, db.tables().await?, "tables and indexes after dump and restore");
            return Ok(());
        }
        db.exec_all(&[
            "CREATE VIRTUAL TABLE own USING fts5(title, body)",
            "CREATE VIRTUAL TABLE \"of \"\"texts\" USING fts5(body, content='texts', content_rowid='id')",
            "INSERT INTO own (own, rank) VALUES ('rank', 'bm25(10.0, 0.1)')",
            "INSERT INTO \"of \"\"texts\" (\"of \"\"texts\") VALUES ('rebuild')",
            "INSERT INTO own VALUES ('cats', 'dogs and more dogs'), ('dogs', 'cats')",
        ])
        .await?;
        let copy = copied(cx, &db).await?;
        let ranked = "SELECT title FROM own WHERE own MATCH 'dogs' ORDER BY rank";
        expect_eq!(copy.texts(ranked).await?, ["dogs", "cats"], "a full-text index whose titles weigh more");
        let of_texts = "SELECT rowid FROM \"of \"\"texts\" WHERE \"of \"\"texts\" MATCH 'cats'";
        expect_eq!(copy.ints(of_texts).await?, [2], "a full-text index of another table's texts");
        // What cannot be read back is reported, and everything else is restored.
        db.exec("CREATE VIRTUAL TABLE bare USING fts5(body, content='')").await?;
        db.exec("INSERT INTO bare (rowid, body) VALUES (1, 'dogs')").await?;
        let copy = cx.database()?;
        let outcome = restored(cx, &copy.scope, dumped(cx, &db.scope).await?).await?;
        check!(outcome.skipped.len() == 1, "skipped for an index without texts: {:?}", outcome.skipped);
        expect_eq!(copy.texts(ranked).await?, ["dogs", "cats"], "an index beside one without texts");
    }),
    case!("sql.dump.names-that-need-quotes", [Sql], ["DMP-1"], |cx, db: Database| {
        for (n, name) in (1..).zip(AWKWARD) {
            let quoted = name.replace('"', "\"\"");
            db.exec(&format!("CREATE TABLE \"{quoted}\" (\"{quoted} column\" INTEGER DEFAULT 5)")).await?;
            db.exec(&format!("CREATE INDEX \"{quoted} index\" ON \"{quoted}\" (\"{quoted} column\")"))
                .await?;
            db.exec(&format!(
                "CREATE VIEW \"{quoted} view\" AS SELECT \"{quoted} column\" AS n FROM \"{quoted}\""
            ))
            .await?;
            db.exec(&format!("INSERT INTO \"{quoted}\" VALUES ({n})")).await?;
        }
        let copy = copied(cx, &db).await?;
        expect_eq!(copy.tables().await?, db.tables().await?, "tables after dump and restore");
        for (n, name) in (1..).zip(AWKWARD) {
            let quoted = name.replace('"', "\"\"");
            expect_eq!(
                copy.int(&format!("SELECT n FROM \"{quoted} view\"")).await?,
                n,
                "the row of `{name}`"
            );
        }
    }),
    case!("sql.dump.again-the-same", [Sql], ["DMP-1"], |cx, db: Database| {
        db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)").await?;
        db.exec("INSERT INTO t VALUES (2, 'b'), (1, 'a'), (30, NULL)").await?;
        db.exec("CREATE INDEX by_v ON t (v)").await?;
        let first = dumped(cx, &db.scope).await?;
        let copy = copied(cx, &db).await?;
        let second = copied(cx, &copy).await?;
        let all = "SELECT * FROM t ORDER BY id";
        expect_eq!(second.query(all).await?, db.query(all).await?, "rows of a copy's copy");
        check!(dumped(cx, &db.scope).await? == first, "a database that did not change is dumped otherwise");
    }),
    case!("sql.dump.counts", [Sql], ["DMP-2"], |cx, db: Database| {
        db.exec_all(&[
            "CREATE TABLE a (n INTEGER)",
            "CREATE TABLE b (n INTEGER)",
            "CREATE TABLE c (n INTEGER)",
            "CREATE VIEW v AS SELECT n FROM a",
            "INSERT INTO a VALUES (1), (2), (3)",
            "INSERT INTO b VALUES (4)",
        ])
        .await?;
        let copy = cx.database()?;
        let outcome = restored(cx, &copy.scope, dumped(cx, &db.scope).await?).await?;
        expect_eq!((outcome.tables, outcome.rows), (3, 4), "tables and rows that were restored");
        expect_eq!(outcome.skipped, [""; 0], "objects that were not restored");
    }),
    case!("sql.restore.into-what-is-there", [Sql], ["DMP-3"], |cx| {
        let dump = sample(cx).await?;
        let db = cx.database()?;
        db.exec("CREATE TABLE mine (n INTEGER)").await?;
        db.exec("INSERT INTO mine VALUES (1)").await?;
        let refused = restored(cx, &db.scope, dump.clone()).await;
        expect_kind!(refused, ErrorKind::Conflict, "restoring into a scope with a table");
        let tables: Vec<String> = db.tables().await?.into_iter().map(|table| table.name).collect();
        expect_eq!(tables, ["mine"], "tables after a refused restore");
        expect_eq!(db.count("mine").await?, 1);
        db.exec("DROP TABLE mine").await?;
        restored(cx, &db.scope, dump).await?;
        expect_eq!(db.count("t").await?, 20, "rows restored after the tables were dropped");
    }),
    case!("sql.restore.of-no-dump", [Sql], ["DMP-4"], |cx| {
        let many: Vec<&[u8]> = vec![b"x"; 5_000];
        let long = vec![b'a'; 1 << 20];
        for garbage in [
            vec![],
            vec![&b""[..]],
            vec![b"not a dump"],
            vec![b"{}"],
            vec![b"CREATE TABLE evil (n INTEGER)"],
            vec![b"ATTACH 'x' AS y"],
            vec![b"\x00\xff\xfe\x80"],
            vec![&b"SQLite format 3\0"[..]],
            many,
            vec![&long[..]],
        ] {
            let db = cx.database()?;
            let what = format!(
                "a dump of {} lines, the first of {} bytes",
                garbage.len(),
                garbage.first().map_or(0, |l| l.len())
            );
            let refused = restored(cx, &db.scope, garbage.into_iter().map(<[u8]>::to_vec).collect()).await;
            expect_kind!(refused, ErrorKind::InvalidArgument, "{what}");
            has_no_database(cx, &db, &what).await?;
        }
    }),
    case!("sql.restore.cut-off", [Sql], ["DMP-4"], |cx| {
        let dump = sample(cx).await?;
        for kept in [dump.len() / 2, dump.len() - 1, 1] {
            let db = cx.database()?;
            let head = dump.iter().take(kept).cloned().collect();
            let what = format!("{kept} lines of a dump of {}", dump.len());
            if kept == 0 || kept >= dump.len() {
                continue;
            }
            expect_kind!(restored(cx, &db.scope, head).await, ErrorKind::InvalidArgument, "{what}");
            has_no_database(cx, &db, &what).await?;
        }
        // Cut off within its last line.
        let db = cx.database()?;
        let mut bent = dump.clone();
        if let Some(last) = bent.last_mut() {
            last.truncate(last.len() / 2);
        }
        let refused = restored(cx, &db.scope, bent).await;
        expect_kind!(refused, ErrorKind::InvalidArgument, "a dump whose last line is cut");
        has_no_database(cx, &db, "a dump whose last line is cut").await?;
        // The complete dump is valid.
        restored(cx, &db.scope, dump).await?;
        expect_eq!(db.count("t").await?, 20);
    }),
    case!("sql.restore.stream-that-fails", [Sql], ["DMP-4"], |cx| {
        let dump = sample(cx).await?;
        let db = cx.database()?;
        let half = dump.len() / 2;
        let mut items: Vec<Result<Vec<u8>>> = dump.iter().take(half).cloned().map(Ok).collect();
        items.push(Err(Error::new(ErrorKind::RateLimited, "the source of the dump fails on purpose")));
        items.extend(dump.into_iter().skip(half).map(Ok));
        let failed = cx.sql().restore(&db.scope, lines(items), RestoreOptions::default()).await;
        expect_kind!(failed, ErrorKind::RateLimited, "a dump whose stream fails");
        has_no_database(cx, &db, "a dump whose stream fails").await?;
    }),
    case!("sql.restore.in-the-place-of", [Sql], ["DMP-8"], |cx| {
        let dump = sample(cx).await?;
        let db = tangled(cx).await?;
        let outcome = replaced(cx, &db.scope, dump.iter().cloned().map(Ok).collect()).await?;
        expect_eq!((outcome.tables, outcome.rows), (1, 20), "tables and rows of the replacement");
        check!(outcome.skipped.is_empty(), "objects were not restored: {:?}", outcome.skipped);
        let copy = cx.database()?;
        restored(cx, &copy.scope, dump).await?;
        expect_eq!(db.tables().await?, copy.tables().await?, "the tables of a replaced scope");
        expect_eq!(db.count("t").await?, 20);
        expect_eq!(
            dumped(cx, &db.scope).await?,
            dumped(cx, &copy.scope).await?,
            "the dump of a replaced scope"
        );
        for gone in ["parents", "a_view", "of_a_view"] {
            let found = db.query(&format!("SELECT * FROM {gone}")).await;
            expect_kind!(found, ErrorKind::InvalidArgument, "`{gone}` after it was replaced");
        }
    }),
    case!("sql.restore.in-the-place-of-nothing", [Sql], ["DMP-8"], |cx| {
        let dump = sample(cx).await?;
        let db = cx.database()?;
        replaced(cx, &db.scope, dump.into_iter().map(Ok).collect()).await?;
        expect_eq!(db.count("t").await?, 20, "rows after a failed replacement");
    }),
    case!("sql.restore.replacing-fails", [Sql], ["DMP-8", "DMP-4"], |cx| {
        let dump = sample(cx).await?;
        let db = tangled(cx).await?;
        let before = dumped(cx, &db.scope).await?;
        let half = || dump.iter().take(dump.len() / 2).cloned().map(Ok);
        let lost = Error::new(ErrorKind::RateLimited, "the source of the dump fails on purpose");
        for (what, lines, kind) in [
            ("no dump", vec![Ok(b"not a dump".to_vec())], ErrorKind::InvalidArgument),
            ("nothing", Vec::new(), ErrorKind::InvalidArgument),
            ("half a dump", half().collect(), ErrorKind::InvalidArgument),
            ("a stream that fails", half().chain([Err(lost)]).collect(), ErrorKind::RateLimited),
        ] {
            expect_kind!(replaced(cx, &db.scope, lines).await, kind, "replacing by {what}");
            expect_eq!(dumped(cx, &db.scope).await?, before, "what {what} was to replace");
        }
    }),
    case!("sql.restore.replacing-loses-no-rows", [Sql], ["DMP-9"], |cx| {
        let db = tangled(cx).await?;
        let refused: Vec<Vec<u8>> = dumped(cx, &db.scope)
            .await?
            .iter()
            .map(|line| {
                String::from_utf8_lossy(line)
                    .replace("CREATE TABLE parents", "CREATE TEMP TABLE parents")
                    .into_bytes()
            })
            .collect();
        let before = dumped(cx, &db.scope).await?;
        let items: Vec<Result<Vec<u8>>> = refused.iter().cloned().map(Ok).collect();
        expect_kind!(
            replaced(cx, &db.scope, items).await,
            ErrorKind::InvalidArgument,
            "replacing by a dump with rows of a table that is refused"
        );
        expect_eq!(dumped(cx, &db.scope).await?, before, "what that dump was to replace");
        let empty = cx.database()?;
        let outcome = cx
            .sql()
            .restore(&empty.scope, lines(refused.into_iter().map(Ok).collect()), RestoreOptions::default())
            .await?;
        check!(!outcome.skipped.is_empty(), "a refused table was left out, and nothing says so");
        expect_eq!(
            empty.texts("SELECT other FROM t").await?,
            ["of before"],
            "rows of another table of that dump"
        );
    }),
    case!("sql.dump.of-one-moment", [Sql], ["DMP-5"], |cx, db: Database| {
        db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)").await?;
        db.exec(
            "INSERT INTO t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 2000) \
         SELECT i, 'a text of some length that makes the dump longer than a buffer' FROM s",
        )
        .await?;
        let mut dump = cx.sql().dump(&db.scope).await?;
        let first = expect_some!(next_line(&mut dump).await, "the first line of a dump")?;
        db.exec("DELETE FROM t WHERE id > 1000").await?;
        db.exec("INSERT INTO t VALUES (5000, 'later')").await?;
        db.exec("CREATE TABLE later (n INTEGER)").await?;
        let mut all = vec![first];
        all.extend(collect_lines(dump).await?);
        let copy = cx.database()?;
        restored(cx, &copy.scope, all).await?;
        expect_eq!(
            copy.count("t").await?,
            2_000,
            "rows of a dump that began before half of them were deleted"
        );
        check!(copy.tables().await?.len() == 1, "the dump contains a table that was created after it began");
    }),
    case!(
        "sql.dump.leaves-transactions-out",
        [Sql, SqlTransactions],
        ["DMP-5", "TX-2"],
        |cx, db: Database| {
            db.exec("CREATE TABLE t (n INTEGER)").await?;
            db.exec("INSERT INTO t VALUES (1)").await?;
            let (tx, _) = db.begin().await?;
            tx.exec("INSERT INTO t VALUES (2)").await?;
            let copy = copied(cx, &db).await?;
            tx.commit().await?;
            expect_eq!(copy.ints("SELECT n FROM t").await?, [1], "rows of a dump beside an open transaction");
        }
    ),
    case!("sql.dump.of-nothing", [Sql], ["DMP-6"], |cx, empty: Database, copy: Database| {
        let outcome = restored(cx, &copy.scope, dumped(cx, &empty.scope).await?).await?;
        expect_eq!((outcome.tables, outcome.rows), (0, 0), "tables and rows of an empty dump");
        check!(copy.tables().await?.is_empty(), "tables of an empty dump");
        copy.exec("CREATE TABLE t (n INTEGER)").await?;
        expect_eq!(copy.count("t").await?, 0);
    }),
    case!(
        "sql.dump.of-the-scope-alone",
        [Kv, Sql],
        ["DMP-7", "OWN-1"],
        |cx, mine: Database, theirs: Database| {
            theirs.exec("CREATE TABLE hidden_table (v TEXT)").await?;
            theirs.exec("INSERT INTO hidden_table VALUES ('hidden-row')").await?;
            mine.exec("CREATE TABLE shown_table (v TEXT)").await?;
            mine.exec("INSERT INTO shown_table VALUES ('shown-row')").await?;
            cx.say(&mine.scope, "hidden-key", "hidden-entry").await?;
            let bytes: Vec<u8> = dumped(cx, &mine.scope).await?.concat();
            let dump = String::from_utf8_lossy(&bytes);
            for hidden in ["hidden_table", "hidden-row", "hidden-key", "hidden-entry"] {
                check!(!dump.contains(hidden), "the dump contains `{hidden}`");
            }
            let copy = copied(cx, &mine).await?;
            expect_eq!(copy.texts("SELECT v FROM shown_table").await?, ["shown-row"]);
        }
    ),
    case!("sql.restore.into-a-dropped-scope", [Sql], ["DMP-1", "DBS-7"], |cx, db: Database| {
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        db.exec("INSERT INTO t VALUES (1), (2)").await?;
        let dump = dumped(cx, &db.scope).await?;
        cx.sql().drop_sql_scope(&db.scope).await?;
        restored(cx, &db.scope, dump).await?;
        expect_eq!(db.ints("SELECT n FROM t ORDER BY n").await?, [1, 2], "rows after drop and restore");
        db.exec("INSERT INTO t VALUES (3)").await?;
        expect_eq!(db.count("t").await?, 3);
    }),
];

async fn dumped(cx: &Cx, scope: &Scope) -> Result<Vec<Vec<u8>>> {
    collect_lines(cx.sql().dump(scope).await?).await
}

async fn restored(cx: &Cx, scope: &Scope, dump: Vec<Vec<u8>>) -> Result<RestoreOutcome> {
    cx.sql().restore(scope, lines(dump.into_iter().map(Ok).collect()), RestoreOptions::default()).await
}

/// A fresh scope restored from that one.
async fn copied<'a>(cx: &'a Cx, from: &Database<'_>) -> CaseResult<Database<'a>> {
    let copy = cx.database()?;
    let outcome = restored(cx, &copy.scope, dumped(cx, &from.scope).await?).await?;
    check!(outcome.skipped.is_empty(), "objects were not restored: {:?}", outcome.skipped);
    Ok(copy)
}

const AWKWARD: [&str; 11] = [
    "select",
    "a b",
    "it's",
    "a\"b",
    "\u{e9}t\u{e9}",
    "x;y",
    "main.t",
    "sqlitex",
    "sqliteXfoo",
    "new\nline",
    "-- c /* d */",
];

/// A dump of a database with some rows.
async fn sample(cx: &Cx) -> CaseResult<Vec<Vec<u8>>> {
    let db = cx.database()?;
    db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)").await?;
    for id in 1..=20 {
        db.exec_with("INSERT INTO t VALUES (?, ?)", &[SqlValue::Int(id), text("v".repeat(500))]).await?;
    }
    Ok(dumped(cx, &db.scope).await?)
}

async fn has_no_database(cx: &Cx, db: &Database<'_>, what: &str) -> CaseResult {
    check!(db.tables().await?.is_empty(), "{what} has left tables: {:?}", db.tables().await?);
    let page = cx.sql().sql_scopes(&cx.tenant(), SqlScopesQuery::default()).await?;
    let is_listed = page.scopes.iter().any(|(scope, _)| *scope == db.scope);
    let counts = page.scopes.iter().find(|(scope, _)| *scope == db.scope).map(|(_, usage)| usage.bytes);
    // Checking may have created an empty database.
    check!(!is_listed || counts.unwrap_or(0) <= 64 << 10, "{what} has left a database of {counts:?} bytes");
    Ok(())
}

async fn replaced(cx: &Cx, scope: &Scope, dump: Vec<Result<Vec<u8>>>) -> Result<RestoreOutcome> {
    cx.sql().restore(scope, lines(dump), RestoreOptions::default().with_mode(RestoreMode::Replace)).await
}

/// A database whose parts all depend on each other.
async fn tangled(cx: &Cx) -> CaseResult<Database<'_>> {
    let db = cx.database()?;
    db.exec_all(&[
        "CREATE TABLE t (id INTEGER PRIMARY KEY, other TEXT)",
        "CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT UNIQUE)",
        "CREATE TABLE \"it's a \"\"child\" (parent INTEGER NOT NULL REFERENCES parents (id) ON DELETE RESTRICT)",
        "CREATE INDEX by_name ON parents (name)",
        "CREATE VIEW a_view AS SELECT name FROM parents",
        "CREATE VIEW of_a_view AS SELECT count(*) AS n FROM a_view",
        "INSERT INTO t VALUES (1, 'of before')",
        "INSERT INTO parents VALUES (1, 'ann')",
        "INSERT INTO \"it's a \"\"child\" VALUES (1)",
    ])
    .await?;
    Ok(db)
}
