//! Shared by the tests: a separate database for each test.
#![allow(dead_code, reason = "each test binary uses some of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing
)]

#[cfg(unix)]
pub(crate) mod authority;
pub(crate) mod child;
pub(crate) mod older;
pub(crate) mod pooler;
#[cfg(unix)]
pub(crate) mod server;
#[cfg(unix)]
pub(crate) mod sql;

use std::sync::Arc;

pub(crate) use memory_conformance::TestClock;
use memory_core::Timestamp;
pub(crate) use memory_fakes::postgres::{SERVER, connect};
use memory_postgres::PostgresConfig;

/// A server without.
pub(crate) const PLAIN_SERVER: &str = "MEMORY_TEST_POSTGRES_PLAIN_URL";

/// A database that is dropped with the value.
#[derive(Debug)]
pub(crate) struct Database(memory_fakes::postgres::Database);

impl std::ops::Deref for Database {
    type Target = memory_fakes::postgres::Database;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Database {
    /// An empty database on the server with pgvector, which is installed in it. `None` without a server, after printing
    /// a note.
    pub(crate) async fn fresh() -> Option<Self> {
        let database = Self::on(SERVER).await?;
        database.client().await.batch_execute("CREATE EXTENSION IF NOT EXISTS vector").await.unwrap();
        Some(database)
    }

    /// An empty database on the server without pgvector.
    pub(crate) async fn plain() -> Option<Self> {
        Self::on(PLAIN_SERVER).await
    }

    /// An empty database on the server that a variable names.
    pub(crate) async fn on(variable: &str) -> Option<Self> {
        memory_fakes::postgres::Database::on(variable).await.map(Self)
    }

    /// A small configuration for it.
    pub(crate) fn config(&self) -> PostgresConfig {
        PostgresConfig::new(self.url()).with_pool_size(8)
    }
}

/// A role that owns nothing, and the configuration of a program that connects as it.
pub(crate) async fn program(database: &Database) -> (String, PostgresConfig) {
    let role = format!("app_{}", database.name);
    let admin = database.client().await;
    let make = format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN PASSWORD 'hunter2'");
    admin.batch_execute(&make).await.unwrap();
    (role.clone(), PostgresConfig::new(url_of(database, &role)).with_migrate(false))
}

/// The URL of a role created by [`program`].
pub(crate) fn url_of(database: &Database, role: &str) -> String {
    database.url().replacen("postgres@", &format!("{role}:hunter2@"), 1)
}

pub(crate) async fn drop_role(database: &Database, role: &str) {
    let admin = database.client().await;
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// A clock that moves when told, and starts after the server's.
pub(crate) fn clock() -> Arc<TestClock> {
    let clock = TestClock::new();
    clock.set(Timestamp::from_millis(1_800_000_000_000).unwrap());
    Arc::new(clock)
}
