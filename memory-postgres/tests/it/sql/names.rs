//! What a scope's role can see and do without the validator: nothing about others.

use memory_core::sql::{SqlFacet as _, StatementOptions};
use memory_core::{ErrorKind, Result, Scope};
use memory_postgres::lab::{self, Stages};
use memory_postgres::{PostgresConfig, PostgresProvider};

use crate::support;
use crate::support::sql::{self, exec, run_of};

const SECRET: &str = "hush_of_the_neighbour";
const NONE: Stages = Stages { gate: false, grammar: false, walk: false };

async fn neighbours(config: PostgresConfig) -> (PostgresProvider, Scope, Scope) {
    let provider = PostgresProvider::open(config).await.unwrap().with_stages(NONE);
    let (mine, theirs) = (Scope::agent("public", "mine").unwrap(), Scope::agent("public", "theirs").unwrap());
    lab::load_script(&provider, &mine, "CREATE TABLE own (n int); INSERT INTO own VALUES (1)").await.unwrap();
    let planted = format!(
        "CREATE TABLE {SECRET} ({SECRET}_c text DEFAULT '{SECRET}' CHECK ({SECRET}_c <> '{SECRET}_x')); \
         CREATE VIEW {SECRET}_v AS SELECT '{SECRET}'::text AS x FROM {SECRET}; \
         CREATE MATERIALIZED VIEW {SECRET}_m AS SELECT '{SECRET}'::text AS x; \
         CREATE TYPE {SECRET}_e AS ENUM ('{SECRET}'); CREATE INDEX {SECRET}_i ON {SECRET} ({SECRET}_c) WHERE {SECRET}_c > '{SECRET}'; \
         COMMENT ON TABLE {SECRET} IS '{SECRET}'; INSERT INTO {SECRET} VALUES ('{SECRET}'); ANALYZE {SECRET}"
    );
    lab::load_script(&provider, &theirs, &planted).await.unwrap();
    (provider, mine, theirs)
}

async fn ask(provider: &PostgresProvider, scope: &Scope, sql: &str) -> Result<String> {
    Ok(serde_json::to_string(&exec(provider, scope, sql).await?).unwrap())
}

/// Every catalog and view of the engine, in every way to read it.
#[tokio::test(flavor = "multi_thread")]
async fn no_catalog_shows_other_scopes() {
    for variable in [support::SERVER, support::PLAIN_SERVER] {
        let Some(place) = sql::Place::made(variable).await else { continue };
        let (provider, mine, theirs) = neighbours(place.config()).await;
        assert!(provider.sql_exposures().is_empty(), "{:?}", provider.sql_exposures());
        let (role, schema) = lab::names_of(&theirs);
        let catalogs = place
            .client()
            .await
            .query(
                "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname IN ('pg_catalog', 'information_schema', 'mem_sql') AND c.relkind IN ('r', 'v')",
                &[],
            )
            .await
            .unwrap();
        assert!(catalogs.len() > 200, "{}", catalogs.len());
        for row in &catalogs {
            let name: String = row.get(0);
            let answer = ask(&provider, &mine, &format!("SELECT * FROM {name}")).await;
            let error = answer.expect_err(&name);
            assert_eq!(error.kind(), ErrorKind::StatementRefused, "{name}: {error}");
        }
        for sql in [
            format!("SELECT * FROM {schema}.{SECRET}"),
            format!("SELECT '{SECRET}'::{schema}.{SECRET}_e"),
            format!("INSERT INTO {schema}.{SECRET} VALUES ('x')"),
            format!("DROP TABLE {schema}.{SECRET}"),
            format!("CREATE TABLE {schema}.x (n int)"),
            format!("SET ROLE {role}"),
            format!("SET SESSION AUTHORIZATION {role}"),
            format!("GRANT {role} TO CURRENT_USER"),
            format!("DROP SCHEMA {schema} CASCADE"),
            format!("SELECT '{schema}.{SECRET}'::regclass"),
            "SELECT pg_get_viewdef(oid) FROM generate_series(16384, 17000) oid".to_owned(),
            "SELECT obj_description(oid::oid) FROM generate_series(16384, 17000) oid".to_owned(),
            "SELECT query_to_xml('SELECT 1', true, true, '')".to_owned(),
            "SELECT pg_stat_get_activity(NULL)".to_owned(),
            "SELECT set_config('search_path', 'pg_catalog', false)".to_owned(),
            "SELECT current_setting('data_directory')".to_owned(),
            "SELECT pg_advisory_lock(1)".to_owned(),
            "SELECT lo_creat(-1)".to_owned(),
            "SELECT pg_notify('a', 'b')".to_owned(),
            "CREATE TEMP TABLE t (n int)".to_owned(),
            "CREATE SCHEMA other".to_owned(),
            "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'".to_owned(),
            "DO 'BEGIN END'".to_owned(),
            "CREATE EXTENSION dblink".to_owned(),
            "COPY own TO '/tmp/x'".to_owned(),
            "COPY own TO STDOUT".to_owned(),
            "COPY own FROM STDIN".to_owned(),
            "SELECT mem_sql.provision('a', 'b', 0::int2, 'c', 'd', '{}', 1)".to_owned(),
            "SELECT mem_sql.remove('a')".to_owned(),
            "UPDATE mem_sql.scopes SET written = false".to_owned(),
            "VACUUM own".to_owned(),
        ] {
            let answer = ask(&provider, &mine, &sql).await;
            assert!(
                answer.as_ref().is_err() || !answer.as_ref().is_ok_and(|text| text.contains(SECRET)),
                "{sql}: {answer:?}"
            );
            assert!(answer.is_err(), "{sql} ran: {answer:?}");
        }
        // The scope still works, and so does the neighbour.
        assert!(ask(&provider, &mine, "SELECT n FROM own").await.unwrap().contains("[[1]]"));
        assert!(
            ask(&provider, &theirs, &format!("SELECT * FROM {SECRET}_v")).await.unwrap().contains(SECRET)
        );
    }
}

/// The engine accepts a number for any relation wherever a text may name one.
#[tokio::test(flavor = "multi_thread")]
async fn no_number_names_what_others_have() {
    for variable in [support::SERVER, support::PLAIN_SERVER] {
        let Some(place) = sql::Place::made(variable).await else { continue };
        let (bare, mine, theirs) = neighbours(place.config()).await;
        let provider = PostgresProvider::open(place.config()).await.unwrap();
        lab::load_script(&bare, &mine, "CREATE SEQUENCE sq").await.unwrap();
        let (_, schema) = lab::names_of(&theirs);
        let query = format!("SELECT '{schema}.{SECRET}'::regclass::oid");
        let number: u32 = place.client().await.query_one(&query, &[]).await.unwrap().get(0);
        for sql in [
            format!("SELECT nextval('{number}')"),
            format!("SELECT nextval('{number}'::regclass)"),
            format!("SELECT setval(' {number}', 1)"),
            format!("SELECT nextval('x{number:x}'::bit(32)::int)"),
            format!("CREATE TABLE d (a int DEFAULT nextval('{number}'))"),
            format!("ALTER TABLE own ALTER COLUMN n SET DEFAULT nextval('{number}')"),
            format!("SELECT ({number}::oid).nextval"),
            format!("SELECT d.currval FROM unnest(ARRAY['{number}']) d"),
            format!("SELECT ('{{{number}}}'::text).\"_regclass\""),
            format!("SELECT d._regclass FROM unnest(ARRAY['{{{number}}}']) d"),
            format!("SELECT '{{{number}}}'::_regclass"),
            format!("SELECT ('{number}'::oidvector).oidvectortypes"),
            format!("CREATE TABLE d (a _regclass DEFAULT '{{{number}}}')"),
            format!("SELECT * FROM json_to_record('{{\"a\": [{number}]}}') AS x (a \"_regclass\")"),
        ] {
            let error = ask(&provider, &mine, &sql).await.expect_err(&sql);
            assert_eq!(error.kind(), ErrorKind::StatementRefused, "{sql}: {error}");
            assert!(!error.to_string().contains(SECRET), "{sql}: {error}");
        }
        for sql in [
            "SELECT nextval('sq'), nextval('sq'::regclass)",
            "CREATE TABLE d (a int DEFAULT nextval('sq'::regclass))",
        ] {
            ask(&provider, &mine, sql).await.unwrap();
        }
    }
}

/// The engine evaluates casts of constants while planning, by functions it does not call otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn constants_are_cast_like_columns() {
    for variable in [support::SERVER, support::PLAIN_SERVER] {
        let Some(place) = sql::Place::made(variable).await else { continue };
        let (provider, mine, _) = neighbours(place.config()).await;
        lab::load_script(&provider, &mine, "CREATE TYPE mood AS ENUM ('ok')").await.unwrap();
        for cast in [
            "1::text",
            "'n' || 1.5::text",
            "2::int8::varchar(3)",
            "'7'::text::int",
            "'1.5'::text::numeric(4, 1)",
            "true::text",
            "'true'::text::bool",
            "date '2024-01-01'::text",
            "'2024-01-01'::text::timestamptz",
            "interval '1 day'::text",
            "ARRAY[1, 2]::text",
            "'{1,2}'::text::int[]",
            "'[1,2]'::text::jsonb",
            "'{}'::jsonb::text",
            "int4range(1, 2)::text",
            "ROW(1, 'a')::text",
            "'ok'::mood::text",
            "'ok'::text::mood",
            "B'101'::text",
            "'00000000-0000-0000-0000-000000000000'::text::uuid",
            "point(1, 2)::text",
        ] {
            let answer = ask(&provider, &mine, &format!("SELECT {cast}")).await;
            assert!(answer.is_ok(), "{cast}: {answer:?}");
        }
    }
}

/// Settings made by a statement are gone before the next one, whoever sends it.
#[tokio::test(flavor = "multi_thread")]
async fn settings_do_not_survive_a_statement() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, mine, _) = neighbours(place.config()).await;
    for (set, look, due) in [
        ("SET work_mem = '64MB'", "SHOW work_mem", "8MB"),
        ("SET search_path = pg_catalog", "SELECT n FROM own", "[[1]]"),
        ("SET statement_timeout = 0", "SELECT n FROM own", "[[1]]"),
        ("SET datestyle = 'German'", "SELECT DATE '2024-02-01'", "2024-02-01"),
        ("SET bytea_output = 'escape'", "SELECT '\\x00ff'::bytea", "AP8="),
        ("SET standard_conforming_strings = off", "SELECT 'a\\b'", "a\\\\b"),
        ("SET TimeZone = 'Asia/Tokyo'", "SELECT '2024-01-01 00:00+00'::timestamptz", "00:00:00+00"),
        ("ALTER ROLE CURRENT_USER SET work_mem = '64MB'", "SHOW work_mem", "8MB"),
    ] {
        ask(&provider, &mine, set).await.unwrap();
        for _ in 0..2 {
            let seen = ask(&provider, &mine, look).await.unwrap();
            assert!(seen.contains(due), "after {set}: {look} answered {seen}");
        }
    }
    ask(&provider, &mine, "PREPARE p AS SELECT 1").await.unwrap();
    assert!(ask(&provider, &mine, "EXECUTE p").await.is_err());
    ask(&provider, &mine, "LISTEN c").await.unwrap();
    ask(&provider, &mine, "CREATE SEQUENCE s").await.unwrap();
    for asks in ["SELECT currval('s')", "SELECT LastVal()", "SELECT U&\"\\006castval\"()"] {
        ask(&provider, &mine, "SELECT nextval('s')").await.unwrap();
        let answer = ask(&provider, &mine, asks).await;
        assert!(answer.is_err(), "{asks}: {answer:?}");
    }
    // A role may change its own password; the next session repairs it.
    ask(&provider, &mine, "ALTER ROLE CURRENT_USER PASSWORD 'mine-now'").await.unwrap();
    assert!(ask(&provider, &mine, "SELECT n FROM own").await.unwrap().contains("[[1]]"));
}

/// A statement cannot end the transaction that the runtime put around it.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_ends_its_transaction_is_refused() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, mine, _) = neighbours(place.config()).await;
    for word in ["COMMIT", "ROLLBACK", "END", "ABORT", "COMMIT AND CHAIN", "PREPARE TRANSACTION 'x'"] {
        if let Err(error) = ask(&provider, &mine, word).await {
            assert_ne!(error.kind(), ErrorKind::Internal, "{word}: {error}");
        }
        let run = run_of(&mine);
        let state = provider.begin(&run, &mine, None).await.unwrap();
        let options = || StatementOptions::default().in_tx(state.tx.clone());
        let error = provider.exec(&run, &mine, word, &[], options()).await.unwrap_err();
        let told = error.details().get("transaction").and_then(|told| told.as_str().map(str::to_owned));
        // Later statements are never committed on their own.
        let next = provider.exec(&run, &mine, "INSERT INTO own VALUES (2)", &[], options()).await;
        match told.as_deref() {
            Some("lost") => assert_eq!(next.unwrap_err().kind(), ErrorKind::TransactionLost, "{word}"),
            Some("open") => {
                next.unwrap();
                provider.rollback(&run, &mine, &state.tx).await.unwrap();
            }
            other => panic!("{word} tells {other:?}: {error}"),
        }
        assert!(ask(&provider, &mine, "SELECT n FROM own").await.unwrap().contains("[[1]]"), "after {word}");
    }
    // The engine also keeps a query from writing.
    let run = run_of(&mine);
    let query = provider.query(&run, &mine, "INSERT INTO own VALUES (3)", &[], StatementOptions::default());
    assert_eq!(query.await.unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// An administrator without superuser rights works too, and what stays visible is reported.
#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_without_superuser_reports_what_stays_visible() {
    for variable in [support::SERVER, support::PLAIN_SERVER] {
        let Some(place) = sql::Place::made(variable).await else { continue };
        let name = format!("plain_admin_{}", std::process::id());
        let client = place.client().await;
        client
            .batch_execute(&format!(
                "DROP ROLE IF EXISTS {name}; CREATE ROLE {name} LOGIN CREATEROLE; \
                 DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO {name}', current_database()); END $$"
            ))
            .await
            .unwrap();
        let mut config = place.config();
        if let Some(sql) = &mut config.sql {
            sql.url = sql.url.replace("postgres@", &format!("{name}@"));
        }
        let provider = PostgresProvider::open(config).await.unwrap();
        let exposed: Vec<&str> = provider.sql_exposures().iter().map(|one| one.object.as_str()).collect();
        assert!(exposed.contains(&"pg_class") && exposed.contains(&"pg_views"), "{exposed:?}");
        let scope = Scope::agent("plain", "a").unwrap();
        ask(&provider, &scope, "CREATE TABLE t (n int)").await.unwrap();
        ask(&provider, &scope, "INSERT INTO t VALUES (1)").await.unwrap();
        assert!(ask(&provider, &scope, "SELECT n FROM t").await.unwrap().contains("[[1]]"));
        // The validator still keeps names private.
        for sql in ["SELECT relname FROM pg_class", "SELECT 't'::regclass", "CREATE TEMP TABLE x (n int)"] {
            let error = ask(&provider, &scope, sql).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StatementRefused, "{sql}: {error}");
        }
        assert!(provider.sql_usage(&scope).await.unwrap().bytes > 0);
        assert!(provider.drop_sql_scope(&scope).await.unwrap());
        drop(provider);
        client
            .batch_execute(&format!(
                "REASSIGN OWNED BY {name} TO postgres; DROP OWNED BY {name} CASCADE; DROP ROLE {name}"
            ))
            .await
            .unwrap();
    }
}
