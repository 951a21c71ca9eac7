//! What every command receives: the global options, and the store that they name.

use memory::system::RandomIds;
use memory::{Access, Config, Memory, Registry};
use memory_core::{
    Backend, Error, ErrorKind, IdGen as _, MemoryLayer, Result, Retry, RunContext, Scope, ScopeId, ScopeKind,
};

use super::credentials::CredentialArgs;
use super::settings::{BareStore, Global, Settings, registry};

/// What every command receives.
pub struct Context {
    global: Global,
}

/// An opened store and the scope to work on.
pub(crate) struct Opened {
    pub(crate) memory: Memory,
    pub(crate) settings: Settings,
}

impl Context {
    pub fn new(global: Global) -> Self {
        Self { global }
    }

    pub fn is_quiet(&self) -> bool {
        self.global.quiet
    }

    /// Decides on store, tenant and scope; opens nothing.
    pub(crate) fn settings(&self) -> Result<Settings> {
        Settings::resolve(&self.global)
    }

    /// The options that every command takes.
    pub(crate) fn global(&self) -> &Global {
        &self.global
    }

    /// The registry for backends other than the chosen one, with the embedder of the command line.
    ///
    /// # Errors
    /// As [`settings::registry`](super::settings::registry).
    pub fn registry(&self) -> Result<Registry> {
        let config = || Config::discover(self.global.config.as_deref());
        registry(&self.global, config)
    }

    /// The URL of the command line or the environment.
    pub fn explicit_url(&self) -> Option<&str> {
        self.global.url.as_deref().filter(|url| !url.is_empty())
    }

    /// The store that the command line or the environment names, by URL or by name; `None`: they name none.
    ///
    /// # Errors
    /// As [`Settings::resolve`] and [`Settings::backend_url`].
    pub fn named_store(&self) -> Result<Option<BareStore>> {
        if self.explicit_url().is_none() && self.explicit_backend().is_none() {
            return Ok(None);
        }
        self.settings()?.bare_store().map(Some)
    }

    /// The name of a backend on the command line or in the environment.
    pub(crate) fn explicit_backend(&self) -> Option<&str> {
        self.global.backend.as_deref().filter(|name| !name.is_empty())
    }

    /// Opens the store.
    pub(crate) async fn open(&self, access: Access) -> Result<Opened> {
        let settings = self.settings()?;
        let memory = settings.open(access).await?;
        Ok(Opened { memory, settings })
    }

    /// Opens a store of facts. No file is one, so a missing file is not created to find that out.
    pub(crate) async fn open_facts(&self) -> Result<Opened> {
        let settings = self.settings()?;
        let memory = settings.open_unmade(Access::Existing).await?;
        Ok(Opened { memory, settings })
    }
}

impl Opened {
    pub(crate) fn scope(&self) -> &Scope {
        &self.settings.scope
    }

    /// The key/value facet.
    pub(crate) fn backend(&self, operation: &str) -> Result<&dyn Backend> {
        self.memory.backend().ok_or_else(|| match self.memory.layer() {
            Some(_) => self.unsupported(
                operation,
                "it keeps facts, not entries: use `memory add`, `recall`, `facts` and `forget`, or name another store",
            ),
            None => Error::unsupported(operation, self.memory.name()),
        })
    }

    /// The conversational facet.
    pub(crate) fn layer(&self, operation: &str) -> Result<&dyn MemoryLayer> {
        self.memory.layer().ok_or_else(|| {
            self.unsupported(
                operation,
                "it keeps entries, not facts: use `memory set`, `search`, `list` and `delete`, or name a store with facts, \
                 as --backend NAME or --url 'mem0+https://…'",
            )
        })
    }

    fn unsupported(&self, operation: &str, advice: &str) -> Error {
        let name = self.memory.name();
        Error::new(
            ErrorKind::Unsupported,
            format!("provider `{name}` does not serve `{operation}`; {advice}"),
        )
        .with_retry(Retry::Never)
        .with_detail("operation", operation)
        .with_detail("provider", name)
    }

    /// The run context of the terminal user, for the chosen scope.
    pub(crate) fn run(&self, credentials: &CredentialArgs) -> Result<RunContext> {
        let scope = self.scope();
        let here = || ScopeId::new(format!("cli-{:032x}", RandomIds.fresh()));
        let (agent, run) = match scope.kind {
            ScopeKind::Agent => (scope.id.clone(), here()?),
            ScopeKind::Run => (ScopeId::new("cli")?, scope.id.clone()),
            ScopeKind::User => (ScopeId::new("cli")?, here()?),
        };
        let mut context = RunContext::new(self.settings.tenant.clone(), agent, run);
        if scope.kind == ScopeKind::User {
            context = context.with_user(scope.id.clone());
        }
        credentials.give(&mut context)?;
        Ok(context)
    }
}
