//! Factories: what opens the URLs of a scheme, and what it gets.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, Clock, Embedder, IdGen, Provider, Result};

use crate::system::{RandomIds, SystemClock};
use crate::url::BackendUrl;

/// What a store is opened for. It matters where opening could create the store: for files, and tables of PostgreSQL. A store
/// that is not there is `not_found`, with `missing: "store"` in the error's details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Anything; a missing store is created.
    #[default]
    Create,
    /// Anything; a missing store is `not_found`.
    Existing,
    /// Reading only: a missing store is `not_found`, and a file that this process may not write is read as it is.
    Read,
}

/// What a factory gets besides the URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenContext {
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// The source of new ids.
    pub ids: Arc<dyn IdGen>,
    /// The base of relative paths; `None`: the working directory.
    pub base_dir: Option<PathBuf>,
    /// Hosts that services may have besides public addresses by https, as `host:port`: they may have private addresses
    /// and be used without TLS.
    pub allowed_hosts: Vec<String>,
    /// The embedder for entries; `None`: no vectors.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// What the store is opened for.
    pub access: Access,
    /// What the signals of a recall weigh.
    #[cfg(feature = "recall")]
    pub weights: memory_recall::rank::Weights,
    /// Whether the caller set `clock`, instead of the default.
    pub(crate) clock_is_given: bool,
}

impl OpenContext {
    /// The clock, if [`Registry::with_clock`](crate::Registry::with_clock) set one: for backends that otherwise use
    /// their own.
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
            access: Access::Create,
            #[cfg(feature = "recall")]
            weights: memory_recall::rank::Weights::default(),
            clock_is_given: false,
        }
    }
}

/// Opens the URLs of one scheme.
#[async_trait]
pub trait Factory: Send + Sync + Debug {
    /// Opens `url`, within bounded time. Unknown parameters are refused by name.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed URL; the backend's errors. No error shows credentials.
    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>>;

    /// Refuses a URL that [`open`](Self::open) would refuse for what it says, without opening anything.
    ///
    /// # Errors
    /// As [`open`](Self::open), as far as that shows without the store.
    fn check(&self, _url: &BackendUrl, _context: &OpenContext) -> Result<()> {
        Ok(())
    }

    /// The facets of every store of this scheme, whether it compares and sets, and who owns embedding, as far as that is
    /// known without opening one; `None`: it is not. So a configuration that could not be opened is refused before.
    fn serves(&self) -> Option<Capabilities> {
        None
    }
}
