//! `postgres://…` and `postgresql://…`.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, EmbeddingOwner, Error, Provider, Result, Retry};
use memory_postgres::PostgresProvider;
pub use memory_postgres::{Exposure, PostgresConfig, Prepared, operator};

use crate::factory::{Access, Factory, OpenContext};
use crate::url::BackendUrl;

/// Opens databases of `memory-postgres`. Parameters are libpq's and the fields of [`PostgresConfig`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostgresFactory;

#[async_trait]
impl Factory for PostgresFactory {
    fn check(&self, url: &BackendUrl, context: &OpenContext) -> Result<()> {
        config(url, context).map(drop)
    }

    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>> {
        let mut config = config(url, context)?;
        config.create &= context.access == Access::Create;
        // The server's clock is used unless the registry was given one.
        let provider = match context.given_clock() {
            None => PostgresProvider::open(config).await?,
            Some(clock) => PostgresProvider::open_with_clock(config, clock).await?,
        };
        let Some(embedder) = &context.embedder else { return Ok(Arc::new(provider)) };
        let provider = provider.with_embedder(Arc::clone(embedder));
        if provider.capabilities().embedding != EmbeddingOwner::Embedder {
            return Err(Error::vector_unsupported(
                "an embedder is set, and the PostgreSQL database has no pgvector that its user may use: run `CREATE \
                 EXTENSION vector` in it, or open it without an embedder",
            )
            .with_retry(Retry::Never)
            .with_detail("provider", "postgres"));
        }
        Ok(Arc::new(provider))
    }

    fn serves(&self) -> Option<Capabilities> {
        Some(super::entries())
    }
}

/// Parses the URL.
///
/// # Errors
/// `invalid_argument` for a malformed URL or parameter.
pub fn config(url: &BackendUrl, context: &OpenContext) -> Result<PostgresConfig> {
    PostgresConfig::from_url_in(
        &format!("{}:{}", url.scheme(), url.expose_rest()),
        context.base_dir.as_deref(),
    )
}
