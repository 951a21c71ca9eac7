//! The store under test, as the suite opens it.

use std::path::PathBuf;

use async_trait::async_trait;
use memory::{BackendUrl, OpenContext, Registry};
use memory_conformance::{Fixture, Harness, SqlSetup};
use memory_core::{IdGen as _, Provider, Result};
use memory_server::terminal::{Context, Failure, sqlite_url};

/// Opens a URL with the case's own clock, ids and embedder.
pub(crate) struct UrlHarness {
    name: String,
    place: Place,
    namespace: String,
    /// Whether to give the store an embedder.
    pub(crate) embeds: bool,
}

enum Place {
    /// A file for each case, in a temporary folder.
    Folder(tempfile::TempDir),
    /// The store of the command line; cases keep to tenants of this run.
    Url(String),
}

impl UrlHarness {
    fn url(&self, fixture: &Fixture) -> Result<String> {
        match &self.place {
            Place::Folder(folder) => {
                let file: PathBuf = folder.path().join(format!("{}.db", fixture.name));
                let url = sqlite_url(&file)?;
                Ok(match fixture.tx_idle {
                    Some(idle) => format!("{url}?sql.tx_idle_ms={}", idle.as_millis()),
                    None => url,
                })
            }
            Place::Url(url) => Ok(url.clone()),
        }
    }

    /// Whether a second handle reaches the same store.
    fn is_shared(&self) -> bool {
        !matches!(&self.place, Place::Url(url) if url.starts_with("sqlite::memory:"))
    }

    pub(crate) async fn provider(&self, fixture: &Fixture) -> Result<Box<dyn Provider>> {
        let mut registry =
            Registry::default().with_clock(fixture.clock.clone()).with_ids(fixture.ids.clone());
        if self.embeds {
            registry = registry.with_embedder(fixture.embedder.clone());
        }
        Ok(Box::new(registry.open(&self.url(fixture)?).await?))
    }
}

#[async_trait]
impl Harness for UrlHarness {
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
        match self.place {
            Place::Folder(_) => SqlSetup::default().with_tx_idle(),
            Place::Url(_) => SqlSetup::default(),
        }
    }
}

/// The store of the command line, or a fresh SQLite file for each case.
pub(crate) fn harness(context: &Context) -> std::result::Result<UrlHarness, Failure> {
    // A store that outlives the run must not show one run what another left.
    let namespace = format!("conformance-{:032x}", OpenContext::default().ids.fresh());
    Ok(match context.explicit_url() {
        Some(url) => UrlHarness {
            name: BackendUrl::parse(url)?.to_string(),
            place: Place::Url(url.to_owned()),
            namespace,
            embeds: false,
        },
        None => UrlHarness {
            name: "sqlite".to_owned(),
            place: Place::Folder(
                tempfile::tempdir()
                    .map_err(|error| Failure::File("a temporary folder cannot be made".to_owned(), error))?,
            ),
            namespace,
            embeds: false,
        },
    })
}
