//! Stores to take snapshots of.

use std::io::Cursor;

use memory::snapshot::{
    Control, RestoreOptions, RestoreReport, SnapshotOptions, SnapshotReport, restore, write,
};
use memory::sql::{SqlValue, StatementOptions};
use memory::{
    Backend, Error, Json, Key, Memory, Record, RecordVector, Result, RunContext, Scope, ScopeId, SetOptions,
};
use memory_core::EmbeddingModel;

pub(crate) async fn store() -> Memory {
    memory::open("sqlite::memory:").await.unwrap()
}

pub(crate) fn scope(id: &str) -> Scope {
    Scope::user("acme", id).unwrap()
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn kv(memory: &Memory) -> &dyn Backend {
    memory.backend().unwrap()
}

pub(crate) async fn set(memory: &Memory, scope: &Scope, name: &str, value: &str) {
    kv(memory).set(scope, &key(name), json(value), SetOptions::default()).await.unwrap();
}

pub(crate) async fn sql(memory: &Memory, scope: &Scope, statement: &str) {
    try_sql(memory, scope, statement, &[]).await.unwrap();
}

pub(crate) async fn try_sql(
    memory: &Memory,
    scope: &Scope,
    statement: &str,
    args: &[SqlValue],
) -> Result<()> {
    let run = RunContext::new(scope.tenant.clone(), ScopeId::new("tester")?, ScopeId::new("run")?);
    memory.sql().unwrap().exec(&run, scope, statement, args, StatementOptions::default()).await.map(drop)
}

/// The contents of a scope: its records and the lines of its dump.
pub(crate) async fn content(memory: &Memory, scope: &Scope) -> (Vec<Record>, Vec<String>) {
    let mut records = Vec::new();
    let mut stream = kv(memory).export_scope(scope).await.unwrap();
    while let Some(record) = next(&mut stream).await {
        records.push(record.unwrap());
    }
    let mut lines = Vec::new();
    let mut dump = memory.sql().unwrap().dump(scope).await.unwrap();
    while let Some(line) = next(&mut dump).await {
        lines.push(String::from_utf8(line.unwrap()).unwrap());
    }
    (records, lines)
}

pub(crate) async fn next<T>(
    stream: &mut std::pin::Pin<Box<dyn memory::Stream<Item = T> + Send>>,
) -> Option<T> {
    std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
}

pub(crate) struct Records(pub(crate) std::vec::IntoIter<Record>);

impl memory::Stream for Records {
    type Item = Result<Record>;
    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.next().map(Ok))
    }
}

/// Imports records unchanged.
pub(crate) async fn put(memory: &Memory, scope: &Scope, records: Vec<Record>) {
    let stream = Box::pin(Records(records.into_iter()));
    kv(memory).import_scope(scope, stream, memory::ImportOptions::default()).await.unwrap();
}

/// A store with two tenants and everything a scope can contain.
pub(crate) async fn varied() -> Memory {
    let memory = store().await;
    let ada = scope("ada");
    set(&memory, &ada, "tea", "{\n  \"kind\": \"oolong\",\n  \"cups\": 9007199254740993\n}").await;
    set(&memory, &ada, "tea", "{\n  \"kind\": \"oolong\",\n  \"cups\": 1e400\n}").await;
    set(&memory, &ada, "é/%_'\"", "null").await;
    let mut options = SetOptions::default();
    options.metadata =
        serde_json::from_str(r#"{"n":9007199254740993,"x":0.1,"ok":true,"city":"Zürich"}"#).unwrap();
    options.source = Some(memory::Source::new("chat").unwrap());
    options.text = Some("lives in Zürich".to_owned());
    options.ttl = memory::Ttl::After(std::time::Duration::from_secs(3_600));
    kv(&memory).set(&ada, &key("long"), json(&format!("{:?}", "x".repeat(5_000))), options).await.unwrap();
    let mut record =
        Record::from(memory::Entry::new(key("vectored"), json("1"), 70, memory::Timestamp::EPOCH));
    for (name, numbers) in [("b", vec![0.1, -0.5]), ("a", vec![1.0, f32::MIN_POSITIVE, 3.25])] {
        record.vectors.push(RecordVector {
            model: EmbeddingModel {
                provider: "test".to_owned(),
                model: name.to_owned(),
                dimensions: numbers.len(),
            },
            vector: numbers,
            text: (name == "b").then(|| "another text".to_owned()),
        });
    }
    put(&memory, &ada, vec![record]).await;
    for statement in [
        "CREATE TABLE people (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, age INTEGER, born AS (2026 - age))",
        "INSERT INTO people (name, age) VALUES ('Ada', 36), ('Bob', 9007199254740993)",
        "DELETE FROM people WHERE name = 'Bob'",
        "CREATE TABLE \"odd \"\" name\" (a, b BLOB)",
        "INSERT INTO \"odd \"\" name\" VALUES (9e999, x'00ff'), (NULL, '')",
        "CREATE INDEX by_age ON people (age)",
        "CREATE VIEW adults AS SELECT name FROM people WHERE age > 17",
        "CREATE TRIGGER t AFTER INSERT ON people BEGIN UPDATE people SET age = age + 1 WHERE id = new.id; END",
    ] {
        sql(&memory, &ada, statement).await;
    }
    let agent = Scope::agent("acme", "planner").unwrap();
    set(&memory, &agent, "plan", "\"B\"").await;
    let other = Scope::user("zeta", "ada").unwrap();
    sql(&memory, &other, "CREATE TABLE only_sql (a)").await;
    let run = Scope::run("acme", "r1").unwrap();
    set(&memory, &run, "scratch", "1").await;
    memory
}

pub(crate) fn durable() -> [Scope; 3] {
    [Scope::agent("acme", "planner").unwrap(), scope("ada"), Scope::user("zeta", "ada").unwrap()]
}

/// A snapshot in memory.
pub(crate) async fn taken(memory: &Memory, options: &SnapshotOptions) -> (Vec<u8>, SnapshotReport) {
    let mut file = Vec::new();
    let report = write(memory, &mut file, options, &Control::default()).await.unwrap();
    assert_eq!(report.bytes, file.len() as u64);
    (file, report)
}

pub(crate) async fn restored(
    memory: &Memory,
    file: &[u8],
    options: &RestoreOptions,
) -> std::result::Result<RestoreReport, Error> {
    restore(memory, Cursor::new(file.to_vec()), options, &Control::default()).await
}

/// Asserts that both stores have the same contents and versions.
pub(crate) async fn same(one: &Memory, other: &Memory, scopes: &[Scope]) {
    for scope in scopes {
        let (records, lines) = content(one, scope).await;
        let (others, other_lines) = content(other, scope).await;
        assert_eq!(with_sorted_vectors(others), with_sorted_vectors(records), "{scope}");
        assert_eq!(other_lines, lines, "{scope}");
    }
}

/// The order of an entry's vectors does not matter.
fn with_sorted_vectors(mut records: Vec<Record>) -> Vec<Record> {
    for record in &mut records {
        record.vectors.sort_by(|a, b| a.model.cmp(&b.model));
    }
    records
}
