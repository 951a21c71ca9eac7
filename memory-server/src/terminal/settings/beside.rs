//! The files next to a store: the ledger of its snapshots, drift backups, the journal of `forget`.

use std::path::PathBuf;

use memory::forget::Places;
use memory::snapshot::{FileOptions, Ledger};
use memory::{Config, Memory};
use memory_core::Result;

use super::resolved::Settings;
use super::store::{Store, create_private_folder, data_folder};

impl Settings {
    /// The ledger of the store's snapshots: next to a database file, otherwise in the data folder, if there is one.
    pub(crate) async fn ledger(&self, memory: &Memory) -> Result<Option<Ledger>> {
        if let Some(beside) = self.beside_file()? {
            return Ok(beside.ledger);
        }
        let Some(file) = self.in_data_folder("snapshots", memory).await? else { return Ok(None) };
        if let Some(folder) = file.parent() {
            create_private_folder(folder)?;
        }
        Ok(Some(Ledger::at(file.with_extension("jsonl"))))
    }

    /// The files next to the store's file (none for an in-memory store); `None` if the store is not a file.
    pub(super) fn beside_file(&self) -> Result<Option<Places>> {
        let Ok((url, base)) = self.backend_url() else { return Ok(None) };
        if url.scheme() != "sqlite" {
            return Ok(None);
        }
        let file = memory::sqlite::file(&url, base.as_deref())?;
        Ok(Some(file.map(|file| Places::beside(&file)).unwrap_or_default()))
    }

    /// How a command writes a file: it overwrites one only on request, and never the store's own files.
    pub(crate) fn file_options(&self, overwrite: bool) -> Result<FileOptions> {
        let mut own = match self.backend_url() {
            Ok((url, base)) if url.scheme() == "sqlite" => memory::sqlite::own_files(&url, base.as_deref())?,
            _ => Vec::new(),
        };
        if let (Store::Named(name), Some(config)) = (&self.store, &self.config)
            && config.file().backends.contains_key(name)
        {
            own.extend(config.fallback_journal(name)?);
        }
        Ok(FileOptions::default().with_overwrite(overwrite).with_own(own))
    }

    /// The folder in the data folder for a store that is not a file; it may not exist yet. `None` without a data
    /// folder.
    pub(super) async fn in_data_folder(&self, kind: &str, memory: &Memory) -> Result<Option<PathBuf>> {
        let Some(folder) = data_folder() else { return Ok(None) };
        Ok(Some(folder.join(kind).join(self.store_key(memory).await?)))
    }

    /// The identity of a store that is not a file, however its URL is spelled: the id its database got when it was
    /// created, otherwise the identifying parts of its URL.
    async fn store_key(&self, memory: &Memory) -> Result<String> {
        if let Some(backend) = memory.backend()
            && !memory.capabilities().drift.is_empty()
        {
            let database = backend.drift_state(&self.scope).await?.token.database;
            return Ok(format!("{database:032x}"));
        }
        let identity = match self.backend_url() {
            Ok((url, _)) => url.identity(),
            Err(_) => format!("{} {}", self.tenant, self.shown_url()?),
        };
        let named = memory_core::entry::value_sha256(&memory_core::Json::string(&identity));
        Ok(named.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The journal of `forget`, if there is one.
    pub(super) async fn intents(&self, memory: &Memory) -> Result<Option<PathBuf>> {
        match self.beside_file()? {
            Some(beside) => Ok(beside.intents),
            None => {
                let file = self.in_data_folder("snapshots", memory).await?;
                Ok(file.map(|file| file.with_extension("forget")))
            }
        }
    }

    /// Where drift backups of a store that is not a file may be: in the data folder, and, for a named backend that
    /// other programs opened, next to memory.toml.
    async fn drift_folders(&self, memory: &Memory, name: Option<&str>) -> Result<Vec<PathBuf>> {
        if memory.backend().is_none() || memory.capabilities().drift.is_empty() {
            return Ok(Vec::new());
        }
        let in_data_folder = self.in_data_folder("drift", memory).await?;
        let beside = self.config.as_ref().zip(name).and_then(|(config, name)| config.drift_folder(name));
        Ok(in_data_folder.into_iter().chain(beside).collect())
    }

    /// The files next to a fallback: its drift backups and its ledger of snapshots.
    async fn beside_fallback(
        &self,
        config: &Config,
        fallback: &str,
    ) -> Result<(Vec<PathBuf>, Option<Ledger>)> {
        let url = config.backend_url(fallback)?;
        if url.scheme() == "sqlite" {
            let base = config.origin().parent().filter(|folder| !folder.as_os_str().is_empty());
            let places =
                memory::sqlite::file(url, base)?.map(|file| Places::beside(&file)).unwrap_or_default();
            return Ok((places.drift_backups.into_iter().collect(), places.ledger));
        }
        // The erasure itself will report that the fallback is unavailable.
        let opened = config.open_backend_for(&self.registry()?, &self.tenant, fallback).await;
        let Ok(memory) = opened.map(|memory| self.openings.closing(memory)) else {
            return Ok((Vec::new(), None));
        };
        let backups = self.drift_folders(&memory, Some(fallback)).await?;
        if backups.is_empty() {
            return Ok((backups, None));
        }
        let ledger = self.in_data_folder("snapshots", &memory).await?;
        let ledger = ledger.map(|file| Ledger::at(file.with_extension("jsonl")));
        Ok((backups, ledger))
    }

    /// The audit file of `memory.toml`.
    pub(crate) fn audit_file(&self) -> Option<PathBuf> {
        self.config.as_ref()?.audit_file()
    }

    /// Every place that may hold copies of the store's data, and the auditor that records a `forget`.
    pub(crate) async fn places(&self, memory: &Memory) -> Result<Places> {
        let mut places = match self.beside_file()? {
            Some(beside) => beside,
            None => {
                let mut places = Places::default();
                places.ledger = self.ledger(memory).await?;
                places.intents = places.ledger.as_ref().map(|ledger| ledger.path().with_extension("forget"));
                let name = match &self.store {
                    Store::Named(name) => Some(name.as_str()),
                    _ => None,
                };
                let mut backups = self.drift_folders(memory, name).await?.into_iter();
                places.drift_backups = backups.next();
                places.fallback_backups.extend(backups);
                places
            }
        };
        let Some(config) = &self.config else { return Ok(places) };
        if let Store::Named(name) = &self.store
            && let Some(section) = config.file().backends.get(name)
        {
            places = places.with_journal(config.fallback_journal(name)?);
            if let Some(fallback) = &section.fallback {
                let (backups, ledger) = self.beside_fallback(config, fallback).await?;
                places.fallback_backups.extend(backups);
                places = places.with_fallback(None, ledger);
            }
        }
        if config.file().definitions.is_some() {
            places = places.with_definitions(Some(config.definitions_file()?));
        }
        let auditor = config.auditor(std::sync::Arc::new(memory::system::SystemClock))?;
        Ok(places.with_audit_file(self.audit_file()).with_auditor(auditor))
    }
}
