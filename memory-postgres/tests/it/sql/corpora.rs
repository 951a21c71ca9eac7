//! Statements of the corpora through the whole facet: attacks end as expected, legitimate ones run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use memory_core::sql::{SqlFacet, SqlValue, StatementOptions};
use memory_core::{Checked, Error, ErrorKind, RunContext, Scope, ScopeId};
use memory_postgres::{PostgresProvider, lab};
use serde::Deserialize;

use crate::support;
use crate::support::sql;

#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    op: String,
    sql: Option<String>,
    sql_parts: Option<Vec<(String, usize)>>,
    #[serde(default)]
    args: Vec<SqlValue>,
    #[serde(default)]
    setup: Option<serde_json::Value>,
    #[serde(default)]
    expect: String,
    #[serde(default)]
    policy: Option<String>,
    #[serde(default)]
    needs: Option<String>,
}

impl Line {
    fn text(&self) -> String {
        match &self.sql {
            Some(sql) => sql.clone(),
            None => self.sql_parts.iter().flatten().map(|(text, times)| text.repeat(*times)).collect(),
        }
    }

    fn setup(&self) -> Vec<String> {
        match &self.setup {
            Some(serde_json::Value::String(one)) => vec![one.clone()],
            Some(serde_json::Value::Array(many)) => {
                many.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn folder() -> Option<PathBuf> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let folder = shared.join("corpus/sql");
    if folder.is_dir() {
        Some(folder)
    } else {
        println!("skipped: no corpora; set MEMORY_SHARED to the folder that holds them");
        None
    }
}

fn lines(file: &str) -> Vec<Line> {
    let Some(folder) = folder() else { return Vec::new() };
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn base(file: &str) -> String {
    folder().map(|folder| std::fs::read_to_string(folder.join(file)).unwrap()).unwrap_or_default()
}

/// The classes of PostgreSQL's syntax that the validator must know.
const CLASSES: &str = include_str!("../../../../memory-validator/tests/data/postgres_classes.jsonl");
const CLASSES_BASE: &str = include_str!("../../../../memory-validator/tests/data/postgres_classes_base.sql");

/// What a statement with a deadline of a second may take.
const SOON: Duration = Duration::from_secs(2);
const SECRET: &str = "a-neighbour-s-secret";

struct Bench {
    provider: Checked<PostgresProvider>,
    neighbour: Scope,
    /// The neighbour's dump.
    beside: String,
    /// A scope as its base made it.
    ready: Option<Ready>,
    count: u64,
    timeout: Duration,
}

struct Ready {
    scope: Scope,
    base: String,
    dump: String,
}

impl Bench {
    async fn new(place: &sql::Place) -> Self {
        let provider = PostgresProvider::open(place.config()).await.unwrap();
        let neighbour = Scope::agent("corpus", "neighbour").unwrap();
        let script = format!(
            "CREATE TABLE {SECRET_TABLE} (v text DEFAULT '{SECRET}'); INSERT INTO {SECRET_TABLE} DEFAULT VALUES; \
             CREATE VIEW {SECRET_TABLE}_view AS SELECT v FROM {SECRET_TABLE} WHERE v <> '{SECRET}'; \
             CREATE TYPE {SECRET_TABLE}_mood AS ENUM ('{SECRET}'); COMMENT ON TABLE {SECRET_TABLE} IS '{SECRET}'"
        );
        lab::load_script(&provider, &neighbour, &script).await.unwrap();
        Self {
            beside: lab::dump_text(&provider, &neighbour).await.unwrap(),
            provider: Checked::new(provider).unwrap(),
            neighbour,
            ready: None,
            count: 0,
            timeout: Duration::from_secs(1),
        }
    }

    fn raw(&self) -> &PostgresProvider {
        self.provider.inner()
    }

    /// A scope of this base: the one of the line before if that left it as it was.
    async fn ready(&mut self, base: &str) -> Ready {
        if let Some(ready) = self.ready.take() {
            if ready.base == base {
                return ready;
            }
            self.provider.drop_sql_scope(&ready.scope).await.unwrap();
        }
        let scope = Scope::user("corpus", &format!("line-{}", self.count)).unwrap();
        lab::load_script(self.raw(), &scope, base).await.unwrap();
        let dump = lab::dump_text(self.raw(), &scope).await.unwrap();
        Ready { scope, base: base.to_owned(), dump }
    }

    async fn try_line(&mut self, line: &Line, base: &str) -> Tried {
        self.count += 1;
        let Ready { scope, base, dump } = self.ready(base).await;
        let run = RunContext::new(
            scope.tenant.clone(),
            ScopeId::new("attacker").unwrap(),
            ScopeId::new(format!("run-{}", self.count)).unwrap(),
        );
        let setup = line.setup();
        for setup in &setup {
            lab::load_script(self.raw(), &scope, setup).await.unwrap();
        }
        let before =
            if setup.is_empty() { dump.clone() } else { lab::dump_text(self.raw(), &scope).await.unwrap() };
        let mut options = StatementOptions::default();
        options.timeout = Some(self.timeout);
        options.max_rows = 1_000;
        options.max_bytes = 1 << 20;
        options.quota_bytes = Some(64 << 20);
        let begun = Instant::now();
        // The corpora use this name for the scope's own schema.
        let (text, args) =
            (line.text().replace("s_a.", &format!("{}.", lab::names_of(&scope).1)), &line.args);
        let answer = if line.op == "exec" {
            let done = self.provider.exec(&run, &scope, &text, args, options).await;
            done.map(|done| done.returning.unwrap_or_default())
        } else {
            self.provider.query(&run, &scope, &text, args, options).await
        };
        let took = begun.elapsed();
        let shown = answer.as_ref().is_ok_and(|rows| {
            let shown = serde_json::to_string(rows).unwrap();
            shown.contains(SECRET) || shown.contains(SECRET_TABLE)
        });
        let after = lab::dump_text(self.raw(), &scope).await.unwrap();
        let beside = lab::dump_text(self.raw(), &self.neighbour).await.unwrap();
        let escaped = shown || beside != self.beside;
        self.beside = beside;
        let changed = before != after;
        if after == dump {
            self.ready = Some(Ready { scope, base, dump });
        } else {
            self.provider.drop_sql_scope(&scope).await.unwrap();
        }
        Tried { answer: answer.map(drop), took, changed, escaped }
    }
}

const SECRET_TABLE: &str = "neighbours_own";

struct Tried {
    answer: Result<(), Error>,
    took: Duration,
    changed: bool,
    escaped: bool,
}

impl Tried {
    fn is_refused(&self) -> bool {
        self.answer.as_ref().is_err_and(|error| {
            matches!(
                error.kind(),
                ErrorKind::StatementRefused
                    | ErrorKind::ReadOnly
                    | ErrorKind::TooLarge
                    | ErrorKind::QuotaExceeded
            )
        })
    }

    fn is_as_expected(&self, line: &Line) -> bool {
        let optional = line.policy.as_deref() == Some("optional");
        let fits = match line.expect.as_str() {
            "refuse" => (self.is_refused() || optional && self.answer.is_ok()) && !self.changed,
            "readonly" => self.is_refused() && !self.changed,
            "isolated" | "bounded" => true,
            other => panic!("{other}"),
        };
        fits && !self.escaped && self.took < SOON
    }
}

async fn attacks(variable: &str) {
    if lines("postgres_attacks.jsonl").is_empty() {
        return;
    }
    let Some(place) = sql::Place::made(variable).await else { return };
    let mut bench = Bench::new(&place).await;
    let base = base("postgres_attack_base.sql");
    let mut wrong = Vec::new();
    for line in lines("postgres_attacks.jsonl") {
        let mut tried = bench.try_line(&line, &base).await;
        if tried.took >= SOON {
            // Other tests may have had the processors.
            tried = bench.try_line(&line, &base).await;
        }
        if !tried.is_as_expected(&line) {
            let what = tried
                .answer
                .as_ref()
                .err()
                .map(|error| format!("{}: {error} {:?}", error.kind(), error.details()));
            wrong.push(format!(
                "{} expects {}: {} changed {} escaped {} in {:?}",
                line.id,
                line.expect,
                what.unwrap_or_else(|| "ran".to_owned()),
                tried.changed,
                tried.escaped,
                tried.took
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of the attacks:\n{}", wrong.len(), wrong.join("\n"));
}

async fn legitimate(variable: &str, has_vectors: bool) {
    if lines("postgres_legit.jsonl").is_empty() {
        return;
    }
    let Some(place) = sql::Place::made(variable).await else { return };
    let mut bench = Bench::new(&place).await;
    let (mut tried, mut wrong) = (0, Vec::new());
    for line in lines("postgres_legit.jsonl") {
        let needs_vectors = line.needs.as_deref() == Some("vector");
        if needs_vectors && !has_vectors {
            continue;
        }
        let mut base = base("postgres_legit_base.sql");
        if needs_vectors {
            base.push_str(&self::base("postgres_legit_base_vector.sql"));
        }
        tried += 1;
        let answer = bench.try_line(&line, &base).await.answer;
        if let Err(error) = answer {
            wrong.push(format!("{}: {}: {error}\n    {}", line.id, error.kind(), line.text()));
        }
    }
    println!("{tried} legitimate statements, {} did not run", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_each_class_of_syntax_runs() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let mut bench = Bench::new(&place).await;
    bench.timeout = Duration::from_secs(20);
    let mut wrong = Vec::new();
    for line in CLASSES.lines().map(|line| serde_json::from_str::<Line>(line).unwrap()) {
        let answer = bench.try_line(&line, CLASSES_BASE).await.answer;
        // A server may be built without libxml.
        let lacks = |error: &Error| line.needs.as_deref() == Some("xml") && error.to_string().contains("XML");
        if let Err(error) = answer.map_err(|error| (!lacks(&error)).then_some(error)) {
            wrong.extend(error.map(|error| format!("{}: {error}\n    {}", line.id, line.text())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_end_as_they_should() {
    for server in [support::SERVER, support::PLAIN_SERVER] {
        attacks(server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn legitimate_statements_run() {
    legitimate(support::SERVER, true).await;
    legitimate(support::PLAIN_SERVER, false).await;
}
