//! ENT: the scope's entries as a table.

use memory_core::sql::SqlValue;
use memory_core::{ErrorKind, Metadata, Scalar, Scope, SetOptions};

use crate::case::{Case, case};
use crate::check::{Stop, check, expect_eq, expect_some};
use crate::cx::database::{Database, text};
use crate::cx::source;

pub(crate) const CASES: &[Case] = &[
    case!("sql.entries.columns", [Kv, Sql, SqlEntries], ["ENT-1"], |cx, db: Database| {
        let mut metadata = Metadata::default();
        metadata.insert("topic".to_owned(), Scalar::from("tea"));
        let mut options = SetOptions::default()
            .with_metadata(metadata)
            .with_ttl(memory_core::Ttl::After(crate::cx::ms(60_000)));
        options.source = Some(source("notes")?);
        cx.set_with(&db.scope, "k", r#"{"a": 9007199254740993}"#, options).await?;
        let entry = expect_some!(cx.entry(&db.scope, "k").await?, "the entry");
        let rows = db
            .rows(
                "SELECT key, value, source, version, created_at, updated_at, expires_at, access_count \
             FROM memory_entries",
            )
            .await?;
        let version = SqlValue::Int(i64::try_from(entry.version).unwrap_or(-1));
        let due = [
            text("k"),
            text(entry.value.as_str()),
            text("notes"),
            version,
            SqlValue::Int(entry.created_at.as_millis()),
            SqlValue::Int(entry.updated_at.as_millis()),
            entry.expires_at.map_or(SqlValue::Null, |at| SqlValue::Int(at.as_millis())),
            SqlValue::Int(i64::try_from(entry.access_count).unwrap_or(-1)),
        ];
        expect_eq!(rows, [due], "the row of an entry");
        let metadata = match db.value("SELECT metadata FROM memory_entries").await? {
            SqlValue::Text(text) => serde_json::from_str::<serde_json::Value>(&text)?,
            SqlValue::Json(json) => serde_json::from_str(json.as_str())?,
            other => return Err(Stop::failed(format_args!("metadata is {other:?}, expected JSON"))),
        };
        expect_eq!(metadata, serde_json::json!({"topic": "tea"}), "the metadata of an entry");
        cx.set(&db.scope, "k2", "1").await?;
        let bare = db.rows("SELECT source, expires_at FROM memory_entries WHERE key = 'k2'").await?;
        expect_eq!(bare, [[SqlValue::Null, SqlValue::Null]], "source and expiry of an entry without");
    }),
    case!("sql.entries.of-the-scope-alone", [Kv, Sql, SqlEntries], ["ENT-1", "OWN-1"], |cx, db: Database| {
        let mut theirs = db.scope.clone();
        theirs.tenant = cx.other_tenant()?;
        let mut user = db.scope.clone();
        user.kind = memory_core::ScopeKind::User;
        let others: Vec<Scope> = vec![cx.scope()?, theirs, user];
        for other in &others {
            cx.set(other, "theirs", "1").await?;
            cx.set(other, "same", "1").await?;
        }
        expect_eq!(db.texts(KEYS).await?, [""; 0], "keys of a scope without entries");
        cx.set(&db.scope, "same", "2").await?;
        expect_eq!(db.texts(KEYS).await?, ["same"], "keys of a scope with one entry");
        expect_eq!(db.value("SELECT value FROM memory_entries WHERE key = 'same'").await?, text("2"));
        for other in others {
            let db = cx.database_of(other)?;
            expect_eq!(db.texts(KEYS).await?, ["same", "theirs"], "keys of {:?}", db.scope);
        }
    }),
    case!("sql.entries.one-row-each", [Kv, Sql, SqlEntries], ["ENT-1"], |cx, db: Database| {
        let mut keys: Vec<String> = (0..150).map(|n| format!("key/{n:03}")).collect();
        keys.extend(["%".to_owned(), "it's".to_owned(), "\u{e9}".to_owned()]);
        for key in &keys {
            cx.set(&db.scope, key, "\"v\"").await?;
        }
        keys.sort();
        let mut found = db.texts("SELECT key FROM memory_entries").await?;
        found.sort();
        expect_eq!(found, keys, "keys of 153 entries");
        expect_eq!(db.count("memory_entries WHERE key = 'it''s'").await?, 1, "rows of one key");
        expect_eq!(
            db.count("memory_entries WHERE key >= 'key/010' AND key < 'key/020'").await?,
            10,
            "rows of a range"
        );
        expect_eq!(db.count("memory_entries WHERE key LIKE 'key/1%'").await?, 50, "rows of a prefix");
    }),
    case!("sql.entries.follow-writes", [Kv, Sql, SqlEntries], ["ENT-2"], |cx, db: Database| {
        let value = "SELECT value FROM memory_entries WHERE key = 'k'";
        for n in 1..=5 {
            cx.set(&db.scope, "k", &n.to_string()).await?;
            expect_eq!(db.value(value).await?, text(n.to_string()), "the value after write {n}");
        }
        cx.delete(&db.scope, "k").await?;
        expect_eq!(db.count("memory_entries").await?, 0, "rows after the entry was deleted");
        cx.set(&db.scope, "k", "6").await?;
        cx.kv().drop_scope(&db.scope).await?;
        expect_eq!(db.count("memory_entries").await?, 0, "rows after the scope's entries were dropped");
    }),
    case!("sql.entries.expire", [Kv, Sql, SqlEntries], ["ENT-2"], |cx, db: Database| {
        cx.set_with(&db.scope, "short", "1", cx.expiring(100)).await?;
        cx.set(&db.scope, "long", "1").await?;
        cx.advance_ms(99);
        expect_eq!(db.texts(KEYS).await?, ["long", "short"], "keys before one expires");
        cx.advance_ms(1);
        expect_eq!(db.texts(KEYS).await?, ["long"], "keys after one expired");
        expect_eq!(db.count("memory_entries WHERE key = 'short'").await?, 0, "rows of an expired key");
    }),
    case!("sql.entries.join", [Kv, Sql, SqlEntries], ["ENT-3"], |cx, db: Database| {
        db.exec("CREATE TABLE orders (who TEXT, n INTEGER)").await?;
        db.exec("INSERT INTO orders VALUES ('ann', 2), ('bob', 3), ('ann', 4)").await?;
        cx.say(&db.scope, "ann", "likes tea").await?;
        cx.say(&db.scope, "cid", "likes milk").await?;
        let totals = db
        .rows(
            "SELECT who, CAST(sum(n) AS INTEGER), max(value) FROM orders JOIN memory_entries ON key = who GROUP BY who",
        )
        .await?;
        expect_eq!(
            totals,
            [[text("ann"), SqlValue::Int(6), text("\"likes tea\"")]],
            "a join with the entries"
        );
        let copied =
            db.exec("INSERT INTO orders SELECT key, 0 FROM memory_entries WHERE key <> 'ann'").await?;
        expect_eq!(copied.rows_affected, 1, "rows that `exec` takes from the entries");
        expect_eq!(db.count("orders").await?, 4);
    }),
    case!("sql.entries.without-a-database", [Kv, Sql, SqlEntries], ["ENT-3", "OWN-5"], |cx, db: Database| {
        cx.set(&db.scope, "k", "1").await?;
        expect_eq!(db.texts(KEYS).await?, ["k"], "keys of a scope without a SQL database");
        expect_eq!(db.bytes().await?, 0, "bytes of a SQL database that was never created");
    }),
    case!("sql.entries.cannot-be-written", [Kv, Sql, SqlEntries], ["ENT-4"], |cx, db: Database| {
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        cx.set(&db.scope, "k", "1").await?;
        for statement in [
            "INSERT INTO memory_entries (key, value) VALUES ('x', '1')",
            "UPDATE memory_entries SET value = '2'",
            "DELETE FROM memory_entries",
            "DROP TABLE memory_entries",
            "ALTER TABLE memory_entries RENAME TO mine",
            "CREATE TABLE memory_entries (key TEXT)",
            "CREATE VIEW memory_entries AS SELECT 'x' AS key",
            "CREATE INDEX by_key ON memory_entries (key)",
            "CREATE TRIGGER steal AFTER INSERT ON memory_entries BEGIN SELECT 1; END",
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
            expect_eq!(db.texts(KEYS).await?, ["k"], "keys after `{statement}`");
            expect_eq!(cx.text(&db.scope, "k").await?.as_deref(), Some("1"), "the entry after `{statement}`");
        }
    }),
    case!("sql.entries.raise-no-count", [Kv, Sql, SqlEntries], ["ENT-5"], |cx, db: Database| {
        cx.set(&db.scope, "k", "1").await?;
        let before = expect_some!(cx.entry(&db.scope, "k").await?, "the entry");
        for _ in 0..3 {
            db.rows("SELECT * FROM memory_entries").await?;
        }
        let after = expect_some!(cx.entry(&db.scope, "k").await?, "the entry");
        expect_eq!(after, before, "an entry that statements have read");
    }),
    case!("sql.entries.not-described", [Kv, Sql, SqlEntries], ["ENT-6"], |cx, db: Database| {
        cx.set(&db.scope, "k", "1").await?;
        db.exec("CREATE TABLE mine (n INTEGER)").await?;
        db.query("SELECT * FROM memory_entries").await?;
        let tables: Vec<String> = db.tables().await?.into_iter().map(|table| table.name).collect();
        expect_eq!(tables, ["mine"], "the agent's tables");
    }),
    case!(
        "sql.entries.within-transaction",
        [Kv, Sql, SqlEntries, SqlTransactions],
        ["ENT-2", "ENT-3"],
        |cx, db: Database| {
            db.exec("CREATE TABLE seen (key TEXT)").await?;
            cx.set(&db.scope, "a", "1").await?;
            let (tx, _) = db.begin().await?;
            tx.exec("INSERT INTO seen SELECT key FROM memory_entries").await?;
            // An open transaction does not block writes to entries.
            cx.set(&db.scope, "b", "1").await?;
            expect_eq!(cx.text(&db.scope, "b").await?.as_deref(), Some("1"));
            tx.exec("INSERT INTO seen VALUES ('last')").await?;
            tx.commit().await?;
            expect_eq!(
                db.texts("SELECT key FROM seen ORDER BY key").await?,
                ["a", "last"],
                "keys a transaction copied"
            );
            expect_eq!(db.texts(KEYS).await?, ["a", "b"], "keys after the transaction");
        }
    ),
];

const KEYS: &str = "SELECT key FROM memory_entries ORDER BY key";
