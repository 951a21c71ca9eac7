//! Opening the store.

use std::path::Path;

use memory::snapshot::Ledger;
use memory::{Access, Memory};
use memory_core::{Error, Result};

use super::super::output::note;
use super::openings::Key;
use super::resolved::Settings;
use super::store::{Store, create_private_folder, sqlite_url};
use super::unmade::Unmade;

impl Settings {
    /// Opens the store, and warns if an interrupted `forget` may have left data in it.
    pub(crate) async fn open(&self, access: Access) -> Result<Memory> {
        let memory = self.open_to_resume(access).await?;
        // If the store is unreachable, its id is unknown, but its fallback may still answer.
        if let Ok(Some(folder)) = self.intents(&memory).await
            && memory::forget::unfinished(&folder) > 0
        {
            note(
                "memory: a `memory forget` of this store was interrupted or is still running, so its data may still be readable; \
                 if it is not running, see what is left with `memory forget --resume --dry-run` on the same store, then \
                 complete it with --resume or give it up with --abandon",
            );
        }
        Ok(memory)
    }

    /// Opens the store to complete an interrupted `forget`.
    pub(crate) async fn open_to_resume(&self, access: Access) -> Result<Memory> {
        let memory = self.open_store(access).await?;
        let is_file = self.backend_url().is_ok_and(|(url, _)| url.scheme() == "sqlite");
        // A file's drift backups are next to it. For others, the folder of memory.toml may not be writable.
        if is_file || memory.capabilities().drift.is_empty() {
            return Ok(memory);
        }
        Ok(match self.in_data_folder("drift", &memory).await? {
            Some(folder) => memory.with_drift_backups(folder),
            None => memory,
        })
    }

    /// Opens the store without creating it; an empty store in memory replaces a missing one.
    pub(crate) async fn open_unmade(&self, access: Access) -> Result<Memory> {
        match self.open(access).await {
            Err(error) if is_unmade(&error) => Unmade::like(&self.backend_url()?.0, self.empty().await?),
            opened => opened,
        }
    }

    /// An empty store in memory, which reads like one that was never created.
    pub(crate) async fn empty(&self) -> Result<Memory> {
        Ok(self.openings.closing(self.registry()?.open("sqlite::memory:").await?))
    }

    /// What an opened store depends on. `None` for a store defined at run time, because each opening must check whether
    /// it still is.
    fn key(&self) -> Option<Key> {
        let store = match (&self.store, &self.config) {
            (Store::Named(name), Some(config)) if config.file().backends.contains_key(name) => name.clone(),
            (Store::Named(_), _) => return None,
            (Store::Url(url), _) => url.clone(),
            (Store::DataFile(file), _) => file.display().to_string(),
        };
        let written = |file: &Path| file.metadata().and_then(|about| about.modified()).ok();
        let config = self.config.as_ref().map(|config| config.origin());
        Some(Key {
            store,
            tenant: self.tenant.to_string(),
            embedder: self.global.embedder.clone(),
            hosts: self.global.allow_hosts.clone(),
            config: config.map(|file| (file.to_path_buf(), written(file))),
        })
    }

    async fn open_store(&self, access: Access) -> Result<Memory> {
        let key = self.key();
        if let Some(memory) = key.as_ref().and_then(|key| self.openings.kept(key, access)) {
            return Ok(memory);
        }
        let registry = self.registry()?.with_access(access);
        let memory = match (&self.store, &self.config) {
            (Store::Named(name), Some(config)) => {
                config.open_backend_for(&registry, &self.tenant, name).await?
            }
            (Store::Named(name), None) => {
                return Err(Error::internal(format!("no configuration defines `{name}`")));
            }
            (Store::Url(url), _) => registry.open(url).await?,
            (Store::DataFile(file), _) => {
                if let (Some(folder), Access::Create) = (file.parent(), access) {
                    create_private_folder(folder)?;
                }
                registry.open(&sqlite_url(file)?).await?
            }
        };
        #[cfg(feature = "otel")]
        let memory = crate::terminal::traces::watched(memory)?;
        if let Some(key) = key {
            self.openings.keep(key, access, &memory);
        }
        Ok(self.openings.closing(memory))
    }

    /// Like [`ledger`](Self::ledger), but does not open a store that is a file.
    pub(crate) async fn ledger_alone(&self) -> Result<Option<Ledger>> {
        match self.beside_file()? {
            Some(beside) => Ok(beside.ledger),
            None => self.ledger(&self.open(Access::Read).await?).await,
        }
    }
}

/// Whether a store cannot be opened because it was never created.
pub(crate) fn is_unmade(error: &Error) -> bool {
    error.details().get("missing").is_some_and(|what| what == "store")
}
