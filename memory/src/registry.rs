//! Opening backends by URL.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use memory_core::{Capabilities, Clock, Embedder, EmbeddingOwner, Error, ErrorKind, IdGen, Result, Retry};

use crate::factory::{Access, Factory, OpenContext};
use crate::memory::Memory;
use crate::url::{BackendUrl, check_scheme};

/// Known schemes that a build may lack, with the cargo feature they need.
const KNOWN: &[(&str, &str)] = &[
    ("sqlite", "sqlite"),
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("mem0+https", "mem0"),
    ("mem0+http", "mem0"),
    ("mem9+https", "mem9"),
    ("mem9+http", "mem9"),
    ("memory+https", "remote"),
    ("memory+http", "remote"),
];

/// Schemes and their factories. [`Registry::default`] has those of the enabled cargo features.
#[derive(Clone, Debug)]
pub struct Registry {
    factories: BTreeMap<String, Arc<dyn Factory>>,
    context: OpenContext,
}

impl Default for Registry {
    fn default() -> Self {
        #[allow(unused_mut, reason = "without features there is nothing to add")]
        let mut registry = Self::empty();
        #[cfg(feature = "sqlite")]
        registry.factories.insert("sqlite".to_owned(), Arc::new(crate::backends::sqlite::SqliteFactory));
        #[cfg(feature = "postgres")]
        for scheme in ["postgres", "postgresql"] {
            registry
                .factories
                .insert(scheme.to_owned(), Arc::new(crate::backends::postgres::PostgresFactory));
        }
        #[cfg(feature = "mem0")]
        for scheme in ["mem0+https", "mem0+http"] {
            registry.factories.insert(scheme.to_owned(), Arc::new(crate::backends::mem0::Mem0Factory));
        }
        #[cfg(feature = "mem9")]
        for scheme in ["mem9+https", "mem9+http"] {
            registry.factories.insert(scheme.to_owned(), Arc::new(crate::backends::mem9::Mem9Factory));
        }
        #[cfg(feature = "remote")]
        for scheme in ["memory+https", "memory+http"] {
            registry.factories.insert(scheme.to_owned(), Arc::new(crate::backends::server::ServerFactory));
        }
        registry
    }
}

impl Registry {
    /// No schemes, system clock, random ids.
    #[must_use]
    pub fn empty() -> Self {
        Self { factories: BTreeMap::new(), context: OpenContext::default() }
    }

    /// Sets the clock for backends. Those with their own clock, such as a server's, use this one instead.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.context.clock = clock;
        self.context.clock_is_given = true;
        self
    }

    /// Sets the ids for backends.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn IdGen>) -> Self {
        self.context.ids = ids;
        self
    }

    /// Sets the base of relative paths.
    #[must_use]
    pub fn with_base_dir(mut self, base_dir: impl Into<PathBuf>) -> Self {
        self.context.base_dir = Some(base_dir.into());
        self
    }

    /// Adds hosts that services may use besides public addresses over https, such as `localhost:8888`. Private
    /// addresses and plain HTTP are allowed for them.
    #[must_use]
    pub fn with_allowed_hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = H>) -> Self {
        self.context.allowed_hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Sets the embedder for entries. A backend that cannot use it is refused when opened.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.context.embedder = Some(embedder);
        self
    }

    /// Sets what stores are opened for.
    #[must_use]
    pub fn with_access(mut self, access: Access) -> Self {
        self.context.access = access;
        self
    }

    /// Sets the weights of a recall's signals, for conversations that this library manages.
    #[cfg(feature = "recall")]
    #[must_use]
    pub fn with_weights(mut self, weights: crate::conversations::Weights) -> Self {
        self.context.weights = weights;
        self
    }

    /// The context for factories.
    pub(crate) fn context(&self) -> &OpenContext {
        &self.context
    }

    /// Adds a scheme.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed scheme, `conflict` for one that is registered already.
    pub fn register(&mut self, scheme: &str, factory: Arc<dyn Factory>) -> Result<()> {
        check_scheme(scheme)?;
        if self.factories.contains_key(scheme) {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("the scheme `{scheme}` is registered already; choose another name for this factory"),
            )
            .with_retry(Retry::Never));
        }
        self.factories.insert(scheme.to_owned(), factory);
        Ok(())
    }

    /// The schemes that can be opened, in order.
    pub fn schemes(&self) -> impl Iterator<Item = &str> {
        self.factories.keys().map(String::as_str)
    }

    /// Refuses a URL that cannot be opened because of its scheme, path or parameters. Opens nothing.
    ///
    /// # Errors
    /// Those of [`Registry::open`], as far as they can be detected without the store.
    pub(crate) fn check(&self, url: &BackendUrl, base_dir: Option<PathBuf>) -> Result<()> {
        let (factory, context) = self.opener(url, base_dir)?;
        factory.check(url, &context)
    }

    /// The factory for a URL, and its context.
    fn opener(
        &self,
        url: &BackendUrl,
        base_dir: Option<PathBuf>,
    ) -> Result<(&Arc<dyn Factory>, OpenContext)> {
        let factory = self.factories.get(url.scheme()).ok_or_else(|| self.unknown(url.scheme()))?;
        let mut context = self.context.clone();
        context.base_dir = base_dir.or(context.base_dir);
        Ok((factory, context))
    }

    /// What the stores of a scheme can do, according to [`Factory::serves`].
    pub(crate) fn serves(&self, scheme: &str) -> Option<Capabilities> {
        self.factories.get(scheme)?.serves()
    }

    /// Opens a backend.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed URL or an unknown scheme (the known ones are listed), `vector_unsupported` if
    /// an embedder is set but the backend takes none, otherwise the backend's errors. Errors never show credentials.
    pub async fn open(&self, url: &str) -> Result<Memory> {
        self.open_url(&BackendUrl::parse(url)?).await
    }

    /// As [`Registry::open`].
    ///
    /// # Errors
    /// As [`Registry::open`].
    pub async fn open_url(&self, url: &BackendUrl) -> Result<Memory> {
        self.open_from(url, None).await
    }

    /// Like [`Registry::open_url`], relative to the caller's folder.
    pub(crate) async fn open_from(&self, url: &BackendUrl, base_dir: Option<PathBuf>) -> Result<Memory> {
        let (factory, context) = self.opener(url, base_dir)?;
        let provider = factory.open(url, &context).await?;
        let embedder = crate::conversations::embedder(provider.as_ref(), &context)?;
        let conversations = crate::conversations::with_conversations(provider, &context, embedder.clone());
        let memory = Memory::new(conversations)?.with_conversation_embedder(embedder);
        #[cfg(feature = "sqlite")]
        let memory = match crate::backends::sqlite::drift_folder(url, context.base_dir.as_deref()) {
            Some(folder) => memory.with_drift_backups(folder),
            None => memory,
        };
        match context.embedder {
            None => Ok(memory),
            // Otherwise writes would be acknowledged without the vectors that the operator asked for.
            Some(_) if memory.capabilities().embedding != EmbeddingOwner::Embedder => {
                Err(takes_no_embedder(memory.name()))
            }
            Some(embedder) => Ok(memory.with_embedding_model(embedder.model().clone())),
        }
    }

    fn unknown(&self, scheme: &str) -> Error {
        let present: Vec<&str> = self.schemes().collect();
        let list = if present.is_empty() {
            "none is compiled in; enable a cargo feature such as `sqlite`, or register a factory".to_owned()
        } else {
            format!("those present: {}", present.join(", "))
        };
        let message = match KNOWN.iter().find(|(known, _)| *known == scheme) {
            Some((_, feature)) => format!(
                "the scheme `{scheme}` needs the cargo feature `{feature}` of the crate `memory`, which this build lacks; {list}"
            ),
            None => {
                let absent = KNOWN.iter().filter(|(known, _)| !self.factories.contains_key(*known));
                let absent: Vec<String> =
                    absent.map(|(known, feature)| format!("{known} (feature `{feature}`)")).collect();
                let absent = match absent.as_slice() {
                    [] => String::new(),
                    absent => format!("; cargo features of the crate `memory` add: {}", absent.join(", ")),
                };
                format!("no backend is registered for the scheme `{scheme}`; {list}{absent}")
            }
        };
        Error::invalid(message).with_detail("scheme", scheme).with_detail("schemes", present)
    }
}

pub(crate) fn takes_no_embedder(provider: &str) -> Error {
    Error::vector_unsupported(format!("provider `{provider}` takes no embedder; open it without one"))
        .with_retry(Retry::Never)
        .with_detail("provider", provider)
}

/// Opens a backend with the default [`Registry`]: `sqlite:PATH` or `sqlite::memory:`, and with the features `postgres`,
/// `mem0`, `mem9` and `remote` also `postgres://…`, `mem0+https://…`, `mem9+https://…` and `memory+https://…`.
///
/// At the end of a program, `memory.close().await` waits until everything the store buffers, such as access counts, is
/// stored ([`close`](memory_core::Provider::close)).
///
/// # Errors
/// As [`Registry::open`].
pub async fn open(url: &str) -> Result<Memory> {
    Registry::default().open(url).await
}
