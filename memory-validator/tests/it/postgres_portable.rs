//! What PostgreSQL's users write and sqlparser does not read: the portable grammar decides about it all the same, as the
//! engine's own does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use memory_validator::{Access, Dialect, Grammar, Mode, Policy, StatementKind, Validator, Verdict};

fn grammars() -> Vec<Grammar> {
    let mut grammars = vec![Grammar::Portable];
    if cfg!(feature = "pg-grammar") {
        grammars.push(Grammar::Engine);
    }
    grammars
}

fn check(sql: &str, mode: Mode, grammar: Grammar) -> Verdict {
    let mut policy = Policy::new(Dialect::Postgres);
    policy.grammar = grammar;
    Validator::check(sql, Dialect::Postgres, mode, &policy)
}

#[test]
fn definitions_in_the_engine_s_own_words_are_accepted() {
    for sql in [
        "CREATE TABLE a (LIKE b INCLUDING ALL EXCLUDING INDEXES)",
        "CREATE TABLE a AS TABLE b WITH NO DATA",
        "CREATE TABLE IF NOT EXISTS a (x, \"Y\") AS VALUES (1, 'x'), (2, 'y') WITH DATA",
        "CREATE TABLE a (x int UNIQUE NULLS NOT DISTINCT, y text STORAGE EXTERNAL, z text COMPRESSION lz4)",
        "CREATE VIEW v AS SELECT * FROM a WHERE x > 1 WITH CASCADED CHECK OPTION",
        "CREATE RECURSIVE VIEW v (n) AS VALUES (1) UNION ALL SELECT n + 1 FROM v WHERE n < 10",
        "CREATE MATERIALIZED VIEW v AS SELECT 1 AS a WITH NO DATA",
        "REFRESH MATERIALIZED VIEW v",
        "REFRESH MATERIALIZED VIEW CONCURRENTLY \"V\" WITH NO DATA",
        "CREATE SEQUENCE s AS bigint START WITH 10 INCREMENT BY -5 MINVALUE -100 NO MAXVALUE CACHE 2 NO CYCLE OWNED BY a.x",
        "ALTER SEQUENCE IF EXISTS s RESTART WITH 5",
        "ALTER SEQUENCE s OWNED BY NONE RESTART",
        "ALTER SEQUENCE s RENAME TO t",
        "ALTER VIEW v RENAME TO w",
        "ALTER MATERIALIZED VIEW v RENAME COLUMN a TO b",
        "ALTER TABLE a ATTACH PARTITION b FOR VALUES FROM ('2024-01-01', -1) TO (MAXVALUE, 2)",
        "ALTER TABLE a ATTACH PARTITION b DEFAULT",
        "ALTER TABLE a DETACH PARTITION b",
        "ALTER TABLE a INHERIT b",
        "ALTER TABLE ONLY a NO INHERIT b",
        "ALTER TABLE a ALTER COLUMN x SET STATISTICS 500",
        "ALTER TABLE a ALTER x SET STORAGE EXTERNAL",
        "ALTER TABLE a ALTER COLUMN x DROP EXPRESSION IF EXISTS",
        "ALTER TABLE a SET UNLOGGED",
    ] {
        accepted(sql, Mode::Exec);
    }
}

/// One statement of each class of syntax that the manual describes and sqlparser lacks.
#[test]
fn classes_of_the_engine_s_syntax_are_accepted() {
    for line in crate::support::lines(include_str!("../data/postgres_classes.jsonl")) {
        accepted(&line.sql, line.mode);
    }
}

#[test]
fn a_refusal_after_a_phrase_read_otherwise_tells_its_place() {
    for (sql, construct, column) in [
        ("SELECT (a ISNULL), trim(both 'x' from b) FROM s_b.t", "s_b.t", 47),
        ("SELECT inet '10.0.0.1' <<= b FROM t WHERE c ISNULL AND s_b.x.y.z IS NULL FROM", "FROM", 74),
    ] {
        let refusal = check(sql, Mode::Query, Grammar::Portable).into_result().unwrap_err();
        assert_eq!((refusal.construct.as_str(), refusal.position.column), (construct, column), "{refusal}");
    }
}

#[test]
fn changes_in_the_engine_s_own_words_are_accepted() {
    for sql in [
        "UPDATE a SET x[1] = 2, j['k']['l'] = '3' WHERE id = 1",
        "UPDATE ONLY a AS t SET x = upper(t.x)",
        "DELETE FROM ONLY a t USING ONLY b WHERE t.x = b.x",
        "INSERT INTO a (x) OVERRIDING SYSTEM VALUE VALUES (1)",
        "MERGE INTO a t USING b s ON t.k = s.k WHEN MATCHED THEN DELETE RETURNING t.*",
        "INSERT INTO a VALUES (to_jsonb(ROW(1, 'x')))",
        "TRUNCATE ONLY a, ONLY b",
    ] {
        accepted(sql, Mode::Exec);
    }
}

#[test]
fn queries_in_the_engine_s_own_words_are_accepted() {
    for sql in [
        "TABLE a",
        "TABLE ONLY a;",
        "SELECT count(*) FROM ONLY a x JOIN ONLY (b) ON true",
        "SELECT * FROM ROWS FROM (generate_series(1, 3), unnest(ARRAY['a'])) AS r(a, b)",
        "SELECT a <+> '[1,2]' FROM v",
        "SELECT * FROM a WHERE x BETWEEN SYMMETRIC 5 AND 1",
        "SELECT sum(x) OVER (ORDER BY y ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE NO OTHERS) FROM a",
        "SELECT format('%s %s', VARIADIC ARRAY['a', 'b'])",
        "SELECT JSON_QUERY(m, '$.t' WITH CONDITIONAL ARRAY WRAPPER) FROM a",
        "SELECT t.* FROM a, JSON_TABLE(m, '$[*]' COLUMNS (n FOR ORDINALITY, x int PATH '$.x')) t",
        "WITH RECURSIVE t AS (SELECT id, p FROM a UNION ALL SELECT a.id, a.p FROM a JOIN t ON a.p = t.id) \
         SEARCH BREADTH FIRST BY id, p SET o CYCLE id SET c TO true DEFAULT false USING path SELECT * FROM t ORDER BY o",
        "SELECT x FROM a FETCH FIRST 3 ROWS ONLY",
        "SELECT pg_size_pretty(123456::bigint), hashtext('x')",
    ] {
        accepted(sql, Mode::Query);
    }
}

fn accepted(sql: &str, mode: Mode) {
    for grammar in grammars() {
        if let Verdict::Refused(refusal) = check(sql, mode, grammar) {
            panic!("{grammar:?}: {refusal}: {sql}");
        }
    }
}

/// What is read away or read from tokens hides nothing.
#[test]
fn what_must_be_refused_is_refused_in_those_words_too() {
    for sql in [
        "TABLE pg_class",
        "TABLE ONLY s_b.secrets",
        "TABLE a, pg_roles",
        "TABLE a FOR UPDATE",
        "SELECT * FROM ONLY pg_roles",
        "SELECT * FROM ONLY (s_b.secrets)",
        "SELECT * FROM ROWS FROM (pg_ls_dir('.'), generate_series(1, 2)) r",
        "SELECT * FROM ROWS FROM (query_to_xml('SELECT 1', true, true, '')) r",
        "SELECT sum(x) OVER (ORDER BY y ROWS 1 PRECEDING EXCLUDE TIES) + pg_sleep(1) FROM a",
        "SELECT format('%s', VARIADIC pg_ls_dir('.'))",
        "WITH RECURSIVE t AS (SELECT 1) SEARCH DEPTH FIRST BY id SET o SELECT pg_sleep(1) FROM t",
        "WITH RECURSIVE t AS (SELECT * FROM s_b.x) CYCLE id SET c USING p SELECT * FROM t",
        "WITH t AS (SELECT 1) CYCLE id SET c TO pg_sleep(1) DEFAULT 0 USING p SELECT 1",
        "REFRESH MATERIALIZED VIEW s_b.v",
        "REFRESH MATERIALIZED VIEW pg_v",
        "REFRESH MATERIALIZED VIEW v; DROP TABLE a",
        "CREATE SEQUENCE s_b.s",
        "CREATE TEMP SEQUENCE s",
        "ALTER SEQUENCE s OWNED BY pg_class.oid",
        "ALTER SEQUENCE s OWNED BY s_b.secrets.id",
        "ALTER SEQUENCE s OWNER TO postgres",
        "ALTER VIEW v OWNER TO postgres",
        "ALTER VIEW v RENAME TO pg_v",
        "ALTER VIEW v SET SCHEMA public",
        "ALTER TABLE a ATTACH PARTITION pg_class DEFAULT",
        "ALTER TABLE a ATTACH PARTITION b FOR VALUES FROM (pg_sleep(1)) TO (2)",
        "ALTER TABLE a DETACH PARTITION b CONCURRENTLY",
        "ALTER TABLE a INHERIT pg_class",
        "ALTER TABLE a SET UNLOGGED, OWNER TO postgres",
        "ALTER TABLE a SET TABLESPACE x",
        "UPDATE a SET x[pg_backend_pid()] = 1",
        "UPDATE ONLY pg_settings SET setting = '0'",
        "INSERT INTO a OVERRIDING USER VALUE SELECT rolname FROM pg_roles",
        "CREATE TABLE a (LIKE pg_class INCLUDING ALL)",
        "CREATE TABLE a (x) AS SELECT relname FROM pg_class WITH NO DATA",
        "CREATE VIEW v AS SELECT * FROM s_b.secrets WITH CHECK OPTION",
        "CREATE RECURSIVE VIEW v (n) AS SELECT oid FROM pg_class",
        "MERGE INTO a USING b ON true WHEN MATCHED THEN DELETE RETURNING pg_sleep(1)",
        "SELECT * FROM JSON_TABLE(pg_read_file('x')::jsonb, '$' COLUMNS (x int)) t",
        "SELECT * FROM JSON_TABLE('[]', '$' COLUMNS (x regclass PATH '$')) t",
        "SELECT xid '1'",
        "SELECT CUBE(1)",
        "SELECT a FROM t GROUP BY GROUPING SETS ((cube(1)))",
        "SELECT xmlparse(document pg_read_file('x'))",
        "SELECT isnull(1)",
        "SELECT json_value(pg_read_file('a')::jsonb, '$' PASSING pg_sleep(1) AS x)",
        "SELECT json_value(a, '$' RETURNING regclass)",
        "SELECT json_value(a, '$' RETURNING xid DEFAULT pg_sleep(1) ON EMPTY) FROM t",
        "SELECT json_array(select rolname from pg_roles)",
        "SELECT substring(pg_read_file('x') from 2 for 3)",
        "SELECT substring('a' similar pg_read_file('x') escape '#')",
        "SELECT trim(both pg_read_file('x') from 'b')",
        "TABLE pg_roles",
        "SELECT (TABLE pg_roles)",
        "SELECT * FROM t WHERE a IN (TABLE s_b.x)",
        "SELECT (VALUES (pg_sleep(1)))",
        "SELECT a FROM t GROUP BY DISTINCT pg_sleep(1)",
        "SELECT a FROM t GROUP BY ROLLUP (pg_sleep(1))",
        "SELECT a FROM t GROUP BY GROUPING SETS (ROLLUP (a, pg_sleep(1)))",
        "INSERT INTO t VALUES (1) ON CONFLICT (pg_sleep(1)) WHERE a DO NOTHING",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE pg_sleep(1) IS NULL DO NOTHING",
        "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE (SELECT true FROM pg_roles) DO UPDATE SET a = 1",
        "CREATE TABLE a (LIKE pg_class, b int)",
        "CREATE TABLE a (b int, LIKE s_b.x INCLUDING ALL)",
        "ALTER INDEX pg_x SET (fillfactor = 1)",
        "ALTER VIEW s_b.v ALTER COLUMN a SET DEFAULT 1",
        "ALTER VIEW v ALTER COLUMN a SET DEFAULT pg_sleep(1)",
        "ALTER TABLE t ALTER COLUMN a SET EXPRESSION AS (pg_sleep(1))",
        "ALTER TYPE t ADD ATTRIBUTE a regclass",
        "ALTER TYPE s_b.t ADD ATTRIBUTE a int",
        "ALTER TABLE t RESET (autovacuum_enabled)",
        "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (START WITH pg_sleep(1)))",
        "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (OWNED BY pg_class.oid))",
        "SELECT pg_lsn '1/2', s_b.t 'x'",
        "SELECT regclass 'pg_class'",
        "SELECT \"regclass\" 'pg_class'",
        "SELECT xid8 '1'",
        "SELECT * FROM JSON_TABLE('[]', '$' PASSING pg_sleep(1) AS x COLUMNS (x int)) t",
        "SELECT * FROM a FETCH FIRST (pg_sleep(1)) ROWS ONLY",
        "SELECT overlay('a', pg_read_file('x'), 1)",
        "SELECT xmlelement(name a, pg_read_file('x'))",
        "SELECT xmlforest(pg_read_file('x') AS y)",
        "SELECT query_to_xml('SELECT 1', true, true, '')",
        "SELECT xpath('/a', x) FROM t",
        "SELECT (x).setseed FROM (SELECT 0.5::float8 AS x) q",
    ] {
        for grammar in grammars() {
            for mode in [Mode::Exec, Mode::Query] {
                let verdict = check(sql, mode, grammar);
                assert!(matches!(verdict, Verdict::Refused(_)), "{grammar:?} {mode:?} accepts {sql}");
            }
        }
    }
}

#[test]
fn a_query_does_not_move_a_sequence_on() {
    for grammar in grammars() {
        for sql in ["SELECT nextval('s')", "SELECT setval('s', 5)"] {
            let refusal = check(sql, Mode::Query, grammar).into_result().unwrap_err();
            assert!(refusal.writes, "{grammar:?}: {refusal}");
            assert!(check(sql, Mode::Exec, grammar).into_result().is_ok(), "{grammar:?}: {sql}");
        }
        assert!(check("SELECT currval('s')", Mode::Query, grammar).into_result().is_ok());
    }
}

#[test]
fn short_statements_tell_what_they_touch() {
    for grammar in grammars() {
        for (sql, kind, relation, access) in [
            ("TABLE a", StatementKind::Select, "a", Access::Read),
            ("REFRESH MATERIALIZED VIEW \"V\"", StatementKind::Refresh, "V", Access::Define),
            ("ALTER SEQUENCE S RESTART", StatementKind::Alter, "s", Access::Define),
            ("ALTER VIEW v RENAME TO w", StatementKind::Alter, "v", Access::Define),
        ] {
            let accepted = check(sql, Mode::Exec, grammar).into_result().unwrap();
            assert_eq!(accepted.kind, kind, "{grammar:?}: {sql}");
            let first = &accepted.relations[0];
            assert_eq!((first.name.as_str(), first.access), (relation, access), "{grammar:?}: {sql}");
        }
    }
}
