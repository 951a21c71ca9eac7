//! Objects that a dump cannot contain are reported individually, in the dump and by the restore.

use std::future::poll_fn;

use memory_core::sql::{DumpStream, RestoreMode, RestoreOptions, RestoreOutcome, SqlFacet as _};
use memory_core::{ErrorKind, Scope};
use memory_postgres::PostgresProvider;

use crate::support;
use crate::support::sql;

async fn lines_of(mut dump: DumpStream) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    while let Some(line) = poll_fn(|context| dump.as_mut().poll_next(context)).await {
        lines.push(line.unwrap());
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_a_dump_cannot_contain_are_reported_and_the_rest_is_restored() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let (from, to) = (Scope::agent("dumps", "from").unwrap(), Scope::agent("dumps", "to").unwrap());
    run_all(
        &provider,
        &from,
        &["CREATE TABLE kept (n int PRIMARY KEY, m text)", "INSERT INTO kept VALUES (1, 'one'), (2, 'two')"],
    )
    .await;
    let admin = place.client().await;
    let row =
        admin.query_one("SELECT 'mem_s_' || hex, 'mem_r_' || hex FROM mem_sql.scopes", &[]).await.unwrap();
    let (schema, role): (String, String) = (row.get(0), row.get(1));
    // Objects that only an administrator creates, or that belong to no table.
    admin
        .batch_execute(&format!(
            "SET search_path = {schema}; \
             CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; \
             CREATE TRIGGER on_insert BEFORE INSERT ON kept FOR EACH ROW EXECUTE FUNCTION noted(); \
             CREATE RULE no_delete AS ON DELETE TO kept DO INSTEAD NOTHING; \
             CREATE TABLE parted (n int) PARTITION BY RANGE (n); \
             CREATE TABLE part_one PARTITION OF parted FOR VALUES FROM (1) TO (9); \
             CREATE TABLE child () INHERITS (kept); \
             CREATE POLICY mine ON kept USING (true); ALTER TABLE kept ENABLE ROW LEVEL SECURITY; \
             CREATE STATISTICS of_kept ON n, m FROM kept; \
             CREATE TYPE span AS RANGE (subtype = int); \
             CREATE COLLATION sorted (provider = libc, locale = 'C'); \
             CREATE TABLE counted (n int GENERATED ALWAYS AS IDENTITY (INCREMENT BY 5)); \
             CREATE TABLE tight (n int) WITH (fillfactor = 50); \
             CREATE TYPE mood AS ENUM ('ok'); COMMENT ON TYPE mood IS 'a comment'; \
             GRANT SELECT ON tight TO PUBLIC; \
             GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}; GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role}"
        ))
        .await
        .unwrap();
    let lines = lines_of(provider.dump(&from).await.unwrap()).await;
    let text: Vec<String> = lines.iter().map(|line| String::from_utf8(line.clone()).unwrap()).collect();
    let told: Vec<&String> = text.iter().filter(|line| line.starts_with(r#"{"skipped""#)).collect();
    let names = [
        "on_insert: triggers",
        "noted: functions",
        "no_delete: rules",
        "parted: partitioned",
        "part_one: partitioned",
        "child: partitioned, inherited",
        "mine: policies",
        "kept: row security",
        "kept: privileges",
        "of_kept: statistics object",
        "span: range",
        "sorted: collation",
        "counted_n_seq: how an identity column counts",
        "tight: storage parameters",
        "a comment: comments on types",
    ];
    for name in names {
        assert!(told.iter().any(|line| line.contains(name)), "{name} was left out in silence: {told:#?}");
    }

    let mut items = lines.into_iter();
    let stream = futures_util::stream::poll_fn(move |_| std::task::Poll::Ready(items.next().map(Ok)));
    let outcome = provider.restore(&to, Box::pin(stream), RestoreOptions::default()).await.unwrap();
    assert_eq!(outcome.rows, 2);
    for name in names {
        assert!(outcome.skipped.iter().any(|line| line.contains(name)), "{name}: {:#?}", outcome.skipped);
    }
    let rows = sql::rows(&provider, &to, "SELECT m FROM kept ORDER BY n").await;
    assert_eq!(rows.unwrap(), r#"[["one"],["two"]]"#);
    for scope in [from, to] {
        provider.drop_sql_scope(&scope).await.unwrap();
    }
}

async fn run_all(provider: &PostgresProvider, scope: &Scope, statements: &[&str]) {
    for statement in statements {
        sql::exec(provider, scope, statement).await.unwrap();
    }
}

async fn text_of(provider: &PostgresProvider, scope: &Scope) -> Vec<String> {
    let lines = lines_of(provider.dump(scope).await.unwrap()).await;
    lines.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
}

async fn restored(provider: &PostgresProvider, to: &Scope, lines: Vec<String>) -> RestoreOutcome {
    let mut items = lines.into_iter().map(String::into_bytes);
    let stream = futures_util::stream::poll_fn(move |_| std::task::Poll::Ready(items.next().map(Ok)));
    provider.restore(to, Box::pin(stream), RestoreOptions::default()).await.unwrap()
}

/// Objects whose order or spelling of creation the engine does not preserve.
const ODD: &[(&str, &[&str])] = &[
    (
        "sequences",
        &[
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, s serial)",
            "CREATE SEQUENCE zz",
            "CREATE TABLE b (id int GENERATED BY DEFAULT AS IDENTITY)",
            "CREATE TABLE a (s serial)",
            "COMMENT ON SEQUENCE zz IS 'last'",
            "COMMENT ON SEQUENCE a_s_seq IS 'first'",
            "INSERT INTO a DEFAULT VALUES",
        ],
    ),
    (
        "an identity that was renamed with its table",
        &[
            "CREATE TABLE \"it's \" (\"a \"\"\\b\" int GENERATED ALWAYS AS IDENTITY, n int)",
            "INSERT INTO \"it's \" (n) VALUES (1), (2)",
            "ALTER TABLE \"it's \" RENAME TO \"other\\'s\"",
        ],
    ),
    ("values in a union", &["CREATE VIEW v AS SELECT 1 AS a UNION ALL VALUES (2)"]),
    (
        "a view that names a newer one",
        &[
            "CREATE VIEW v AS SELECT 1 AS a",
            "CREATE VIEW w AS SELECT 1 AS a",
            "CREATE OR REPLACE VIEW v AS SELECT a FROM w",
            "CREATE MATERIALIZED VIEW a AS SELECT a FROM v",
            "CREATE UNIQUE INDEX i ON a (a)",
        ],
    ),
    (
        "full text",
        &[
            "CREATE TABLE docs (id serial PRIMARY KEY, body text, words tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED)",
            "INSERT INTO docs (body) VALUES ('running dogs'), ('it''s ''english''::regconfig')",
            "CREATE INDEX by_words ON docs USING gin (to_tsvector('simple', body))",
            "CREATE VIEW found AS SELECT id FROM docs WHERE to_tsvector('english', body) @@ to_tsquery('english', 'run') OR body = '''s''::regclass'",
        ],
    ),
    (
        "a view over a sequence, and one over a frame",
        &[
            "CREATE SEQUENCE \"my s\"",
            "CREATE VIEW next AS SELECT nextval('\"my s\"') AS n",
            "CREATE TABLE t (a int, c timestamptz)",
            "CREATE VIEW sums AS SELECT a, sum(a) OVER (ORDER BY c RANGE BETWEEN '1 day' PRECEDING AND '2 days' FOLLOWING) AS s FROM t",
        ],
    ),
    (
        "types of tables and of types",
        &[
            "CREATE TYPE e2 AS ENUM ('x')",
            "CREATE TYPE c1 AS (a int, b e2)",
            "CREATE TABLE t (x c1)",
            "CREATE TYPE b1 AS (a c1[], r t)",
            "CREATE TABLE a (x b1, y t)",
            "INSERT INTO t VALUES (ROW(1, 'x'))",
        ],
    ),
    (
        "what was set of columns",
        &[
            "CREATE TABLE t (a text CONSTRAINT needed NOT NULL, b text, c int NOT NULL)",
            "ALTER TABLE t ALTER COLUMN a SET STORAGE EXTERNAL, ALTER COLUMN b SET STATISTICS 500, ALTER COLUMN b SET COMPRESSION pglz",
            "INSERT INTO t VALUES ('x', 'y', 1)",
            "CREATE VIEW v AS SELECT a, c FROM t",
            "ALTER VIEW v ALTER COLUMN c SET DEFAULT 1 + 1",
            "CREATE MATERIALIZED VIEW empty AS SELECT a FROM t WITH NO DATA",
            "CREATE MATERIALIZED VIEW filled AS SELECT a FROM t",
            "ALTER MATERIALIZED VIEW filled ALTER COLUMN a SET STORAGE MAIN",
        ],
    ),
    (
        "checks and references",
        &[
            "CREATE TABLE parents (code text, n int)",
            "ALTER TABLE parents ADD CONSTRAINT b CHECK (n > 0)",
            "ALTER TABLE parents ADD CONSTRAINT a CHECK (n < 9)",
            "CREATE UNIQUE INDEX codes ON parents (code)",
            "CREATE TABLE children (code text REFERENCES parents (code))",
            "INSERT INTO parents VALUES ('x', 1)",
            "INSERT INTO children VALUES ('x')",
        ],
    ),
    (
        "checks that older rows need not meet",
        &[
            "CREATE TABLE t (n int CHECK (n < 9))",
            "INSERT INTO t VALUES (-1)",
            "ALTER TABLE t ADD CONSTRAINT late CHECK (n > 0) NOT VALID",
        ],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_has_the_same_dump_whatever_its_order_of_creation() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    for (number, (which, statements)) in ODD.iter().enumerate() {
        let of = |name: &str| Scope::agent("dumps", &format!("{name}{number}")).unwrap();
        let (from, to) = (of("from"), of("to"));
        run_all(&provider, &from, statements).await;
        let dump = text_of(&provider, &from).await;
        let outcome = restored(&provider, &to, dump.clone()).await;
        assert_eq!(outcome.skipped, Vec::<String>::new(), "{which}: {dump:#?}");
        assert_eq!(text_of(&provider, &to).await, dump, "{which}");
        if *which == "what was set of columns" {
            for set in [
                "needed",
                "EXTERNAL",
                "STATISTICS 500",
                "COMPRESSION pglz",
                "SET DEFAULT",
                "WITH NO DATA",
                "MAIN",
            ] {
                assert!(dump.iter().any(|line| line.contains(set)), "{set}: {dump:#?}");
            }
        }
        for scope in [&from, &to] {
            provider.drop_sql_scope(scope).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dump_reports_what_a_restore_will_leave_out() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let (from, to) = (Scope::agent("dumps", "from").unwrap(), Scope::agent("dumps", "to").unwrap());
    run_all(&provider, &from, &["CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1)"]).await;
    let admin = place.client().await;
    let row =
        admin.query_one("SELECT 'mem_s_' || hex, 'mem_r_' || hex FROM mem_sql.scopes", &[]).await.unwrap();
    let (schema, role): (String, String) = (row.get(0), row.get(1));
    admin
        .batch_execute(&format!(
            "SET search_path = {schema}; CREATE DOMAIN positive AS int CHECK (value > 0); \
             CREATE TABLE counted (n positive); INSERT INTO counted VALUES (2); \
             CREATE VIEW named AS SELECT 'kept'::regclass::text AS name; \
             GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}"
        ))
        .await
        .unwrap();
    let dump = text_of(&provider, &from).await;
    let outcome = restored(&provider, &to, dump.clone()).await;
    for name in ["type positive: ", "table counted: "] {
        let begin = format!("{{\"skipped\":\"{name}");
        assert!(dump.iter().any(|line| line.starts_with(&begin)), "{name} is not told: {dump:#?}");
        assert!(outcome.skipped.iter().any(|told| told.starts_with(name)), "{name}: {:?}", outcome.skipped);
    }
    let told: Vec<&String> =
        outcome.skipped.iter().filter(|told| told.starts_with("type positive")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((outcome.tables, outcome.rows), (1, 1));
    for scope in [from, to] {
        provider.drop_sql_scope(&scope).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_no_dump_holds_is_not_replaced() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let scope = Scope::agent("dumps", "parted").unwrap();
    run_all(&provider, &scope, &["CREATE TABLE kept (n int)"]).await;
    let admin = place.client().await;
    let names = "SELECT 'mem_s_' || hex, 'mem_r_' || hex FROM mem_sql.scopes";
    let row = admin.query_one(names, &[]).await.unwrap();
    let (schema, role): (String, String) = (row.get(0), row.get(1));
    let parted = format!(
        "SET search_path = {schema}; CREATE TABLE parted (n int) PARTITION BY RANGE (n); \
         CREATE TABLE part_one PARTITION OF parted FOR VALUES FROM (1) TO (9); INSERT INTO parted VALUES (1); \
         GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}"
    );
    admin.batch_execute(&parted).await.unwrap();
    let items = lines_of(provider.dump(&scope).await.unwrap()).await;
    let dump = futures_util::stream::iter(items.into_iter().map(Ok));
    let replace = RestoreOptions::default().with_mode(RestoreMode::Replace);
    let refused = provider.restore(&scope, Box::pin(dump), replace).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    let left = admin.query_one(&format!("SELECT count(*) FROM {schema}.part_one"), &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 1);
    provider.drop_sql_scope(&scope).await.unwrap();
}
