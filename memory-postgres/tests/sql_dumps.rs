//! What a dump does not hold is told, one by one, in the dump and by what restores it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::indexing_slicing, missing_docs)]

#[path = "support/sql.rs"]
mod sql;
mod support;

use std::future::poll_fn;

use memory_core::sql::{DumpStream, RestoreOptions, SqlFacet as _, StatementOptions};
use memory_core::{RunContext, Scope, ScopeId};
use memory_postgres::PostgresProvider;

async fn lines_of(mut dump: DumpStream) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    while let Some(line) = poll_fn(|context| dump.as_mut().poll_next(context)).await {
        lines.push(line.unwrap());
    }
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dump_cannot_hold_is_told_and_the_rest_comes_back() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let (from, to) = (Scope::agent("dumps", "from").unwrap(), Scope::agent("dumps", "to").unwrap());
    let run = RunContext::new(from.tenant.clone(), ScopeId::new("a").unwrap(), ScopeId::new("r").unwrap());
    for statement in
        ["CREATE TABLE kept (n int PRIMARY KEY, m text)", "INSERT INTO kept VALUES (1, 'one'), (2, 'two')"]
    {
        provider.exec(&run, &from, statement, &[], StatementOptions::default()).await.unwrap();
    }
    let admin = place.client().await;
    let row =
        admin.query_one("SELECT 'mem_s_' || hex, 'mem_r_' || hex FROM mem_sql.scopes", &[]).await.unwrap();
    let (schema, role): (String, String) = (row.get(0), row.get(1));
    // What only an administrator makes, and what belongs to no table at all.
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
    let rows =
        provider.query(&run, &to, "SELECT m FROM kept ORDER BY n", &[], StatementOptions::default()).await;
    assert_eq!(serde_json::to_value(rows.unwrap().rows).unwrap(), serde_json::json!([["one"], ["two"]]));
    for scope in [from, to] {
        provider.drop_sql_scope(&scope).await.unwrap();
    }
}
