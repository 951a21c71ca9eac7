//! A dump recreates the same database, whatever it holds; a hostile one creates nothing that an agent could not.

use crate::support::files::{folder, raw_sql};
use crate::support::sql::Sql;
use crate::support::{agent, block_on, collect, eventually, fast, stream};
use memory_core::sql::{RestoreMode, RestoreOptions, RestoreOutcome, SqlValue};
use memory_core::{ErrorKind, Result};
use proptest::prelude::*;
use tempfile::TempDir;

fn open() -> (TempDir, Sql) {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), fast());
    (folder, sql)
}

fn dump(sql: &Sql) -> Vec<Vec<u8>> {
    block_on(async {
        let lines = sql.facet().dump(&sql.scope).await.unwrap();
        collect(lines).await.into_iter().map(Result::unwrap).collect()
    })
}

fn restore(sql: &Sql, lines: Vec<Vec<u8>>) -> Result<RestoreOutcome> {
    let dump = stream(lines.into_iter().map(Ok).collect());
    block_on(sql.facet().restore(&sql.scope, dump, RestoreOptions::default()))
}

fn lines(text: &str) -> Vec<Vec<u8>> {
    text.lines().map(|line| line.trim().as_bytes().to_vec()).collect()
}

/// Restores into another scope; its dump must be the same.
fn round_trip(sql: &Sql) -> (Sql, RestoreOutcome) {
    let before = dump(sql);
    let copy = sql.at(agent("copy"));
    let outcome = restore(&copy, before.clone()).unwrap();
    let text = |lines: Vec<Vec<u8>>| {
        lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(text(dump(&copy)), text(before));
    (copy, outcome)
}

const DATABASE: &[&str] = &[
    "CREATE TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL DEFAULT 'x' COLLATE NOCASE, CHECK (name <> ''))",
    "CREATE TABLE child (a, p REFERENCES parent ON DELETE CASCADE, twice AS (a * 2) STORED, b GENERATED ALWAYS AS (a || 'b'))",
    "CREATE TABLE \"a \"\"b\" (\"c d\" TEXT, \"select\", \"e])\" INT)",
    "CREATE TABLE \"main.notes\" (x)",
    "CREATE TABLE sqliteXfoo (x)",
    "CREATE TABLE keyed (k TEXT, n INT, v BLOB, PRIMARY KEY (k, n DESC)) WITHOUT ROWID, STRICT",
    "CREATE TABLE hidden (rowid TEXT, _rowid_ TEXT, oid TEXT)",
    "CREATE TABLE half_hidden (rowid TEXT)",
    "INSERT INTO parent (id, name) VALUES (5, 'a'), (9, 'b')",
    "DELETE FROM parent WHERE id = 9",
    "INSERT INTO child (a, p) VALUES (1, 5), (2, NULL)",
    "INSERT INTO child (rowid, a) VALUES (77, 3), (-3, 4)",
    "INSERT INTO \"a \"\"b\" VALUES ('x', 1, 2)",
    "INSERT INTO \"main.notes\" VALUES (9223372036854775807), (-9223372036854775808), (1e999), (-1e999), (1.0), (-0.0), (x'00ff'), (''), (NULL)",
    "INSERT INTO sqliteXfoo VALUES ('kept'), (CAST(x'ff41' AS TEXT)), ('nul' || char(0) || 'inside'), (0.1)",
    "INSERT INTO keyed VALUES ('a', 1, x'01'), ('a', 2, NULL)",
    "INSERT INTO hidden VALUES ('r', 's', 't')",
    "INSERT INTO half_hidden (_rowid_, rowid) VALUES (42, 'text')",
    "CREATE UNIQUE INDEX by_name ON parent (name, lower(name)) WHERE name IS NOT NULL",
    "CREATE VIEW both AS SELECT * FROM parent JOIN child ON p = id",
    "CREATE TRIGGER count_up AFTER INSERT ON parent BEGIN INSERT INTO sqliteXfoo VALUES ('trigger ' || new.name); END",
    "CREATE VIRTUAL TABLE words USING fts5(title, body, tokenize = 'porter')",
    "INSERT INTO words (rowid, title, body) VALUES (12, 'one', 'running dogs'), (13, 'two', 'sleeping cats')",
    "CREATE VIRTUAL TABLE outside USING fts5(name, content='parent', content_rowid='id')",
    "INSERT INTO outside (rowid, name) SELECT id, name FROM parent",
    "CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1, y0, y1, +label)",
    "INSERT INTO boxes VALUES (3, 0.1, 0.2, -5, 7.7, 'box')",
    "ANALYZE",
];

#[test]
fn everything_an_agent_can_make_comes_back() {
    let (_folder, sql) = open();
    for statement in DATABASE {
        sql.exec(statement);
    }
    let (copy, outcome) = round_trip(&sql);
    assert_eq!(outcome.skipped, Vec::<String>::new());
    assert_eq!(outcome.tables, 11);
    for query in [
        "SELECT * FROM child ORDER BY rowid",
        "SELECT rowid, * FROM child ORDER BY rowid",
        "SELECT x, typeof(x) FROM \"main.notes\" ORDER BY rowid",
        "SELECT CAST(x AS BLOB), typeof(x) FROM sqliteXfoo ORDER BY rowid",
        "SELECT * FROM keyed ORDER BY k, n",
        "SELECT _rowid_, rowid FROM half_hidden",
        "SELECT rowid, title FROM words WHERE words MATCH 'run' ORDER BY rank",
        "SELECT rowid, name FROM outside WHERE outside MATCH 'a'",
        "SELECT * FROM boxes",
        "SELECT * FROM both",
    ] {
        assert_eq!(copy.rows(query), sql.rows(query), "{query}");
        assert!(!copy.rows(query).is_empty(), "{query}");
    }
    // The counter continues after the deleted row, and the trigger works again.
    for sql in [&copy, &sql] {
        let next = sql.exec("INSERT INTO parent (name) VALUES ('c') RETURNING id").returning.unwrap();
        assert_eq!(next.rows, [[SqlValue::Int(10)]]);
        assert_eq!(sql.int("SELECT count(*) FROM sqliteXfoo WHERE x = 'trigger c'"), 1);
    }
}

#[test]
fn what_is_replaced_leaves_nothing_whatever_it_was_and_whatever_comes() {
    let (_folder, sql) = open();
    for statement in DATABASE {
        sql.exec(statement);
    }
    let other = sql.at(agent("other"));
    for statement in [
        "CREATE TABLE child (id INTEGER PRIMARY KEY AUTOINCREMENT, up REFERENCES child ON DELETE RESTRICT)",
        "INSERT INTO child VALUES (3, NULL), (4, 3), (5, 5)",
        "CREATE VIEW parent AS SELECT * FROM child",
        "CREATE TABLE words_data (x)",
    ] {
        other.exec(statement);
    }
    let (rich, poor) = (dump(&sql), dump(&other));
    for (to, content) in [(&sql, &poor), (&other, &rich), (&other, &poor), (&other, &poor)] {
        let lines = stream(content.iter().cloned().map(Ok).collect());
        let outcome = block_on(to.facet().restore(
            &to.scope,
            lines,
            RestoreOptions::default().with_mode(RestoreMode::Replace),
        ))
        .unwrap();
        assert_eq!(outcome.skipped, Vec::<String>::new());
        assert_eq!(&dump(to), content);
    }
    // Foreign keys are enforced again, on this connection too.
    assert_eq!(
        other.try_exec("DELETE FROM child WHERE id = 3").unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

/// Each as an agent may create it; the last statement of each is refused before and after.
const REFERENCES: &[(&str, &[&str])] = &[
    (
        "to a table that is made later",
        &[
            "CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent (id))",
            "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
            "INSERT INTO parent VALUES (1)",
            "INSERT INTO child VALUES (1, 1), (2, NULL)",
            "INSERT INTO child VALUES (3, 9)",
        ],
    ),
    (
        "to a table that was built anew",
        &[
            "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
            "CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent (id))",
            "CREATE TABLE parent_new (id INTEGER PRIMARY KEY, more)",
            "INSERT INTO parent_new VALUES (1, 2)",
            "DROP TABLE parent",
            "ALTER TABLE parent_new RENAME TO parent",
            "INSERT INTO child VALUES (1, 1)",
            "INSERT INTO child VALUES (3, 9)",
        ],
    ),
    (
        "to each other",
        &[
            "CREATE TABLE a (id INTEGER PRIMARY KEY, b REFERENCES b (id) ON DELETE RESTRICT)",
            "CREATE TABLE b (id INTEGER PRIMARY KEY, a REFERENCES a (id) ON DELETE RESTRICT)",
            "INSERT INTO a VALUES (1, NULL)",
            "INSERT INTO b VALUES (1, 1)",
            "UPDATE a SET b = 1",
            "DELETE FROM b",
        ],
    ),
    (
        "to a table that is gone",
        &[
            "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
            "CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent (id))",
            "INSERT INTO child VALUES (1, NULL)",
            "DROP TABLE parent",
            "INSERT INTO child VALUES (2, 1)",
        ],
    ),
    (
        "to what a new table of the name does not hold",
        &[
            "CREATE TABLE parent (code)",
            "CREATE UNIQUE INDEX codes ON parent (code)",
            "CREATE TABLE child (p REFERENCES parent (code))",
            "INSERT INTO parent VALUES (1)",
            "INSERT INTO child VALUES (1)",
            "DROP INDEX codes",
            "DROP TABLE parent",
            "CREATE TABLE parent (code UNIQUE)",
            "INSERT INTO child VALUES (1)",
        ],
    ),
    (
        "to columns whose index is made after the rows",
        &[
            "CREATE TABLE parent (code)",
            "CREATE UNIQUE INDEX codes ON parent (code)",
            "CREATE TABLE child (p REFERENCES parent (code))",
            "INSERT INTO parent VALUES (1)",
            "INSERT INTO child VALUES (1)",
            "INSERT INTO child VALUES (2)",
        ],
    ),
];

#[test]
fn references_come_back_whatever_they_refer_to_and_hold_again() {
    for (which, statements) in REFERENCES {
        let (_folder, sql) = open();
        let (refused, made) = statements.split_last().unwrap();
        for statement in made {
            sql.exec(statement);
        }
        let (copy, outcome) = round_trip(&sql);
        assert_eq!(outcome.skipped, Vec::<String>::new(), "{which}");
        for sql in [&sql, &copy] {
            let error = sql.try_exec(refused).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{which}: {error:?}");
        }
    }
}

#[test]
fn a_restore_that_fails_leaves_foreign_keys_enforced() {
    let (_folder, sql) = open();
    sql.exec("CREATE TABLE parent (id INTEGER PRIMARY KEY)");
    sql.exec("CREATE TABLE child (p REFERENCES parent)");
    let refuses = || {
        let error = sql.try_exec("INSERT INTO child VALUES (1)").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
    };
    let whole = dump(&sql);
    restore(&sql, whole.clone()).unwrap_err();
    refuses();
    for cut in 0..whole.len() {
        let lines = stream(whole[..cut].iter().cloned().map(Ok).collect());
        let options = RestoreOptions::default().with_mode(RestoreMode::Replace);
        block_on(sql.facet().restore(&sql.scope, lines, options)).unwrap_err();
        refuses();
    }
}

#[test]
fn how_a_full_text_index_is_set_up_comes_back() {
    let (_folder, sql) = open();
    for statement in [
        "CREATE TABLE texts (id INTEGER PRIMARY KEY, body)",
        "INSERT INTO texts VALUES (1, 'dogs'), (2, 'cats')",
        "CREATE VIRTUAL TABLE own USING fts5(title, body)",
        "CREATE VIRTUAL TABLE \"the \"\"other\" USING fts5(body, content='texts', content_rowid='id')",
        "INSERT INTO own (own, rank) VALUES ('rank', 'bm25(10.0, 0.1)')",
        "INSERT INTO own (own, rank) VALUES ('secure-delete', 1)",
        "INSERT INTO own (own, rank) VALUES ('Usermerge', 3)",
        "INSERT INTO \"the \"\"other\" (\"the \"\"other\", rank) VALUES ('automerge', 0)",
        "INSERT INTO \"the \"\"other\" (\"the \"\"other\") VALUES ('rebuild')",
        "INSERT INTO own VALUES ('dogs', 'cats'), ('cats', 'dogs and more dogs')",
    ] {
        sql.exec(statement);
    }
    let (copy, outcome) = round_trip(&sql);
    assert_eq!(outcome.skipped, Vec::<String>::new());
    let settings = dump(&copy).iter().filter(|line| line.starts_with(b"{\"setting\"")).count();
    assert_eq!(settings, 4);
    let ranked = "SELECT title FROM own WHERE own MATCH 'dogs' ORDER BY rank";
    assert_eq!(copy.rows(ranked), sql.rows(ranked));
    assert_eq!(copy.rows(ranked)[0], [SqlValue::Text("dogs".to_owned())], "the title weighs more");
}

#[test]
fn a_virtual_table_takes_no_table_that_is_there() {
    let (_folder, sql) = open();
    for (made, refused) in [
        ("CREATE TABLE docs_content (x)", "CREATE VIRTUAL TABLE docs USING fts5(body, content='')"),
        ("CREATE TABLE Notes_docsize (x)", "CREATE VIRTUAL TABLE notes USING fts5(body, columnsize=0)"),
        (
            "CREATE TABLE view_content (x)",
            "CREATE VIRTUAL TABLE \"View\" USING fts5(x, content='Notes_docsize')",
        ),
        ("CREATE TABLE own_content (x)", "CREATE VIRTUAL TABLE own USING fts5(body)"),
        ("CREATE TABLE boxes_node (x)", "CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1)"),
        ("CREATE VIRTUAL TABLE other USING fts5(body, content='')", "ALTER TABLE other RENAME TO docs"),
        ("CREATE TABLE plain (x)", "ALTER TABLE plain RENAME TO other_content"),
        ("CREATE TABLE plain_2 (x)", "CREATE TABLE other_content (x)"),
    ] {
        sql.exec(made);
        let before = sql.tables();
        let error = sql.try_exec(refused).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::StatementRefused),
            "{refused}: {error:?}"
        );
        let tx = sql.begin();
        sql.try_exec_in(&tx, refused).unwrap_err();
        sql.commit(&tx).unwrap();
        assert_eq!(sql.tables(), before, "{refused}");
    }
    for table in ["docs_content", "notes_docsize", "own_content", "boxes_node"] {
        sql.exec(&format!("INSERT INTO {table} VALUES (1)"));
    }
    // Its own tables are removed with it, and other names are free.
    sql.exec("ALTER TABLE other RENAME TO others");
    sql.exec("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1)");
    for table in ["other_content", "r_config", "r_content"] {
        sql.exec(&format!("CREATE TABLE {table} (x)"));
        sql.exec(&format!("INSERT INTO {table} VALUES (1)"));
        assert!(sql.tables().contains(&table.to_owned()));
    }
    sql.exec("INSERT INTO r VALUES (1, 2, 3)");
    let (copy, outcome) = round_trip(&sql);
    assert_eq!(
        outcome.skipped,
        ["table others: the rows of a full-text index without content cannot be read back; index them again"]
    );
    assert_eq!(copy.int("SELECT count(*) FROM r"), 1);
    assert_eq!(copy.int("SELECT count(*) FROM r_config"), 1);
}

#[test]
fn a_table_that_a_virtual_table_has_taken_is_dumped_and_replaced() {
    let (folder, sql) = open();
    sql.exec("CREATE TABLE docs_content (x)");
    sql.exec("INSERT INTO docs_content VALUES ('kept')");
    sql.exec("CREATE TABLE texts (body)");
    sql.exec("INSERT INTO texts VALUES ('dogs')");
    raw_sql(folder.path())
        .execute_batch("CREATE VIRTUAL TABLE docs USING fts5(body, content='texts')")
        .unwrap();
    assert_eq!(sql.tables(), ["docs", "docs_content", "texts"]);
    let whole = dump(&sql);
    let copy = sql.at(agent("copy"));
    let outcome = restore(&copy, whole.clone()).unwrap();
    assert_eq!(copy.texts("SELECT x FROM docs_content"), ["kept"]);
    assert!(outcome.skipped[0].contains("docs_content"), "{:?}", outcome.skipped);
    let replace = RestoreOptions::default().with_mode(RestoreMode::Replace);
    let lines = stream(whole.into_iter().map(Ok).collect());
    block_on(sql.facet().restore(&sql.scope, lines, replace)).unwrap();
    assert_eq!(sql.texts("SELECT x FROM docs_content"), ["kept"]);
    assert_eq!(dump(&sql), dump(&copy));
}

#[test]
fn a_table_of_as_many_columns_as_a_table_may_have_comes_back() {
    let (_folder, sql) = open();
    let columns = (0..500).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ");
    sql.exec(&format!("CREATE TABLE wide ({columns})"));
    sql.exec("INSERT INTO wide (rowid, c499) VALUES (7, 'last')");
    let (copy, outcome) = round_trip(&sql);
    assert_eq!(outcome.skipped, Vec::<String>::new());
    assert_eq!(copy.texts("SELECT c499 FROM wide WHERE rowid = 7"), ["last"]);
    for sql in [&sql, &copy] {
        let error = sql.try_query(&format!("SELECT 1, {columns} FROM wide")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
    }
}

#[test]
fn a_full_text_index_over_a_view_is_filled_when_the_view_is_there() {
    let (_folder, sql) = open();
    for statement in [
        "CREATE TABLE texts (id INTEGER PRIMARY KEY, body)",
        "INSERT INTO texts VALUES (1, 'dogs'), (2, 'cats')",
        "CREATE VIEW shown AS SELECT id, body FROM texts",
        "CREATE VIRTUAL TABLE words USING fts5(body, content='shown', content_rowid='id')",
        "INSERT INTO words (words) VALUES ('rebuild')",
        "ANALYZE",
    ] {
        sql.exec(statement);
    }
    let (copy, outcome) = round_trip(&sql);
    assert_eq!(outcome.skipped, Vec::<String>::new());
    assert_eq!(copy.int("SELECT rowid FROM words WHERE words MATCH 'cats'"), 2);
}

#[test]
fn a_setting_of_a_hostile_dump_changes_nothing_that_it_could_not_name() {
    let (_folder, sql) = open();
    sql.exec("CREATE TABLE plain (plain, rank)");
    sql.exec("CREATE VIRTUAL TABLE words USING fts5(body)");
    sql.exec("INSERT INTO words VALUES ('dogs')");
    let mut hostile = dump(&sql);
    let end = hostile.pop().unwrap();
    let settings = [
        ("words", "delete-all", "1"),
        ("words", "version", "9"),
        ("words", "rank", "\"no function\""),
        ("words_config", "rank", "1"),
        ("plain", "rank", "1"),
        ("nothing", "rank", "1"),
        ("sqlite_schema", "rank", "1"),
    ];
    for (table, name, value) in settings {
        hostile.extend(lines(&format!(
            "{{\"setting\":{{\"table\":\"{table}\",\"name\":\"{name}\",\"value\":{value}}}}}"
        )));
    }
    hostile.push(end);
    let copy = sql.at(agent("copy"));
    let outcome = restore(&copy, hostile).unwrap();
    assert_eq!(outcome.skipped.len(), settings.len(), "{:?}", outcome.skipped);
    assert_eq!(dump(&copy), dump(&sql));
    assert_eq!(copy.int("SELECT count(*) FROM words WHERE words MATCH 'dogs'"), 1);
}

#[test]
fn a_hostile_dump_makes_nothing_that_an_agent_could_not() {
    let (_folder, sql) = open();
    let target = folder();
    let stolen = target.path().join("stolen.db");
    let object = |kind: &str, text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!("{{\"object\":{{\"kind\":\"{kind}\",\"name\":\"x\",\"sql\":{text}}}}}")
    };
    let table = |text: &str| {
        let text = serde_json::to_string(text).unwrap();
        format!("{{\"table\":{{\"name\":\"x\",\"sql\":{text},\"columns\":[\"a\"]}}}}")
    };
    let attach = format!("ATTACH '{}' AS o", stolen.display());
    let hostile = [
        table(&attach),
        object("view", &attach),
        object("index", &format!("VACUUM INTO '{}'", stolen.display())),
        table("CREATE TABLE _mem_x (a)"),
        table("CREATE TABLE x (a); DROP TABLE x"),
        table("CREATE TEMP TABLE x (a)"),
        table("CREATE VIRTUAL TABLE x USING fts3(a)"),
        table("PRAGMA writable_schema = 1"),
        object("view", "CREATE VIEW x AS SELECT load_extension('x')"),
        object("trigger", "CREATE TEMP TRIGGER x AFTER INSERT ON kept BEGIN SELECT 1; END"),
        object("trigger", "DROP TABLE kept"),
        object("index", "INSERT INTO sqlite_master VALUES (1,2,3,4,5)"),
    ];
    let mut dump = lines("{\"memory_sql_dump\":{\"version\":1,\"dialect\":\"sqlite\"}}");
    dump.extend(lines("{\"table\":{\"name\":\"kept\",\"sql\":\"CREATE TABLE kept (a)\",\"columns\":[\"a\"]}}\n{\"row\":[1]}"));
    let tables = 1 + hostile.iter().filter(|line| line.starts_with("{\"table")).count();
    dump.extend(hostile.iter().map(|line| line.clone().into_bytes()));
    dump.extend(lines(&format!("{{\"end\":{{\"tables\":{tables},\"rows\":1}}}}")));
    let outcome = restore(&sql, dump).unwrap();
    assert_eq!(
        (outcome.tables, outcome.rows, outcome.skipped.len()),
        (1, 1, hostile.len()),
        "{:?}",
        outcome.skipped
    );
    assert_eq!(sql.tables(), ["kept"]);
    assert_eq!(sql.int("SELECT count(*) FROM kept"), 1);
    assert!(!stolen.exists());

    // Rows for tables of the engine or the runtime.
    for name in ["sqlite_master", "sqlite_schema", "sqlite_sequence", "_mem_x", "memory_entries"] {
        let copy = sql.at(agent(name));
        let text = format!(
            "{{\"memory_sql_dump\":{{\"version\":1,\"dialect\":\"sqlite\"}}}}\n\
             {{\"table\":{{\"name\":\"{name}\",\"sql\":\"CREATE TABLE y (a INTEGER PRIMARY KEY AUTOINCREMENT)\",\"columns\":[\"name\"]}}}}\n\
             {{\"row\":[\"x\"]}}\n{{\"end\":{{\"tables\":1,\"rows\":1}}}}"
        );
        assert!(restore(&copy, lines(&text)).is_err(), "{name}");
        assert!(copy.tables().is_empty(), "{name}");
    }
}

#[test]
fn a_line_longer_than_any_value_and_a_row_of_another_length_are_told() {
    let (_folder, sql) = open();
    sql.exec("CREATE TABLE t (a)");
    sql.exec("INSERT INTO t VALUES ('row')");
    let longest = memory_sql::longest_line(fast().sql.value_bytes);
    let mut long = dump(&sql);
    long.insert(1, vec![b' '; longest + 1]);
    let copy = sql.at(agent("copy"));
    assert_eq!(restore(&copy, long).unwrap_err().kind(), ErrorKind::TooLarge);
    let mut wide = dump(&sql);
    let row = wide.iter_mut().find(|line| line.starts_with(b"{\"row\":[")).unwrap();
    row.splice(8..8, *b"1,");
    let error = restore(&copy, wide).unwrap_err();
    assert!(error.message().contains("as many values as its table has columns"), "{error}");
}

#[test]
fn a_full_text_index_without_content_is_told_as_skipped() {
    let (_folder, sql) = open();
    sql.exec("CREATE VIRTUAL TABLE words USING fts5(body, content='')");
    sql.exec("INSERT INTO words (rowid, body) VALUES (1, 'dogs')");
    let outcome = restore(&sql.at(agent("copy")), dump(&sql)).unwrap();
    assert_eq!(outcome.tables, 1);
    assert_eq!(outcome.skipped.len(), 1);
    assert!(outcome.skipped[0].contains("words"), "{:?}", outcome.skipped);
}

#[test]
fn a_dump_that_nobody_reads_ends_and_lets_the_store_close() {
    let (_folder, sql) = open();
    sql.exec("CREATE TABLE t (a)");
    sql.exec("INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) SELECT hex(zeroblob(2000)) FROM n");
    let begin = || eventually("a dump begins", || block_on(sql.facet().dump(&sql.scope)).ok());
    for _ in 0..10 {
        drop(begin());
    }
    let abandoned = begin();
    sql.clone().close();
    drop(abandoned);
}

/// Names that break code which puts them into SQL unquoted.
fn name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("]".to_owned()),
        Just("`".to_owned()),
        Just(".".to_owned()),
        Just(";".to_owned()),
        Just("--".to_owned()),
        Just("/*".to_owned()),
        Just("\u{e9}".to_owned()),
        Just(" ".to_owned()),
        Just("\\".to_owned()),
        Just("$1".to_owned()),
        Just("%".to_owned()),
        "[a-zA-Z_]{1,5}",
    ];
    proptest::collection::vec(part, 1..5).prop_map(|parts| format!("n{}", parts.concat()))
}

fn value() -> impl Strategy<Value = SqlValue> {
    prop_oneof![
        Just(SqlValue::Null),
        any::<i64>().prop_map(SqlValue::Int),
        any::<f64>().prop_filter("SQLite has no NaN", |real| !real.is_nan()).prop_map(SqlValue::Real),
        ".{0,12}".prop_map(SqlValue::Text),
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(SqlValue::Blob),
    ]
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_names_and_values_come_back(
        tables in proptest::collection::btree_map(name(), proptest::collection::btree_set(name(), 1..4), 1..4),
        values in proptest::collection::vec(value(), 12),
    ) {
        let sql = Sql::in_memory(fast());
        let mut seen = std::collections::BTreeSet::new();
        for (table, columns) in &tables {
            // SQLite's names differ in more than the case of ASCII letters.
            let mut folded = std::collections::BTreeSet::new();
            let columns: Vec<_> =
                columns.iter().filter(|column| folded.insert(column.to_ascii_lowercase())).map(|column| quoted(column)).collect();
            if !seen.insert(table.to_ascii_lowercase()) {
                continue;
            }
            sql.exec(&format!("CREATE TABLE {} ({})", quoted(table), columns.join(", ")));
            let marks = vec!["?"; columns.len()].join(", ");
            for row in values.chunks_exact(columns.len()) {
                sql.run_with(&format!("INSERT INTO {} VALUES ({marks})", quoted(table)), row);
            }
            let index = quoted(&format!("{table} index"));
            sql.exec(&format!("CREATE INDEX {index} ON {} ({})", quoted(table), columns[0]));
        }
        let (copy, outcome) = round_trip(&sql);
        prop_assert!(outcome.skipped.is_empty());
        for table in sql.tables() {
            let query = format!("SELECT * FROM {}", quoted(&table));
            // As text: -0.0 is not 0.0.
            prop_assert_eq!(format!("{:?}", copy.rows(&query)), format!("{:?}", sql.rows(&query)));
        }
    }
}
