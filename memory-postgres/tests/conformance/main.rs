//! PostgreSQL passes the suite in every configuration: with pgvector, without an embedder, on a server without
//! pgvector, without prepared statements as behind a pooler in transaction mode, and with agents' SQL. Without a server
//! these configurations are skipped with a note.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test; its tenants need names of their own at every run"
)]

mod harness;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Trial;
use memory_conformance::trials::{self, Configuration};
use memory_conformance::{Case, Harness as _, cases};

use self::harness::{Entries, Sql};
use self::support::sql::Place;
use self::support::{Database, PLAIN_SERVER, SERVER};

/// Time limit of a case about SQL, which creates databases.
const SQL_TIMEOUT: Duration = Duration::from_secs(120);

/// Every case, on a database of entries.
fn entries(
    name: &str,
    database: impl Future<Output = Option<Database>>,
    harness: impl FnOnce(Database) -> Entries,
) -> Vec<Trial> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let Some(database) = runtime.block_on(database) else { return Vec::new() };
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected-failures.toml");
    Configuration::new(name, Arc::new(harness(database))).with_expected_failures(expected).trials()
}

/// Cases about SQL, on the server that a variable names.
fn sql(variable: &str, harness: impl FnOnce(Place) -> Sql, is_run: fn(&Case) -> bool) -> Vec<Trial> {
    let Some(place) = Place::fresh(variable) else { return Vec::new() };
    let harness = harness(place);
    let about_sql = cases::all().into_iter().filter(Case::is_sql).filter(is_run).collect();
    let name = harness.name().to_owned();
    Configuration::new(&name, Arc::new(harness)).with_timeout(SQL_TIMEOUT).trials_of(about_sql)
}

/// Where no schema is shared, statements stay prepared: everything about their arguments and what changes under them.
fn is_about_kept_statements(case: &Case) -> bool {
    ["sql.args.", "sql.value.", "sql.tx.", "sql.drop."].iter().any(|about| case.id.starts_with(about))
}

fn main() -> ExitCode {
    let mut all = entries("vectors", Database::fresh(), Entries::new);
    all.extend(entries("words", Database::fresh(), |database| Entries::new(database).without_embedder()));
    all.extend(entries("plain", Database::plain(), Entries::new));
    all.extend(entries("unprepared", Database::fresh(), |database| {
        Entries::new(database).without_prepared_statements()
    }));
    all.extend(sql(SERVER, |place| Sql::new("sql", place).with_shared_data(), |_| true));
    all.extend(sql(SERVER, |place| Sql::new("sql-unshared", place), is_about_kept_statements));
    all.extend(sql(PLAIN_SERVER, |place| Sql::new("sql-plain", place).with_shared_data(), |_| true));
    trials::run(all)
}
