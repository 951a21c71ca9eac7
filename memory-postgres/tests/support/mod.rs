//! What the tests share: a database of its own for each test.
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
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use memory_core::{Clock, Timestamp};
use memory_postgres::PostgresConfig;
use tokio_postgres::{Client, NoTls};

/// A server with pgvector; `cargo xtask test` starts one.
pub(crate) const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";
/// A server without.
pub(crate) const PLAIN_SERVER: &str = "MEMORY_TEST_POSTGRES_PLAIN_URL";

/// A database that ends with the value.
#[derive(Debug)]
pub(crate) struct Database {
    server: String,
    pub(crate) name: String,
}

impl Database {
    /// An empty database on the server with pgvector, which is installed in it. Without a server: `None`, after saying
    /// so.
    pub(crate) async fn fresh() -> Option<Self> {
        let database = Self::on(SERVER).await?;
        database.client().await.batch_execute("CREATE EXTENSION IF NOT EXISTS vector").await.unwrap();
        Some(database)
    }

    /// An empty database on the server that has no pgvector.
    pub(crate) async fn plain() -> Option<Self> {
        Self::on(PLAIN_SERVER).await
    }

    /// An empty database on the server that a variable names.
    pub(crate) async fn on(variable: &str) -> Option<Self> {
        let Ok(server) = std::env::var(variable) else {
            println!("skipped: no server; `cargo xtask test` starts one, or set {variable}");
            return None;
        };
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = connect(&server).await;
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
        // A template that nobody is connected to: many tests ask at once.
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        Some(Self { server, name })
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// A small configuration for it.
    pub(crate) fn config(&self) -> PostgresConfig {
        PostgresConfig::new(self.url()).with_pool_size(8)
    }

    /// A connection of the server's superuser to it.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url()).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A runtime of its own: the test's may be ending.
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let admin = connect(&server).await;
                let _ = admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
            });
        });
        let _ = dropping.join();
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

/// The URL of a role that [`program`] made.
pub(crate) fn url_of(database: &Database, role: &str) -> String {
    database.url().replacen("postgres@", &format!("{role}:hunter2@"), 1)
}

pub(crate) async fn drop_role(database: &Database, role: &str) {
    let admin = database.client().await;
    admin.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

/// A connection of the driver's own, without anything of ours in between.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The URL of another database of the same server.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let authority = place.find("://").map_or(0, |at| at + 3);
    let end = place[authority..].find('/').map_or(place.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &place[..end])
}

/// A clock that moves when told.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_800_000_000_000)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst)).unwrap()
    }
}
