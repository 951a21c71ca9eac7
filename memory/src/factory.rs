//! The seam between a URL and a provider: what opens the URLs of one scheme, and what it is given.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, Clock, Embedder, IdGen, Provider, Result};

use crate::system::{RandomIds, SystemClock};
use crate::url::BackendUrl;

/// What every factory gets besides the URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenContext {
    /// The source of "now".
    pub clock: Arc<dyn Clock>,
    /// The source of fresh ids.
    pub ids: Arc<dyn IdGen>,
    /// What relative paths are relative to; `None`: the working directory.
    pub base_dir: Option<PathBuf>,
    /// What services may be at besides public addresses by https, as `host:port`: these hosts may have private addresses
    /// and be spoken to without TLS.
    pub allowed_hosts: Vec<String>,
    /// What gives entries their vectors; `None`: nothing does.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// Whether `clock` was set by the caller and is not the default one.
    pub(crate) clock_is_given: bool,
}

impl OpenContext {
    /// The clock, where [`Registry::with_clock`](crate::Registry::with_clock) named one: for backends that have a clock of their own otherwise.
    #[must_use]
    pub fn given_clock(&self) -> Option<Arc<dyn Clock>> {
        self.clock_is_given.then(|| Arc::clone(&self.clock))
    }
}

impl Default for OpenContext {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            base_dir: None,
            allowed_hosts: Vec::new(),
            embedder: None,
            clock_is_given: false,
        }
    }
}

/// Opens the URLs of one scheme.
#[async_trait]
pub trait Factory: Send + Sync + Debug {
    /// Opens `url`; bounded in time. Parameters it does not know are refused by name.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed URL; as the backend fails. No error shows credentials.
    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>>;

    /// The facets of every store of this scheme, whether it compares and sets, and who owns embedding, as far as that is
    /// known without opening one; `None`: it is not. So a configuration that could not be opened is refused before.
    fn serves(&self) -> Option<Capabilities> {
        None
    }
}
