//! A server for each case, or the one that `MEMORY_TEST_SERVER_URL` names, as `http://localhost:8000`.

use std::io::Write as _;

use memory::{BackendUrl, Memory, Registry};
use memory_conformance::{Fixture, Harness, SHARED_DATA, SqlSetup, async_trait};
use memory_core::{Error, Hook, Interposed, Provider, Result};
use memory_fakes::postgres::{Database, SERVER, apart};
use memory_http::{EgressPolicy, Origin};
use memory_remote::RemoteOptions;
use tempfile::{NamedTempFile, TempDir};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Servers on stores of one kind.
pub(crate) struct Served {
    store: Store,
    namespace: String,
}

/// What is served.
enum Store {
    /// A file for each fixture.
    Sqlite(TempDir),
    /// Two databases for all fixtures, for entries and for agents' SQL, and the file with the key of agents' passwords.
    Postgres(Database, Database, NamedTempFile),
    /// What a server that runs already has.
    Named(String),
}

impl Served {
    /// On SQLite, or the server that the environment names.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A server that runs already may hold what another run left.
        let namespace = folder.path().file_name().unwrap().to_string_lossy().into_owned();
        let store = std::env::var("MEMORY_TEST_SERVER_URL").map_or(Store::Sqlite(folder), Store::Named);
        Self { store, namespace }
    }

    /// On PostgreSQL. `None`, after saying so, without a server; where the environment names what is tested, too.
    pub(crate) fn on_postgres() -> Option<Self> {
        if std::env::var_os("MEMORY_TEST_SERVER_URL").is_some() {
            return None;
        }
        let (entries, agents) = apart(|| async {
            let (entries, agents) = (Database::on(SERVER).await?, Database::on(SERVER).await?);
            entries.client().await.batch_execute("CREATE EXTENSION vector").await.unwrap();
            let admin = agents.client().await;
            admin.batch_execute("CREATE SCHEMA facts").await.unwrap();
            for statement in SHARED_DATA {
                let statement = statement.replace("conformance_shared", "facts.conformance_shared");
                admin.batch_execute(&statement).await.unwrap();
            }
            Some((entries, agents))
        })?;
        // Such a file is its owner's only.
        let mut key = NamedTempFile::new().unwrap();
        key.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        Some(Self { store: Store::Postgres(entries, agents, key), namespace: "conformance".to_owned() })
    }

    fn url(&self, fixture: &Fixture) -> Result<BackendUrl> {
        let mut url = match &self.store {
            Store::Sqlite(folder) => {
                let name: String =
                    fixture.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
                format!("sqlite:{}/{name}.db?durability=normal", folder.path().display())
            }
            Store::Postgres(entries, agents, key) => {
                // Many cases run at once, some with several servers.
                let place = entries.url();
                let begins = if place.contains('?') { '&' } else { '?' };
                let agents: String = agents.url().bytes().map(|byte| format!("%{byte:02x}")).collect();
                let key = key.path().display();
                format!("{place}{begins}pool_size=4&sql.url={agents}&sql.key_file={key}&sql.shared=facts")
            }
            Store::Named(_) => return Err(Error::internal("a server that runs already has its own store")),
        };
        if let Some(idle) = fixture.tx_idle {
            url.push_str(&format!("&sql.tx_idle_ms={}", idle.as_millis()));
        }
        if fixture.small_caches {
            url.push_str("&search_index_bytes=0&vector_index_bytes=0");
        }
        if let Some(bytes) = fixture.disk_bytes {
            url.push_str(&format!("&max_file_bytes={bytes}"));
        }
        BackendUrl::parse(&url)
    }
}

/// A server that ends with its client.
#[derive(Debug)]
struct Running {
    server: JoinHandle<()>,
    store: Memory,
}

#[async_trait]
impl Hook for Running {
    async fn close(&self, client: &dyn Provider) -> Result<()> {
        client.close().await?;
        self.store.close().await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.server.abort();
    }
}

#[async_trait]
impl Harness for Served {
    fn name(&self) -> &str {
        match self.store {
            Store::Postgres(..) => "postgres over HTTP",
            Store::Sqlite(_) | Store::Named(_) => "sqlite over HTTP",
        }
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        if let Store::Named(url) = &self.store {
            let origin = Origin::of(url)?;
            let policy = EgressPolicy::new().allow_host(&format!("{}:{}", origin.host(), origin.port()))?;
            let mut options = RemoteOptions::new(url.clone());
            options.tell_clock = true;
            let remote = memory_remote::open(options, policy, fixture.clock.clone(), fixture.ids.clone());
            return Ok(Box::new(remote.await?));
        }
        let registry = Registry::default()
            .with_clock(fixture.clock.clone())
            .with_ids(fixture.ids.clone())
            .with_embedder(fixture.embedder.clone());
        let store = registry.open_url(&self.url(&fixture)?).await?;
        let router = memory_api::unguarded(store.clone());
        let failed = |error| Error::internal("no port on loopback").with_source(error);
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        let server = Running { server, store };
        let options = RemoteOptions::new(format!("http://{address}"));
        let policy = EgressPolicy::new().allow_host(&address)?;
        let remote = memory_remote::open(options, policy, fixture.clock.clone(), fixture.ids.clone()).await?;
        Ok(Box::new(Interposed::new(remote, server)))
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        self.open(fixture.clone()).await.map(Some)
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn sql_setup(&self) -> SqlSetup {
        match self.store {
            Store::Sqlite(_) => SqlSetup::default().with_tx_idle(),
            Store::Postgres(..) => SqlSetup::default().with_tx_idle().with_shared_data(),
            Store::Named(_) => SqlSetup::default(),
        }
    }

    fn takes_small_caches(&self) -> bool {
        matches!(self.store, Store::Sqlite(_))
    }

    fn obeys_disk_bytes(&self) -> bool {
        matches!(self.store, Store::Sqlite(_))
    }
}
