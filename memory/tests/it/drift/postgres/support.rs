//! A database of its own, and a client that knows nothing of the memory in it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use memory::{Clock, Memory, Scope};
pub(crate) use memory_fakes::postgres::connect;
use memory_fakes::postgres::{Database, SERVER, apart};
use memory_postgres::{PostgresConfig, PostgresProvider};
use tokio_postgres::Client;

pub(crate) use super::agent::{Agent, BOTH, SECONDS, TestClock, json, key, open, reason, text};

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) memory: Memory,
    pub(crate) provider: Arc<PostgresProvider>,
    pub(crate) scope: Scope,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) database: Database,
}

/// A store in the database of a URL, which gives up waiting soon.
pub(crate) async fn provider(url: &str, clock: &Arc<TestClock>) -> Arc<PostgresProvider> {
    let mut config = PostgresConfig::new(url).with_pool_size(3);
    config.statement_timeout_ms = 3_000;
    Arc::new(PostgresProvider::open_with_clock(config, Arc::clone(clock) as Arc<dyn Clock>).await.unwrap())
}

pub(crate) fn memory(provider: &Arc<PostgresProvider>, folder: &Path) -> Memory {
    let provider = Arc::clone(provider) as Arc<dyn memory::Provider>;
    Memory::new(provider).unwrap().with_drift_backups(folder.join("saved"))
}

impl Fixture {
    pub(crate) async fn new() -> Option<Self> {
        let database = Database::on(SERVER).await?;
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(SECONDS * 1_000)));
        let provider = provider(&database.url(), &clock).await;
        let memory = memory(&provider, folder.path());
        Some(Self { folder, memory, provider, scope: Scope::agent("acme", "ada").unwrap(), clock, database })
    }

    /// The same database, opened once more.
    pub(crate) async fn again(&self) -> Memory {
        memory(&provider(&self.database.url(), &self.clock).await, self.folder.path())
    }

    /// Another program, with SQL, on a connection of its own.
    pub(crate) fn foreign_runs(&self, sql: &str) {
        foreign_runs(&self.database.url(), sql);
    }

    /// Runs statements as the superuser, in another database: this one is to be replaced. `DATABASE_NAME` stands for its
    /// name.
    pub(crate) fn admin_runs(&self, statements: &[&str]) {
        apart(|| async {
            let admin = self.database.admin().await;
            for sql in statements {
                admin.batch_execute(&sql.replace("DATABASE_NAME", &self.database.name)).await.unwrap();
            }
        });
    }

    pub(crate) async fn client(&self) -> Client {
        connect(&self.database.url()).await
    }
}

pub(crate) fn foreign_runs(url: &str, sql: &str) {
    apart(|| async move {
        let client = connect(url).await;
        client.batch_execute("SET search_path = memory").await.unwrap();
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    });
}
