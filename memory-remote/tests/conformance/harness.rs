//! A server for each case, or the one that `MEMORY_TEST_SERVER_URL` names, as `http://localhost:8000`.

use memory::{BackendUrl, Memory, Registry};
use memory_conformance::{Fixture, Harness, SqlSetup, async_trait};
use memory_core::{Error, Hook, Interposed, Provider, Result};
use memory_http::{EgressPolicy, Origin};
use memory_remote::RemoteOptions;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Servers on SQLite files.
pub(crate) struct Served {
    folder: TempDir,
    /// A server that runs already.
    named: Option<String>,
    namespace: String,
}

impl Served {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A server that runs already may hold what another run left.
        let namespace = folder.path().file_name().unwrap().to_string_lossy().into_owned();
        Self { folder, named: std::env::var("MEMORY_TEST_SERVER_URL").ok(), namespace }
    }

    fn url(&self, fixture: &Fixture) -> Result<BackendUrl> {
        let name: String =
            fixture.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let mut url = format!("sqlite:{}/{name}.db?durability=normal", self.folder.path().display());
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
        "sqlite over HTTP"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        if let Some(url) = &self.named {
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
        let router = memory_server::http::v1::unguarded(store.clone());
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
        if self.named.is_some() { SqlSetup::default() } else { SqlSetup::default().with_tx_idle() }
    }

    fn takes_small_caches(&self) -> bool {
        self.named.is_none()
    }

    fn obeys_disk_bytes(&self) -> bool {
        self.named.is_none()
    }
}
