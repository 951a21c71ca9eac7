//! A separate database, and a client that knows nothing of the memory in it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use memory::{Clock, Memory, Scope};
pub(crate) use memory_fakes::postgres::connect;
use memory_fakes::postgres::{Database, SERVER, apart};
use memory_postgres::{PostgresConfig, PostgresProvider};
use tokio_postgres::Client;

pub(crate) use super::agent::{Agent, BOTH, SECONDS, TestClock, json, key, open, reason, text};

pub(crate) const OFF: &str = "ALTER TABLE entry DISABLE TRIGGER ALL; ALTER TABLE scope DISABLE TRIGGER ALL;";
pub(crate) const ON: &str = "ALTER TABLE entry ENABLE ALWAYS TRIGGER guard_inserted; \
    ALTER TABLE entry ENABLE ALWAYS TRIGGER guard_updated; ALTER TABLE entry ENABLE ALWAYS TRIGGER guard_deleted; \
    ALTER TABLE entry ENABLE ALWAYS TRIGGER guard_truncated; ALTER TABLE scope ENABLE ALWAYS TRIGGER guard_scope; \
    ALTER TABLE scope ENABLE ALWAYS TRIGGER guard_scopes_truncated;";

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

    pub(crate) fn place(&self) -> String {
        self.database.url()
    }

    /// The store at a place.
    pub(crate) async fn opened(&self, place: &str) -> Memory {
        memory(&provider(place, &self.clock).await, self.folder.path())
    }

    pub(crate) fn provider(&self) -> Arc<PostgresProvider> {
        Arc::clone(&self.provider)
    }

    /// The same database, opened once more.
    pub(crate) async fn again(&self) -> Memory {
        self.opened(&self.place()).await
    }

    /// Another program, using SQL, on its own connection.
    pub(crate) fn foreign_runs(&self, sql: &str) {
        foreign_runs(&self.place(), sql);
    }

    /// Copies the tables, to be restored later.
    pub(crate) fn copies(&self) {
        self.foreign_runs(
            "CREATE TABLE copy_entry AS SELECT * FROM entry; CREATE TABLE copy_scope AS SELECT * FROM scope",
        );
    }

    /// Restores the rows of the copy in place, as a program may do.
    pub(crate) fn restores(&self, how: &str) {
        let rows = "TRUNCATE entry, scope; INSERT INTO scope SELECT * FROM copy_scope; \
                    INSERT INTO entry SELECT * FROM copy_entry;";
        self.foreign_runs(&match how {
            "sql" => format!("BEGIN; {rows} COMMIT"),
            "replica" => format!("SET session_replication_role = replica; BEGIN; {rows} COMMIT"),
            _ => format!("BEGIN; {OFF} {rows} {ON} COMMIT"),
        });
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

/// The ways to restore a copy in place, and whether none of them leaves a trace in the scope's token.
pub(crate) const RESTORES: [&str; 3] = ["sql", "replica", "triggers off"];
pub(crate) const IN_SILENCE: bool = false;

/// Entries of a large scope, and after how many a [`Meddler`] writes.
pub(crate) const MANY: u32 = 2_000;
pub(crate) const EVERY: u32 = 500;

/// Another program, which does not wait long for a lock.
pub(crate) struct Meddler(String);

impl Meddler {
    pub(crate) fn new(place: &str) -> Self {
        Self(place.to_owned())
    }

    pub(crate) fn runs(&self, sql: &str) {
        foreign_runs(&self.0, &format!("SET statement_timeout = '5s'; {sql}"));
    }
}
