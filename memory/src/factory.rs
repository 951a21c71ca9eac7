//! Factories: they open the URLs of a scheme.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, Clock, Embedder, IdGen, Provider, Result};

use crate::system::{RandomIds, SystemClock};
use crate::url::BackendUrl;

/// What a store is opened for. Relevant for stores that opening could create: files, and tables in PostgreSQL. A
/// missing store is `not_found`, with `missing: "store"` in the error's details.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Anything; a missing store is created.
    #[default]
    Create,
    /// Anything; a missing store is `not_found`.
    Existing,
    /// Reading only. A missing store is `not_found`, and a file that this process cannot write is read as it is.
    Read,
}

/// What a factory is given besides the URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenContext {
    /// The source of the current time.
    pub clock: Arc<dyn Clock>,
    /// The source of new ids.
    pub ids: Arc<dyn IdGen>,
    /// The base of relative paths; `None` for the working directory.
    pub base_dir: Option<PathBuf>,
    /// Hosts that services may use besides public addresses over https, as `host:port`: private addresses and plain
    /// HTTP are allowed for them.
    pub allowed_hosts: Vec<String>,
    /// The embedder for entries; `None`: no vectors.
    pub embedder: Option<Arc<dyn Embedder>>,
    /// What the store is opened for.
    pub access: Access,
    /// The weights of a recall's signals.
    #[cfg(feature = "recall")]
    pub weights: memory_recall::rank::Weights,
    /// Whether the caller set `clock` rather than leaving the default.
    pub(crate) clock_is_given: bool,
}

impl OpenContext {
    /// The clock set by [`Registry::with_clock`](crate::Registry::with_clock), if any: for backends that otherwise use
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
    /// `invalid_argument` for a malformed URL; the backend's errors. Errors never show credentials.
    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>>;

    /// Refuses a URL whose content [`open`](Self::open) would refuse, without opening anything.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), as far as they can be detected without the store.
    fn check(&self, _url: &BackendUrl, _context: &OpenContext) -> Result<()> {
        Ok(())
    }

    /// The facets that every store of this scheme has, whether it compares and sets, and who owns embedding; `None` if
    /// that is not known without opening one. With this, a configuration that could not be opened is refused early.
    fn serves(&self) -> Option<Capabilities> {
        None
    }
}
