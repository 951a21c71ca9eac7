//! Attacks by class, beyond the corpora: what a policy of allow-lists must refuse, by the gate alone and by the tree
//! alone, and what it must not.

use memory_validator::{Dialect, Mode, Policy, Stages, Verdict, lab};

const GATE: Stages = Stages { gate: true, grammar: false, walk: false };
const TREE: Stages = Stages { gate: false, grammar: true, walk: true };

fn rule(sql: &str, mode: Mode, stages: Stages) -> Option<&'static str> {
    match lab::check_here(sql, Dialect::Sqlite, mode, &Policy::new(Dialect::Sqlite), stages) {
        Verdict::Accepted(_) => None,
        Verdict::Refused(refusal) => Some(refusal.rule),
    }
}

/// Refused by each half alone.
fn refused(statements: &[&str]) {
    let missed: Vec<String> = statements
        .iter()
        .flat_map(|sql| [(sql, "gate", GATE), (sql, "tree", TREE)])
        .filter(|(sql, _, stages)| rule(sql, Mode::Exec, *stages).is_none())
        .map(|(sql, half, _)| format!("{half}: {sql}"))
        .collect();
    assert!(missed.is_empty(), "accepted:\n{}", missed.join("\n"));
}

fn accepted(statements: &[&str]) {
    for sql in statements {
        assert_eq!(rule(sql, Mode::Exec, Stages::ALL), None, "{sql}");
    }
}

#[test]
fn statements_of_other_kinds() {
    refused(&[
        "AttAcH 'x' AS y",
        ";;ATTACH 'x' AS y",
        "ATTACH x",
        "EXPLAIN ATTACH 'x' AS y",
        "EXPLAIN QUERY PLAN VACUUM",
        "/**/PRAGMA/**/user_version",
        "PRAGMA main.user_version = 1",
        "PRAGMA table_info(t)",
        "VACUUM",
        "VACUUM main",
        "begin",
        "END TRANSACTION",
        "COMMIT",
        "SAVEPOINT a",
        "ROLLBACK TO a",
        "RELEASE SAVEPOINT a",
        "DETACH main",
        "EXPLAIN INSERT INTO t VALUES (1)",
        "EXPLAIN EXPLAIN SELECT 1",
        "EXPLAIN CREATE TABLE x(a)",
        "EXPLAIN WITH a AS (SELECT 1) DELETE FROM t",
        "GRANT ALL ON t TO u",
        "TABLE t",
        "",
        " -- nothing",
        ";;",
    ]);
}

#[test]
fn a_second_statement() {
    refused(&[
        "SELECT 1; SELECT 2",
        "SELECT 1;;SELECT 2",
        "SELECT 1;/* */DROP TABLE t",
        "SELECT ']';DROP TABLE t",
        "SELECT [;];DROP TABLE t",
        "SELECT \";\";DROP TABLE t",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END; DROP TABLE t",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; END; DROP TABLE t",
        "SELECT 1;;;x",
        "SELECT 1;'x'",
    ]);
    accepted(&[
        "SELECT 1;;; -- end",
        ";SELECT 1",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT CASE WHEN 1 THEN 2 END; SELECT 1; END;;",
        "SELECT ';' AS \";\", [;] FROM `;`",
    ]);
}

#[test]
fn functions_wherever_an_expression_stands() {
    let call = "load_extension('x')";
    let places = [
        "SELECT {}",
        "SELECT (({}))",
        "SELECT 1 + -{}",
        "SELECT NOT {}",
        "SELECT {} COLLATE nocase",
        "SELECT CAST({} AS TEXT)",
        "SELECT CASE {} WHEN 1 THEN 2 END",
        "SELECT CASE WHEN {} THEN 2 END",
        "SELECT CASE WHEN 1 THEN {} END",
        "SELECT CASE WHEN 1 THEN 2 ELSE {} END",
        "SELECT 1 BETWEEN {} AND 2",
        "SELECT 1 BETWEEN 0 AND {}",
        "SELECT 1 IN (2, {})",
        "SELECT {} IN (2)",
        "SELECT {} IN t",
        "SELECT a IN json_each({})",
        "SELECT {} IN (SELECT 1)",
        "SELECT 1 IN (SELECT {})",
        "SELECT a LIKE {}",
        "SELECT a LIKE b ESCAPE {}",
        "SELECT a MATCH {}",
        "SELECT a IS NOT DISTINCT FROM {}",
        "SELECT {} ISNULL",
        "SELECT {} NOT NULL",
        "SELECT EXISTS (SELECT {})",
        "SELECT (SELECT {})",
        "SELECT (1, {})",
        "SELECT a ->> {}",
        "SELECT max(1, {})",
        "SELECT count(DISTINCT {})",
        "SELECT group_concat(a ORDER BY {}) FROM t",
        "SELECT sum(a) FILTER (WHERE {}) FROM t",
        "SELECT sum(a) OVER (PARTITION BY {}) FROM t",
        "SELECT sum(a) OVER (ORDER BY {}) FROM t",
        "SELECT sum(a) OVER (ORDER BY a ROWS {} PRECEDING) FROM t",
        "SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND {} FOLLOWING) FROM t",
        "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY {})",
        "SELECT DISTINCT {}",
        "SELECT 1 AS x, {} AS y",
        "SELECT 1 FROM t WHERE {}",
        "SELECT 1 FROM t GROUP BY {}",
        "SELECT 1 FROM t GROUP BY a HAVING {}",
        "SELECT 1 FROM t ORDER BY {} DESC NULLS LAST",
        "SELECT 1 LIMIT {}",
        "SELECT 1 LIMIT 1 OFFSET {}",
        "SELECT 1 LIMIT 1, {}",
        "SELECT 1 FROM t JOIN u ON {}",
        "SELECT 1 FROM (SELECT {})",
        "SELECT 1 FROM (t JOIN u ON {})",
        "SELECT 1 FROM json_each({})",
        "SELECT 1 FROM t, json_each(t.a, {})",
        "SELECT 1 UNION SELECT {}",
        "VALUES ({})",
        "VALUES (1), (2), ({})",
        "WITH c AS (SELECT {}) SELECT 1",
        "WITH c AS (VALUES ({})) SELECT * FROM c",
        "WITH c AS NOT MATERIALIZED (SELECT {}) SELECT * FROM c",
        "INSERT INTO t VALUES ({})",
        "INSERT INTO t SELECT {}",
        "INSERT INTO t VALUES (1) RETURNING {}",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE {} DO NOTHING",
        "INSERT INTO t VALUES (1) ON CONFLICT ({}) DO NOTHING",
        "INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET a = {}",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 1 WHERE {}",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING ON CONFLICT (b) DO UPDATE SET a = {}",
        "UPDATE t SET a = {}",
        "UPDATE t SET (a, b) = (1, {})",
        "UPDATE t SET a = 1 FROM (SELECT {})",
        "UPDATE t SET a = 1 WHERE {}",
        "UPDATE t SET a = 1 RETURNING {}",
        "UPDATE t SET a = 1 ORDER BY {} LIMIT 1",
        "DELETE FROM t WHERE {}",
        "DELETE FROM t RETURNING {}",
        "DELETE FROM t ORDER BY a LIMIT {}",
        "CREATE TABLE x AS SELECT {}",
        "CREATE TABLE x(a DEFAULT ({}))",
        "CREATE TABLE x(a CHECK ({}))",
        "CREATE TABLE x(a, CHECK ({}))",
        "CREATE TABLE x(a, CONSTRAINT n CHECK ({}))",
        "CREATE TABLE x(a CONSTRAINT m CONSTRAINT n CHECK ({}))",
        "CREATE TABLE x(a CONSTRAINT m NOT DEFERRABLE CHECK ({}))",
        "CREATE TABLE x(a AS ({}))",
        "CREATE TABLE x(a GENERATED ALWAYS AS ({}) STORED)",
        "CREATE TABLE x(a, UNIQUE ({}))",
        "CREATE VIEW x AS SELECT {}",
        "CREATE INDEX x ON t({})",
        "CREATE INDEX x ON t(a) WHERE {}",
        "CREATE TRIGGER x AFTER INSERT ON t WHEN {} BEGIN SELECT 1; END",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT {}; END",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO t VALUES ({}); END",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET a = {}; END",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN UPDATE t SET a = 1 FROM (SELECT {}); END",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM t WHERE {}; END",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT RAISE(ABORT, {}); END",
        "ALTER TABLE t ADD COLUMN a DEFAULT ({})",
        "ALTER TABLE t ADD CHECK ({})",
        "ALTER TABLE t ADD CONSTRAINT n CHECK ({})",
        "EXPLAIN SELECT {}",
    ];
    for place in places {
        let fine = place.replace("{}", "lower('x')");
        assert_eq!(rule(&fine, Mode::Exec, Stages::ALL), None, "{fine}");
        refused(&[place.replace("{}", call).as_str()]);
        refused(&[place.replace("{}", "\"Load_Extension\" /* */ ('x')").as_str()]);
    }
}

#[test]
fn names_of_functions_in_any_dress() {
    refused(&[
        "SELECT LOAD_EXTENSION('x')",
        "SELECT [load_extension]('x')",
        "SELECT `load_extension`('x')",
        "SELECT load_extension --\n('x')",
        "SELECT main.load_extension('x')",
        "SELECT 'load_extension'('x')",
        "SELECT load_extension(*)",
        "SELECT load_extension()",
        "SELECT load_extension(1)",
        "SELECT a load_extension(1)",
        "SELECT sqlite_compileoption_used('x'), 1",
        "SELECT fts5(1)",
        "SELECT sqlite_offset(a) FROM t",
        "SELECT ｌower('x')",
        "SELECT sqlite_unsupported_offset(1)",
        "SELECT geopoly_area(1)",
        "SELECT rtreecheck('rt')",
        "SELECT rtreedepth(1)",
        "SELECT a REGEXP load_extension('x') FROM t",
    ]);
}

#[test]
fn relations_of_the_engine_or_the_runtime() {
    refused(&[
        "SELECT * FROM _mem_meta",
        "SELECT * FROM main._mem_meta",
        "SELECT * FROM \"_MEM_meta\"",
        "SELECT * FROM '_mem_meta'",
        "SELECT * FROM t, _mem_meta",
        "SELECT * FROM t, '_mem_meta'",
        "SELECT * FROM t, main.'_mem_meta'",
        "SELECT * FROM (t, '_mem_meta')",
        "SELECT * FROM (('_mem_meta'))",
        "SELECT * FROM t JOIN '_mem_meta' USING (a)",
        "SELECT * FROM t LEFT JOIN u ON t.a = u.a, '_mem_meta'",
        "SELECT a IN _mem_meta FROM t",
        "SELECT a IN '_mem_meta' FROM t",
        "SELECT * FROM sqlite_temp_schema",
        "SELECT * FROM sqlite_dbpage",
        "SELECT * FROM dbstat",
        "SELECT * FROM t, 'dbstat'",
        "SELECT * FROM tables_used('SELECT 1')",
        "SELECT * FROM temp.sqlite_schema",
        "SELECT * FROM other.t",
        "SELECT * FROM 'temp'.t",
        "SELECT * FROM pragma_database_list",
        "SELECT * FROM pragma_table_list()",
        "SELECT * FROM main.pragma_function_list",
        "SELECT * FROM [pragma_module_list]",
        "SELECT * FROM 'pragma_integrity_check'('x')",
        "SELECT a IN pragma_database_list FROM t",
        "SELECT * FROM generate_series(1, 2)",
        "SELECT * FROM lower('x')",
        "CREATE TABLE x AS SELECT * FROM _mem_meta",
        "CREATE VIEW x AS SELECT * FROM _mem_meta",
        "CREATE TABLE x(a REFERENCES _mem_meta)",
        "CREATE TABLE x(a, FOREIGN KEY (a) REFERENCES '_mem_meta'(k))",
        "UPDATE t SET a = 1 FROM _mem_meta",
        "UPDATE t SET a = 1 FROM u, '_mem_meta'",
        "DELETE FROM _mem_meta",
        "DELETE FROM main.'_mem_meta'",
        "UPDATE OR IGNORE '_mem_meta' SET a = 1",
        "UPDATE main._mem_meta SET a = 1",
        "INSERT INTO \"main\".\"_mem_meta\" VALUES (1)",
        "REPLACE INTO [_mem_meta] VALUES (1)",
        "INSERT INTO sqlite_schema VALUES (1)",
        "INSERT INTO sqlite_sequence VALUES ('t', 1)",
        "INSERT INTO memory_entries VALUES (1)",
        "DELETE FROM memory_entries",
        "DROP TABLE memory_entries",
        "DROP TABLE IF EXISTS main.'_mem_meta'",
        "DROP VIEW _mem_v",
        "DROP INDEX sqlite_autoindex_t_1",
        "DROP TRIGGER _mem_t",
        "ALTER TABLE _mem_meta RENAME TO x",
        "ALTER TABLE t RENAME TO _mem_x",
        "ALTER TABLE t RENAME TO 'sqlite_x'",
        "ALTER TABLE sqlite_schema ADD COLUMN a",
        "CREATE TABLE _mem_x(a)",
        "CREATE TABLE IF NOT EXISTS 'sqlite_x'(a)",
        "CREATE TABLE pragma_table_info(a)",
        "CREATE TABLE memory_entries(a)",
        "CREATE VIEW memory_entries AS SELECT 1",
        "CREATE VIRTUAL TABLE _mem_x USING fts5(a)",
        "CREATE INDEX _mem_i ON t(a)",
        "CREATE INDEX i ON _mem_meta(k)",
        "CREATE INDEX IF NOT EXISTS main.i ON sqlite_schema(name)",
        "CREATE TRIGGER _mem_t AFTER INSERT ON t BEGIN SELECT 1; END",
        "CREATE TRIGGER g INSTEAD OF INSERT ON memory_entries BEGIN SELECT 1; END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM _mem_meta; END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE '_mem_meta' SET a = 1; END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO sqlite_schema SELECT 1; END",
        "REINDEX _mem_meta",
        "ANALYZE sqlite_schema",
    ]);
    accepted(&[
        "SELECT name FROM sqlite_schema WHERE type = 'table'",
        "SELECT sql FROM main.sqlite_master",
        "SELECT seq FROM sqlite_sequence WHERE name = 't'",
        "SELECT * FROM memory_entries JOIN t ON t.key = memory_entries.key",
        "SELECT * FROM pragma_table_info('t')",
        "SELECT * FROM pragma_table_info",
        "SELECT m.name, p.* FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS p",
        "SELECT a IN json_each('[1]') FROM t",
        "CREATE TABLE ft_extra_data(id)",
        "CREATE TABLE sqliteX(a)",
        "CREATE TABLE mem_x(a, temp, main, pragma)",
        "SELECT temp.a FROM t AS temp",
        "CREATE INDEX temp ON t(a)",
        "CREATE TABLE x('a' 'VARCHAR'(20), b NATIVE CHARACTER(70), key DECIMAL(10, -5))",
        "WITH 'c'(x) AS (SELECT 1) SELECT CAST(x AS UNSIGNED BIG INT(8)) FROM c",
        "INSERT INTO t AS 'q'(a) VALUES (1)",
        "SELECT '_mem_meta', 'pragma_database_list', a FROM t",
        "SELECT * FROM t WHERE a IN ('_mem_meta', 'load_extension(1)')",
        "INSERT INTO t VALUES (1, '_mem_meta')",
    ]);
}

#[test]
fn temporary_objects_and_other_schemas() {
    refused(&[
        "CREATE TEMP TABLE x(a)",
        "CREATE TEMPORARY VIEW x AS SELECT 1",
        "CREATE TEMP TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END",
        "CREATE TABLE temp.x(a)",
        "CREATE TABLE 'temp'.x(a)",
        "CREATE VIEW [TEMP].x AS SELECT 1",
        "CREATE INDEX temp.i ON t(a)",
        "CREATE TRIGGER temp.g AFTER INSERT ON t BEGIN SELECT 1; END",
        "CREATE VIRTUAL TABLE temp.x USING fts5(a)",
        "DROP TABLE temp.x",
        "INSERT INTO temp.x VALUES (1)",
        "UPDATE temp.x SET a = 1",
        "DELETE FROM temp.x",
        "ALTER TABLE temp.x RENAME TO y",
        "SELECT * FROM temp.x",
        "SELECT * FROM t JOIN \"temp\".x",
        "INSERT INTO other.x VALUES (1)",
        "ANALYZE temp",
    ]);
}

#[test]
fn modules_and_their_options() {
    refused(&[
        "CREATE VIRTUAL TABLE x USING fts4(a)",
        "CREATE VIRTUAL TABLE x USING 'csv'(filename='/etc/passwd')",
        "CREATE VIRTUAL TABLE x USING fts5vocab('f', 'row')",
        "CREATE VIRTUAL TABLE x USING geopoly(a)",
        "CREATE VIRTUAL TABLE x USING zipfile",
        "CREATE VIRTUAL TABLE IF NOT EXISTS main.x USING dbstat",
        "CREATE VIRTUAL TABLE x USING FTS5(a, content=sqlite_schema)",
        "CREATE VIRTUAL TABLE x USING fts5(a, Content = \"_mem_meta\")",
        "CREATE VIRTUAL TABLE x USING fts5(a, con='_mem_meta')",
        "CREATE VIRTUAL TABLE x USING fts5(a, content='main.sqlite_master')",
        "CREATE VIRTUAL TABLE x USING fts5(a, content/**/='_mem_meta')",
        "CREATE VIRTUAL TABLE x USING fts5(a, content='memory_entries')",
        "CREATE VIRTUAL TABLE x USING fts5(a, tokenize='mine')",
        "CREATE VIRTUAL TABLE x USING fts5(a, tokenize='porter mine')",
    ]);
    accepted(&[
        "CREATE VIRTUAL TABLE x USING fts5(a, b UNINDEXED, prefix='2 3', content='', tokenize = 'porter unicode61 remove_diacritics 2')",
        "CREATE VIRTUAL TABLE x USING fts5(a, tokenize = \"unicode61 tokenchars '-_='\")",
        "CREATE VIRTUAL TABLE x USING fts5(\"a=b\", detail=none, columnsize=0, content=docs, content_rowid=id)",
        "CREATE VIRTUAL TABLE x USING rtree(id, x0, x1, +label TEXT)",
        "CREATE VIRTUAL TABLE x USING rtree_i32(id, x0, x1)",
    ]);
}

#[test]
fn conflicts_that_would_end_the_transaction() {
    refused(&[
        "INSERT OR ROLLBACK INTO t VALUES (1)",
        "INSERT OR/**/rollback INTO t VALUES (1)",
        "UPDATE OR ROLLBACK t SET a = 1",
        "CREATE TABLE x(a PRIMARY KEY ON CONFLICT ROLLBACK)",
        "CREATE TABLE x(a UNIQUE ON CONFLICT ROLLBACK)",
        "CREATE TABLE x(a NOT NULL ON CONFLICT ROLLBACK)",
        "CREATE TABLE x(a NULL ON CONFLICT ROLLBACK)",
        "CREATE TABLE x(a, PRIMARY KEY (a) ON CONFLICT ROLLBACK)",
        "CREATE TABLE x(a, UNIQUE (a) ON CONFLICT ROLLBACK)",
        "CREATE TABLE x(a, CHECK (a) ON CONFLICT ROLLBACK)",
        "ALTER TABLE t ADD COLUMN b NOT NULL ON CONFLICT ROLLBACK DEFAULT 1",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT RAISE(ROLLBACK, 'x'); END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT raise ( rollback , 'x'); END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT OR ROLLBACK INTO u VALUES (1); END",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE OR ROLLBACK u SET a = 1; END",
    ]);
    accepted(&[
        "SELECT rollback FROM t",
        "SELECT 'OR ROLLBACK'",
        "INSERT OR FAIL INTO t VALUES (1)",
        "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT RAISE(ABORT, 'ROLLBACK'); END",
    ]);
}

#[test]
fn every_write_in_a_query_is_refused_as_a_write() {
    for sql in [
        "INSERT INTO t VALUES (1)",
        "REPLACE INTO t VALUES (1)",
        "UPDATE t SET a = 1 RETURNING a",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "WITH replace AS (SELECT 1) INSERT INTO t SELECT * FROM replace",
        "CREATE TABLE x(a)",
        "CREATE TEMP TABLE x(a)",
        "CREATE VIEW x AS SELECT 1",
        "CREATE UNIQUE INDEX x ON t(a)",
        "CREATE VIRTUAL TABLE x USING fts5(a)",
        "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1; END",
        "DROP TABLE t",
        "ALTER TABLE t ADD COLUMN b",
        "REINDEX",
        "ANALYZE",
        "EXPLAIN UPDATE t SET a = 1",
        "EXPLAIN QUERY PLAN DELETE FROM t",
    ] {
        for stages in [GATE, TREE] {
            let policy = Policy::new(Dialect::Sqlite);
            let verdict = lab::check_here(sql, Dialect::Sqlite, Mode::Query, &policy, stages);
            assert!(matches!(&verdict, Verdict::Refused(refusal) if refusal.writes), "{sql}: {verdict:?}");
        }
    }
}

#[test]
fn a_shared_schema_is_read_and_never_written() {
    let policy = Policy::new(Dialect::Sqlite).with_read_only_schema("Shared");
    let decide =
        |sql: &str, stages: Stages| lab::check_here(sql, Dialect::Sqlite, Mode::Exec, &policy, stages);
    for sql in [
        "SELECT * FROM shared.t",
        "INSERT INTO t SELECT * FROM \"SHARED\".t",
        "SELECT shared.t.a FROM shared.t",
    ] {
        assert!(matches!(decide(sql, Stages::ALL), Verdict::Accepted(_)), "{sql}");
    }
    for sql in [
        "INSERT INTO shared.t VALUES (1)",
        "UPDATE shared.t SET a = 1",
        "DELETE FROM shared.t",
        "CREATE TABLE shared.x(a)",
        "DROP TABLE shared.t",
        "ALTER TABLE shared.t RENAME TO x",
        "CREATE INDEX shared.i ON t(a)",
        "DROP TRIGGER shared.g",
        "SELECT * FROM shared._mem_meta",
    ] {
        for stages in [GATE, TREE] {
            assert!(matches!(decide(sql, stages), Verdict::Refused(_)), "{sql}");
        }
    }
}

#[test]
fn a_policy_takes_away_and_gives() {
    let policy = Policy::new(Dialect::Sqlite)
        .without_function("Lower")
        .with_function("mine")
        .with_readable("_mem_public")
        .without_statement(memory_validator::StatementKind::Delete);
    let rule = |sql: &str, stages: Stages| match lab::check_here(
        sql,
        Dialect::Sqlite,
        Mode::Exec,
        &policy,
        stages,
    ) {
        Verdict::Accepted(_) => None,
        Verdict::Refused(refusal) => Some(refusal.rule),
    };
    for stages in [GATE, TREE] {
        assert_eq!(rule("SELECT lower('x')", stages), Some("function"));
        assert_eq!(rule("SELECT mine('x') FROM _mem_public", stages), None);
        assert_eq!(rule("INSERT INTO _mem_public VALUES (1)", stages), Some("reserved"));
        assert_eq!(rule("DELETE FROM t", stages), Some("statement_kind"));
    }
}
