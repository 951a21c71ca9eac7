//! A database of its own, and a client that knows nothing of the memory in it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use memory::{Clock, Memory, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider};
use tokio_postgres::{Client, NoTls};

pub(crate) use super::agent::{Agent, BOTH, SECONDS, TestClock, json, key, open, reason, text};

const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";

/// A database that ends with the value.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Without a server: `None`, after saying so.
    async fn fresh() -> Option<Self> {
        let Ok(server) = std::env::var(SERVER) else {
            println!("skipped: no server; `cargo xtask test` starts one, or set {SERVER}");
            return None;
        };
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("drift_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = connect(&server).await;
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        Some(Self { server, name })
    }

    pub(crate) fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }

    /// Runs statements as the superuser, in another database: this one is to be replaced. `DATABASE` stands for its name.
    pub(crate) fn admin_runs(&self, statements: &[&str]) {
        let (server, name) = (self.server.clone(), self.name.clone());
        apart(|| async move {
            let admin = connect(&server).await;
            for sql in statements {
                admin.batch_execute(&sql.replace("DATABASE_NAME", &name)).await.unwrap();
            }
        });
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        apart(|| async move {
            let admin = connect(&server).await;
            for name in [format!("{name}_copy"), name] {
                let _ = admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
            }
        });
    }
}

/// Runs to its end on a runtime of its own, whatever the caller's does.
fn apart<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work());
        });
        thread.join().unwrap();
    });
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

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
        let database = Database::fresh().await?;
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
