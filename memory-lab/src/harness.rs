//! The store under test, as the suite opens it.

use std::path::PathBuf;

use async_trait::async_trait;
use memory::{BackendUrl, OpenContext, Registry};
use memory_conformance::{Fixture, Harness, SqlSetup};
use memory_core::{
    Capabilities, Clock as _, DeleteOptions, ErrorKind, GetOptions, IdGen as _, Json, Key, Provider, Result,
    Scope, SetOptions,
};
use memory_server::terminal::{BareStore, Context, Failure, sqlite_url};

/// Opens a store with the case's own clock, ids and embedder.
pub(crate) struct StoreHarness {
    name: String,
    place: Place,
    namespace: String,
    /// Whether to give the store an embedder.
    embeds: bool,
    obeys_clock: bool,
}

enum Place {
    /// A file for each case, in a temporary folder.
    Folder(tempfile::TempDir),
    /// The store of the command line; cases use only tenants of this run.
    Named(Box<BareStore>),
}

/// The parameter for how long a transaction of the SQL facet may be idle.
const TX_IDLE: &str = "sql.tx_idle_ms";
/// The parameters for the memory of SQLite's search indexes.
const CACHES: [&str; 2] = ["search_index_bytes", "vector_index_bytes"];
/// The parameter for the largest size of SQLite's file.
const DISK: &str = "max_file_bytes";

impl StoreHarness {
    fn url(&self, fixture: &Fixture) -> Result<BackendUrl> {
        let url = match &self.place {
            Place::Folder(folder) => {
                let file: PathBuf = folder.path().join(format!("{}.db", fixture.name));
                BackendUrl::parse(&sqlite_url(&file)?)?
            }
            Place::Named(store) => store.url.clone(),
        };
        let mut parameters = Vec::new();
        if let Some(idle) = fixture.tx_idle.filter(|_| takes(&url, TX_IDLE)) {
            parameters.push((TX_IDLE, idle.as_millis()));
        }
        if fixture.small_caches && takes_small_caches(&url) {
            parameters.extend(CACHES.map(|name| (name, 0)));
        }
        if let Some(bytes) = fixture.disk_bytes.filter(|_| self.obeys_disk_bytes()) {
            parameters.push((DISK, u128::from(bytes)));
        }
        let mut text = format!("{}:{}", url.scheme(), url.expose_rest());
        for (name, value) in parameters {
            let separator = if text.contains('?') { '&' } else { '?' };
            text.push_str(&format!("{separator}{name}={value}"));
        }
        BackendUrl::parse(&text)
    }

    /// Whether a second handle opens the same store.
    fn is_shared(&self) -> bool {
        match &self.place {
            Place::Folder(_) => true,
            Place::Named(store) => {
                store.url.scheme() != "sqlite"
                    || store.url.decoded_path().is_ok_and(|path| path != ":memory:")
            }
        }
    }

    /// Whether the store lives by the clock of a case: a server behind a URL may ignore what it is told.
    async fn is_obeyed(&self, served: &Capabilities) -> Result<bool> {
        let is_server =
            matches!(&self.place, Place::Named(store) if store.url.scheme().starts_with("memory+"));
        if !is_server || !served.kv {
            return Ok(true);
        }
        let fixture = Fixture::new("clock");
        let provider = self.provider(&fixture).await?;
        let Some(store) = provider.backend() else { return Ok(true) };
        let scope = Scope::agent(&format!("{}-clock", self.namespace), "probe")?;
        let key = Key::new("now")?;
        store.set(&scope, &key, Json::from(true), SetOptions::default()).await?;
        let entry = store.get(&scope, &key, GetOptions::default()).await?;
        store.delete(&scope, &key, DeleteOptions::default()).await?;
        Ok(entry.is_some_and(|entry| entry.updated_at == fixture.clock.now()))
    }

    async fn provider(&self, fixture: &Fixture) -> Result<Box<dyn Provider>> {
        let registry = match &self.place {
            Place::Folder(_) => Registry::default(),
            Place::Named(store) => store.registry.clone(),
        };
        let mut registry = registry.with_clock(fixture.clock.clone()).with_ids(fixture.ids.clone());
        if self.embeds {
            registry = registry.with_embedder(fixture.embedder.clone());
        }
        Ok(Box::new(registry.open_url(&self.url(fixture)?).await?))
    }
}

/// Whether a URL has this parameter of the SQL facet, and does not set it yet.
fn takes(url: &BackendUrl, parameter: &str) -> bool {
    let set = url.parameters().unwrap_or_default();
    let serves_sql = match url.scheme() {
        "sqlite" => true,
        "postgres" | "postgresql" => set.contains_key("sql.url"),
        _ => false,
    };
    serves_sql && !set.contains_key(parameter)
}

fn takes_small_caches(url: &BackendUrl) -> bool {
    let set = url.parameters().unwrap_or_default();
    url.scheme() == "sqlite" && !CACHES.iter().any(|name| set.contains_key(*name))
}

#[async_trait]
impl Harness for StoreHarness {
    fn name(&self) -> &str {
        &self.name
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        self.provider(&fixture).await
    }

    async fn reopen(&self, fixture: &Fixture) -> Result<Option<Box<dyn Provider>>> {
        if self.is_shared() { self.provider(fixture).await.map(Some) } else { Ok(None) }
    }

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn sql_setup(&self) -> SqlSetup {
        match &self.place {
            Place::Named(store) if !takes(&store.url, TX_IDLE) => SqlSetup::default(),
            _ => SqlSetup::default().with_tx_idle(),
        }
    }

    fn obeys_clock(&self) -> bool {
        self.obeys_clock
    }

    fn takes_small_caches(&self) -> bool {
        match &self.place {
            Place::Folder(_) => true,
            Place::Named(store) => takes_small_caches(&store.url),
        }
    }

    /// A file of all cases may be larger already.
    fn obeys_disk_bytes(&self) -> bool {
        matches!(self.place, Place::Folder(_))
    }
}

/// The store that the command line names, or a fresh SQLite file for each case; and what it serves. If `embeds`, it gets the
/// suite's embedder, provided that it accepts one.
///
/// # Errors
/// If the store cannot be opened: one error instead of a failure of every case.
pub(crate) async fn harness(
    context: &Context,
    embeds: bool,
) -> std::result::Result<(StoreHarness, Capabilities), Failure> {
    // In a store that outlives the run, one run must not see what another left.
    let namespace = format!("conformance-{:032x}", OpenContext::default().ids.fresh());
    let (name, place) = match context.named_store()? {
        Some(mut store) => {
            // As vendors write it.
            if matches!(store.url.scheme(), "http" | "https") {
                store.url =
                    BackendUrl::parse(&format!("memory+{}:{}", store.url.scheme(), store.url.expose_rest()))?;
            }
            (store.url.to_string(), Place::Named(Box::new(store)))
        }
        None => {
            let folder = tempfile::tempdir()
                .map_err(|error| Failure::File("a temporary folder cannot be created".to_owned(), error))?;
            ("sqlite".to_owned(), Place::Folder(folder))
        }
    };
    let mut harness = StoreHarness { name, place, namespace, embeds, obeys_clock: true };
    let served = match harness.provider(&Fixture::new("probe")).await {
        Err(error) if embeds && error.kind() == ErrorKind::VectorUnsupported => {
            harness.embeds = false;
            harness.provider(&Fixture::new("probe")).await?.capabilities()
        }
        probed => probed?.capabilities(),
    };
    harness.obeys_clock = harness.is_obeyed(&served).await?;
    Ok((harness, served))
}
