//! Backends defined at run time instead of in `memory.toml`.

use memory_core::{Result, TenantId};

use super::Config;
use crate::memory::Memory;
use crate::registry::Registry;

impl Config {
    /// Opens a backend for a tenant: one from `[backends]`, or one of the tenant's definitions, `NAME` or
    /// `NAME@VERSION`.
    ///
    /// # Errors
    /// Those of [`Config::open_backend_with`]; `not_found` for a definition that does not exist or was retired, with
    /// `details.successor`; `forbidden` if the operator no longer allows what it names.
    pub async fn open_backend_for(
        &self,
        registry: &Registry,
        tenant: &TenantId,
        name: &str,
    ) -> Result<Memory> {
        if self.file().backends.contains_key(name) || self.file().definitions.is_none() {
            return self.open_backend_with(registry, name).await;
        }
        self.open_defined(registry, tenant, name).await
    }

    /// Checks whether a backend may have this name: it is in `[backends]`, or could be one of the definitions, if there
    /// are any.
    ///
    /// # Errors
    /// `not_found`, listing the names; `invalid_argument` for a name that no definition can have.
    pub fn check_backend_name(&self, name: &str) -> Result<()> {
        #[cfg(feature = "sqlite")]
        if self.file().definitions.is_some() && !self.file().backends.contains_key(name) {
            return crate::definitions::DefinitionRef::parse(name).map(drop);
        }
        self.backend_url(name).map(drop)
    }

    #[cfg(not(feature = "sqlite"))]
    async fn open_defined(&self, registry: &Registry, _tenant: &TenantId, name: &str) -> Result<Memory> {
        self.open_backend_with(registry, name).await
    }
}

#[cfg(feature = "sqlite")]
mod stored {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use memory_core::{Clock, Error, ErrorKind, Result, Retry, TenantId};

    use super::super::Config;
    use super::super::sections::definitions::DefinitionsSection;
    use super::super::sections::file::BackendSection;
    use crate::definitions::{Allowed, Definition, DefinitionRef, DefinitionStore};
    use crate::memory::Memory;
    use crate::registry::Registry;
    use crate::url::BackendUrl;

    impl Config {
        /// `[definitions]`.
        ///
        /// # Errors
        /// `forbidden` if there is none.
        pub fn definitions(&self) -> Result<&DefinitionsSection> {
            self.file().definitions.as_ref().ok_or_else(|| {
                Error::forbidden(format!(
                    "{} has no [definitions], so no backend may be defined at run time; see docs/backends.md",
                    self.origin().display()
                ))
            })
        }

        /// The file of definitions.
        ///
        /// # Errors
        /// As [`Config::definitions`].
        pub fn definitions_file(&self) -> Result<PathBuf> {
            let folder = self.origin().parent().unwrap_or_else(|| Path::new(""));
            let named = self.definitions()?.file.as_deref();
            Ok(folder.join(named.unwrap_or_else(|| Path::new("memory.definitions.db"))))
        }

        /// Opens the file of definitions, creating it if it is missing.
        ///
        /// # Errors
        /// As [`Config::definitions`] and [`DefinitionStore::open`].
        pub fn definition_store(&self, clock: Arc<dyn Clock>) -> Result<DefinitionStore> {
            DefinitionStore::open(&self.definitions_file()?, clock)
        }

        /// Opens the file of definitions for reading. If it is missing, it is not created and there are none.
        ///
        /// # Errors
        /// As [`Config::definition_store`].
        pub fn existing_definitions(&self, clock: Arc<dyn Clock>) -> Result<DefinitionStore> {
            DefinitionStore::open_existing(&self.definitions_file()?, clock)
        }

        /// Refuses a definition that names anything not listed in `[definitions]`, that has the name of a backend in the
        /// file, or that this registry could never open.
        ///
        /// # Errors
        /// `forbidden`, `conflict`, `invalid_argument`.
        pub fn check_definition(
            &self,
            registry: &Registry,
            name: &str,
            definition: &Definition,
        ) -> Result<()> {
            if self.file().backends.contains_key(name) {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    format!(
                        "`{name}` is under [backends] of memory.toml, which takes precedence; use another name"
                    ),
                )
                .with_retry(Retry::Never));
            }
            registry.check(&self.allowed(definition)?, self.base_dir())
        }

        fn allowed(&self, definition: &Definition) -> Result<BackendUrl> {
            let base_dir = self.base_dir();
            Allowed { section: self.definitions()?, base_dir: base_dir.as_deref() }.check(definition)
        }

        pub(super) async fn open_defined(
            &self,
            registry: &Registry,
            tenant: &TenantId,
            name: &str,
        ) -> Result<Memory> {
            let which = DefinitionRef::parse(name)?;
            let store = self.existing_definitions(Arc::clone(&registry.context().clock))?;
            let stored = store.resolve(tenant, &which)?;
            // What was allowed when it was stored may not be allowed now.
            let url = self.allowed(&stored.definition)?;
            let mut section = BackendSection::new(url);
            section.embedder = stored.definition.embedder;
            section.fallback = stored.definition.fallback;
            let mut config = self.clone();
            config.insert_backend(name, section)?;
            config.open_backend_with(registry, name).await
        }
    }
}
