//! Values, arguments, results, shared files, remembered entries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::json::Json;
use memory_core::sql::SqlValue;
use memory_core::{Entry, Error, ErrorKind, Key, Result, Timestamp};
use memory_validator::Mode;

use super::super::entries::{EntryReader, EntrySource, KeyRange};
use super::{Cancel, Layers, Place, Role, Sandbox, SharedFile, Statement, TestDatabase};

#[test]
fn a_name_that_is_not_utf_8_is_nothings_name() {
    let database = TestDatabase::new();
    database.load("CREATE TABLE t (a)");
    for table in ["x'ff'", "x'74ff'", "x'f09f98'"] {
        let rows = database
            .query(&format!("SELECT name FROM pragma_table_info(CAST({table} AS TEXT))"), &[])
            .unwrap();
        assert!(rows.rows.is_empty(), "{table}: {rows:?}");
    }
    let rows = database.query("SELECT name FROM pragma_table_info(CAST(x'74' AS TEXT))", &[]).unwrap();
    assert_eq!(rows.rows, [[SqlValue::Text("a".into())]]);
}

#[test]
fn a_program_of_too_many_steps_is_too_large_and_not_a_lack_of_memory() {
    let database = TestDatabase::new();
    let mut writer = database.writer();
    let doubled = (1..24).map(|n| format!(", g{n} AS (g{0} + g{0})", n - 1)).collect::<String>();
    let made = format!("CREATE TABLE t (a, g0 AS (a){doubled})");
    let outcome = database
        .run(&mut writer, Mode::Exec, &made, &[])
        .and_then(|_| database.run(&mut writer, Mode::Query, "SELECT g23 FROM t", &[]));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(error.details()["unit"], "steps", "{error}");
    assert!(database.run(&mut writer, Mode::Query, "SELECT 1", &[]).is_ok());
}

#[test]
fn a_cancelled_statement_ends_and_the_next_one_runs() {
    let database = TestDatabase::new();
    let mut reader = database.open(Role::Reader);
    let cancel = Cancel::default();
    let statement = Statement {
        sql: "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c",
        args: &[],
        mode: Mode::Query,
        deadline: Instant::now() + Duration::from_secs(60),
        max_rows: 1,
        max_bytes: 100,
        frees: false,
        cancel: &cancel,
    };
    let began = Instant::now();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            cancel.cancel();
        });
        reader.run(&statement).unwrap_err()
    });
    assert!(error.message().contains("cancelled"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(database.run(&mut reader, Mode::Query, "SELECT 1", &[]).is_ok());
}

#[test]
fn a_shared_file_is_read_and_never_written_and_the_scopes_own_table_wins() {
    let mut database = TestDatabase::new();
    let path = database.folder().join("library.db");
    let library = rusqlite::Connection::open(&path).unwrap();
    library
        .execute_batch("CREATE TABLE book(name); INSERT INTO book VALUES ('shared'); CREATE TABLE own(a);")
        .unwrap();
    drop(library);
    database.shared = vec![SharedFile { name: "library".into(), path: path.clone() }];
    database.load("CREATE TABLE own(a); INSERT INTO own VALUES ('mine')");
    assert_eq!(database.value("SELECT name FROM book").unwrap(), SqlValue::Text("shared".into()));
    assert_eq!(database.value("SELECT name FROM library.book").unwrap(), SqlValue::Text("shared".into()));
    assert_eq!(database.value("SELECT a FROM own").unwrap(), SqlValue::Text("mine".into()));
    for layers in [Layers::ALL, Layers::only("authorizer").unwrap(), Layers::only("config").unwrap()] {
        let mut writer = Sandbox::open(
            Place::File(&database.file()),
            Role::Writer,
            &database.config,
            &database.shared,
            None,
            layers,
        )
        .unwrap();
        for sql in [
            "INSERT INTO library.book VALUES (1)",
            "DROP TABLE library.book",
            "DELETE FROM book",
            "CREATE TABLE library.x(a)",
        ] {
            assert!(database.run(&mut writer, Mode::Exec, sql, &[]).is_err(), "{layers:?} {sql}");
        }
    }
    let mut writer = database.writer();
    assert!(database.run(&mut writer, Mode::Exec, "DETACH library", &[]).is_err());
}

#[derive(Debug)]
struct Remembered(Vec<Entry>);

struct Reader(std::vec::IntoIter<Entry>);

impl EntrySource for Remembered {
    fn read(&self, range: &KeyRange, _: Instant) -> Result<Box<dyn EntryReader>> {
        let wanted = |entry: &&Entry| {
            entry.key.as_str() >= range.from.as_str()
                && range.to.as_ref().is_none_or(|to| entry.key.as_str() < to.as_str())
        };
        let found: Vec<Entry> = self.0.iter().filter(wanted).cloned().collect();
        println!("{range:?}: {}", found.len());
        Ok(Box::new(Reader(found.into_iter())))
    }
}

impl EntryReader for Reader {
    fn next(&mut self) -> Result<Option<Entry>> {
        Ok(self.0.next())
    }
}

#[derive(Debug)]
struct Failing(ErrorKind);

impl EntrySource for Failing {
    fn read(&self, _: &KeyRange, _: Instant) -> Result<Box<dyn EntryReader>> {
        Err(Error::new(self.0, "the entries cannot be read"))
    }
}

#[test]
fn a_deadline_met_while_entries_are_read_is_a_timeout_and_nothing_else_is() {
    let database = TestDatabase::new();
    database.load("CREATE TABLE t(a)");
    for (kind, due) in
        [(ErrorKind::Timeout, ErrorKind::Timeout), (ErrorKind::Corrupt, ErrorKind::InvalidArgument)]
    {
        let source: Arc<dyn EntrySource> = Arc::new(Failing(kind));
        let (file, layers) = (database.file(), Layers::ALL);
        let mut sandbox =
            Sandbox::open(Place::File(&file), Role::Reader, &database.config, &[], Some(source), layers)
                .unwrap();
        let failed = database.run(&mut sandbox, Mode::Query, "SELECT key FROM memory_entries", &[]);
        assert_eq!(failed.unwrap_err().kind(), due);
    }
}

#[test]
fn what_the_scope_remembers_is_a_table_that_is_only_read() {
    let database = TestDatabase::new();
    database.load("CREATE TABLE t(k, note); INSERT INTO t VALUES ('b', 'joined'), ('zz', 'missed')");
    let entries = ["a", "b", "ba", "c*", "d"].map(|key| {
        let value = Json::parse(format!("{{\"is\":\"{key}\"}}")).unwrap();
        Entry::new(Key::new(key).unwrap(), value, 7, Timestamp::from_millis(5).unwrap())
    });
    let source: Arc<dyn EntrySource> = Arc::new(Remembered(entries.to_vec()));
    let mut sandbox = Sandbox::open(
        Place::File(&database.file()),
        Role::Writer,
        &database.config,
        &[],
        Some(source),
        Layers::ALL,
    )
    .unwrap();
    let mut keys = |sql: &str| {
        let rows = database
            .run(&mut sandbox, Mode::Query, sql, &[])
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let text =
            |value: SqlValue| if let SqlValue::Text(text) = value { text } else { format!("{value:?}") };
        rows.rows
            .unwrap()
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(text).collect::<Vec<_>>().join("|"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(keys("SELECT key FROM memory_entries"), "a b ba c* d");
    assert_eq!(keys("SELECT key FROM memory_entries WHERE key = 'b'"), "b");
    assert_eq!(keys("SELECT key FROM memory_entries WHERE key IN ('a', 'd', 'x')"), "a d");
    assert_eq!(keys("SELECT key FROM memory_entries WHERE key > 'b' AND key <= 'c*'"), "ba c*");
    assert_eq!(keys("SELECT key FROM memory_entries WHERE key GLOB 'b*'"), "b ba");
    assert_eq!(keys("SELECT key FROM memory_entries WHERE key LIKE 'B%' ORDER BY key DESC"), "ba b");
    assert_eq!(keys("SELECT key FROM memory_entries WHERE key = 'B' COLLATE NOCASE"), "b");
    assert_eq!(
        keys("SELECT key FROM memory_entries WHERE key > 5 AND key IS NOT NULL ORDER BY key LIMIT 1"),
        "a"
    );
    assert_eq!(
        keys(
            "SELECT value ->> 'is', version, created_at, expires_at, metadata FROM memory_entries WHERE key = 'd'"
        ),
        "d|Int(7)|Int(5)|Null|{}"
    );
    assert_eq!(keys("SELECT note FROM t JOIN memory_entries ON key = k"), "joined");
    for sql in [
        "DELETE FROM memory_entries",
        "INSERT INTO memory_entries(key) VALUES ('x')",
        "CREATE TABLE memory_entries(a)",
        "CREATE INDEX i ON memory_entries(key)",
        "DROP TABLE memory_entries",
    ] {
        assert!(database.run(&mut sandbox, Mode::Exec, sql, &[]).is_err(), "{sql}");
    }
}

#[test]
fn tables_are_described_without_what_is_not_the_agents() {
    let database = TestDatabase::new();
    database.load(
        "CREATE TABLE b(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, g AS (name||'!') STORED); \
         CREATE INDEX b_name ON b(name); CREATE VIEW a AS SELECT name FROM b; CREATE VIEW broken AS SELECT * FROM gone; \
         CREATE TABLE _mem_x(a); CREATE VIRTUAL TABLE ft USING fts5(x); CREATE TABLE ft_extra_data(a);",
    );
    let tables = database.writer().tables().unwrap();
    let told: Vec<String> = tables
        .iter()
        .map(|table| {
            let columns: Vec<String> = table
                .columns
                .iter()
                .map(|column| {
                    format!(
                        "{}:{}:{}:{}",
                        column.name, column.declared_type, column.nullable, column.primary_key
                    )
                })
                .collect();
            format!("{} {} [{}] {:?}", table.kind, table.name, columns.join(" "), table.indexes)
        })
        .collect();
    assert_eq!(
        told,
        [
            "view a [name:TEXT:true:0] []",
            "table b [id:INTEGER:true:1 name:TEXT:false:0 g::true:0] [\"b_name\"]",
            "view broken [] []",
            "virtual ft [x::true:0] []",
            "table ft_extra_data [a::true:0] []",
        ]
    );
}

#[test]
fn a_name_that_ends_like_a_virtual_tables_own_is_an_agents_where_there_is_no_such_table() {
    let database = TestDatabase::new();
    database.load("CREATE TABLE user_data(a); CREATE TABLE app_config(a)");
    for sql in [
        "INSERT INTO user_data VALUES (1)",
        "UPDATE app_config SET a = 2",
        "CREATE TABLE tree_node(id)",
        "DROP TABLE user_data",
    ] {
        database.exec(sql, &[]).unwrap();
    }
}

#[test]
fn reading_an_empty_place_makes_nothing() {
    let database = TestDatabase::new();
    let mut empty =
        Sandbox::open(Place::Empty, Role::Reader, &database.config, &[], None, Layers::ALL).unwrap();
    let rows = database
        .run(&mut empty, Mode::Query, "SELECT count(*) FROM sqlite_schema", &[])
        .unwrap()
        .rows
        .unwrap();
    assert_eq!(rows.rows, [[SqlValue::Int(0)]]);
    assert_eq!(
        database.run(&mut empty, Mode::Query, "CREATE TABLE t(a)", &[]).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
}

#[test]
fn a_statement_kept_prepared_is_judged_anew_where_the_schema_changed() {
    let database = TestDatabase::new();
    database.load("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    let mut writer = database.writer();
    let insert = "INSERT OR REPLACE INTO t VALUES (1, 'x')";
    for _ in 0..3 {
        database.run(&mut writer, Mode::Exec, insert, &[]).unwrap();
    }
    database
        .run(
            &mut writer,
            Mode::Exec,
            "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
            &[],
        )
        .unwrap();
    writer.begin_immediate().unwrap();
    let error = database.run(&mut writer, Mode::Exec, insert, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StatementRefused, "{error}");
    assert!(writer.in_transaction());
}

#[test]
fn one_statement_cannot_make_the_log_grow_without_end() {
    let mut database = TestDatabase::new();
    database.config.wal_bytes = 4 << 20;
    database.load("CREATE TABLE t(a INTEGER PRIMARY KEY, b)");
    let error = database
        .exec(
            "INSERT INTO t(b) WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 200000) \
             SELECT hex(randomblob(500)) FROM c",
            &[],
        )
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::TransactionLost), "{error:?}");
    assert_eq!(database.value("SELECT count(*) FROM t").unwrap(), SqlValue::Int(0));
}

/// Everything agents usually do with a database: the authorizer must not get in the way.
#[test]
fn an_agents_everyday_statements_run() {
    let database = TestDatabase::new();
    let values: Vec<String> = (0..5_000).map(|number| format!("({number}, 'n{number}')")).collect();
    let many = format!("INSERT INTO wide VALUES {}", values.join(", "));
    let sum = format!("SELECT {}", vec!["1"; 900].join(" + "));
    let statements = [
        "ANALYZE",
        "CREATE TABLE p(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE CHECK (length(name) < 50), g AS (name || '!'))",
        "CREATE TABLE IF NOT EXISTS c(p REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE, w REAL DEFAULT (1.0 + 1))",
        "CREATE TABLE s(k TEXT PRIMARY KEY, v INT NOT NULL) STRICT, WITHOUT ROWID",
        "CREATE UNIQUE INDEX c_w ON c(w, p) WHERE w > 0",
        "CREATE INDEX p_lower ON p(lower(name) DESC)",
        "CREATE VIEW v AS SELECT p.name, sum(c.w) AS w FROM p LEFT JOIN c ON c.p = p.id GROUP BY p.id",
        "CREATE TRIGGER p_in AFTER INSERT ON p BEGIN INSERT INTO c VALUES (NEW.id, 7); END",
        "CREATE TRIGGER v_in INSTEAD OF INSERT ON v BEGIN INSERT INTO p(name) VALUES (NEW.name); END",
        "INSERT INTO p(name) VALUES ('a'), ('b') RETURNING id, g",
        "INSERT INTO v(name) VALUES ('through the view')",
        "INSERT INTO s VALUES ('x', 1) ON CONFLICT (k) DO UPDATE SET v = v + excluded.v",
        "INSERT OR IGNORE INTO p(name) VALUES ('a')",
        "REPLACE INTO s VALUES ('x', 2)",
        "UPDATE p SET name = name || '2' WHERE id IN (SELECT p FROM c) RETURNING *",
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i, sum(i) OVER (ORDER BY i) FROM n",
        "CREATE TABLE wide(n, t)",
        &many,
        &sum,
        "CREATE TABLE copy AS SELECT * FROM wide WHERE n % 2 = 0",
        "ANALYZE",
        "ANALYZE p",
        "REINDEX",
        "REINDEX p_lower",
        "ALTER TABLE p ADD COLUMN extra TEXT DEFAULT 'x' CHECK (extra <> '')",
        "ALTER TABLE p RENAME COLUMN extra TO more",
        "ALTER TABLE p DROP COLUMN more",
        "ALTER TABLE wide RENAME TO wider",
        "DELETE FROM p WHERE id = 1",
        "DELETE FROM copy",
        "DROP INDEX p_lower",
        "DROP TRIGGER p_in",
        "DROP VIEW v",
        "DROP TABLE copy",
        "DROP TABLE p",
        "CREATE VIRTUAL TABLE ft USING fts5(title, body, tokenize = 'porter unicode61', prefix = '2 3')",
        "INSERT INTO ft(title, body) SELECT 'n' || n, 'running number ' || n FROM wider WHERE n < 1000",
        "SELECT rowid, bm25(ft), snippet(ft, 1, '<', '>', '…', 5) FROM ft WHERE ft MATCH 'run*' ORDER BY rank LIMIT 3",
        "UPDATE ft SET body = 'walking' WHERE rowid = 7",
        "DELETE FROM ft WHERE ft MATCH 'title:n8'",
        "INSERT INTO ft(ft) VALUES ('optimize')",
        "INSERT INTO ft(ft, rank) VALUES ('merge', 16)",
        "INSERT INTO ft(ft) VALUES ('integrity-check')",
        "ALTER TABLE ft RENAME TO fulltext",
        "SELECT count(*) FROM fulltext('walk')",
        "CREATE VIRTUAL TABLE ext USING fts5(t, content = 'wider', content_rowid = 'n')",
        "INSERT INTO ext(ext) VALUES ('rebuild')",
        "SELECT highlight(ext, 0, '<', '>') FROM ext WHERE ext MATCH 'n17'",
        "DROP TABLE fulltext",
        "CREATE VIRTUAL TABLE rt USING rtree(id, x0, x1, y0, y1, +note TEXT)",
        "INSERT INTO rt SELECT n, n, n + 1, 0, 1, t FROM wider",
        "SELECT id, note FROM rt WHERE x0 >= 10 AND x1 <= 20 AND y0 < 1",
        "UPDATE rt SET x1 = x1 + 5 WHERE id = 3",
        "DROP TABLE rt",
        "CREATE VIRTUAL TABLE ri USING rtree_i32(id, a, b)",
        "SELECT name, type FROM pragma_table_info('wider')",
        "SELECT m.name, i.name FROM sqlite_schema m JOIN pragma_index_list(m.name) i WHERE m.type = 'table'",
        "SELECT key, value FROM json_each('{\"a\": [1, 2]}')",
        "SELECT fullkey, atom FROM json_tree('{\"a\": [1, {\"b\": 2}]}')",
        "SELECT '{\"a\": {\"b\": 1}}' -> 'a' ->> 'b'",
        "EXPLAIN SELECT * FROM wider",
        "EXPLAIN QUERY PLAN SELECT * FROM wider WHERE n = 1",
        "SELECT current_timestamp, date('now'), strftime('%Y', 'now', 'localtime')",
        "VALUES (1, 2), (3, 4)",
        "SELECT 1 -- and a comment",
        "  ; SELECT 2 ; ; /* nothing */ ",
    ];
    for sql in statements {
        if let Err(error) = database.exec(sql, &[]) {
            panic!("{error:?}: {}", sql.chars().take(120).collect::<String>());
        }
    }
}

#[test]
fn opening_an_r_tree_is_no_write_and_hides_none() {
    let database = TestDatabase::new();
    database.load("CREATE VIRTUAL TABLE rt USING rtree(id, a, b); INSERT INTO rt VALUES (1, 2, 3)");
    assert_eq!(database.value("SELECT a FROM rt").unwrap(), SqlValue::Real(2.0));
    assert_eq!(database.writer().tables().unwrap().len(), 1);
    for layers in [Layers::ALL, Layers::only("authorizer").unwrap()] {
        for (mode, role) in [(Mode::Exec, Role::Writer), (Mode::Query, Role::Reader)] {
            let file = database.file();
            let mut sandbox =
                Sandbox::open(Place::File(&file), role, &database.config, &[], None, layers).unwrap();
            let sql = "UPDATE rt_node SET data = x'00' WHERE EXISTS (SELECT 1 FROM rt)";
            let error = database.run(&mut sandbox, mode, sql, &[]).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::StatementRefused | ErrorKind::ReadOnly), "{error:?}");
        }
    }
    assert_eq!(database.value("SELECT a FROM rt").unwrap(), SqlValue::Real(2.0));
}
