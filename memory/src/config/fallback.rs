//! `fallback` of `[backends.NAME]`.

use std::path::{Path, PathBuf};

#[cfg(feature = "sqlite")]
use memory_core::ErrorKind;
use memory_core::{DriftPolicy, EmbeddingOwner, Error, Result};

use super::sections::file::{BackendSection, FallbackWrites};
use super::{AgentBinding, Config, is_file_name};
use crate::memory::Memory;
use crate::registry::{Registry, takes_no_embedder};

impl BackendSection {
    fn journals(&self) -> bool {
        self.fallback_writes == Some(FallbackWrites::Journal)
    }
}

impl Config {
    /// The journal of a backend; `None` if it has no fallback, or one that takes no writes.
    ///
    /// # Errors
    /// `not_found` if there is no such backend.
    pub fn fallback_journal(&self, backend: &str) -> Result<Option<PathBuf>> {
        self.backend_url(backend)?;
        let section = self.file().backends.get(backend).filter(|section| section.journals());
        Ok(section.map(|section| self.journal_file(backend, section)))
    }

    pub(super) fn journal_file(&self, name: &str, section: &BackendSection) -> PathBuf {
        let folder = self.origin().parent().unwrap_or_else(|| Path::new(""));
        match &section.fallback_journal {
            Some(file) => folder.join(file),
            None => folder.join(format!("{name}.fallback.db")),
        }
    }

    pub(super) fn check_fallback(&self, name: &str, section: &BackendSection) -> Result<()> {
        let backends = &self.file().backends;
        let bad = |what: &str| Err(Error::invalid(format!("[backends.{name}] {what}")));
        let Some(fallback) = &section.fallback else {
            let says_how = section.fallback_writes.is_some()
                || section.fallback_journal.is_some()
                || section.fallback_rest_ms.is_some();
            return if says_how {
                bad("has settings for a fallback, but names none; set `fallback`")
            } else {
                Ok(())
            };
        };
        if cfg!(not(feature = "sqlite")) {
            return bad("has a fallback, which needs the cargo feature `sqlite` of the crate `memory`");
        }
        let Some(other) = backends.get(fallback) else {
            return bad("names a fallback that is not under [backends]");
        };
        if let Some(further) = &other.fallback {
            return if further == name || fallback == name {
                bad("is a fallback of its own fallback; remove one of the two `fallback`s")
            } else {
                bad(
                    "names a fallback that itself has one; only one level is allowed, so remove one of the two",
                )
            };
        }
        if self.is_same_store(&other.url, &section.url) {
            return bad(
                "names a fallback that is the same store, and would fail with it; name another store",
            );
        }
        if section.fallback_rest_ms.is_some_and(|millis| millis > 3_600_000) {
            return bad("has a `fallback_rest_ms` over 3600000, an hour; lower it");
        }
        let sql = self.file().sql;
        if sql.enabled && sql.workers > 0 {
            return bad(
                "has a fallback, and SQL runs in worker processes, which cannot say which backend answered; remove `workers` under \
                 [sql] or `fallback`",
            );
        }
        if !section.journals() {
            return match section.fallback_journal {
                Some(_) => bad(
                    "names a `fallback_journal`, but writes are refused; set `fallback_writes = \"journal\"`",
                ),
                None => Ok(()),
            };
        }
        if other.url.scheme() == "sqlite" && other.url.decoded_path().is_ok_and(|path| path == ":memory:") {
            return bad(
                "journals writes into a database in memory, which does not outlive this process; name a file",
            );
        }
        if section.fallback_journal.is_none() && !is_file_name(name) {
            return bad("has a name that is no file's; set `fallback_journal`");
        }
        Ok(())
    }

    /// Refuses a backend that its URL or its `sql` would keep from opening. Opens nothing.
    ///
    /// # Errors
    /// `not_found` if there is no such backend; otherwise those of [`Config::open_alone`].
    pub fn check_url(&self, registry: &Registry, name: &str) -> Result<()> {
        registry.check(self.backend_url(name)?, self.base_dir())
    }

    /// Refuses a backend that cannot be opened with its embedder, fallback and journal from the file, as far as can be
    /// told without opening a store.
    ///
    /// # Errors
    /// `not_found` if there is no such backend; otherwise those of [`Config::open_backend_with`].
    pub fn check_backend(&self, registry: &Registry, name: &str) -> Result<()> {
        let serves = |name: &str| Ok::<_, Error>(registry.serves(self.backend_url(name)?.scheme()));
        if self.embedder_of(name)?.is_some()
            && let Some(capabilities) = serves(name)?
            && capabilities.embedding != EmbeddingOwner::Embedder
        {
            return Err(takes_no_embedder(name));
        }
        #[cfg(feature = "sqlite")]
        if let Some(section) = self.file().backends.get(name) {
            if let Some(fallback) = &section.fallback {
                let (of_primary, of_fallback) = (serves(name)?, serves(fallback)?);
                for (name, known) in [(name, &of_primary), (fallback.as_str(), &of_fallback)] {
                    if let Some(known) = known
                        && section.journals()
                    {
                        crate::fallback::replayable(known, name)?;
                    }
                }
                if let (Some(primary), Some(other)) = (&of_primary, &of_fallback) {
                    crate::fallback::together(primary, other, fallback)?;
                }
            }
            self.check_journal(name, section)?;
        }
        Ok(())
    }

    /// Refuses rules that `memory serve` would refuse for an agent: a backend with a fallback serves no drift checks.
    ///
    /// # Errors
    /// `invalid_argument`, naming the section.
    pub fn check_drift(&self, registry: &Registry) -> Result<()> {
        let of_agents = self.file().agents.keys().map(|agent| (format!("[agents.{agent}]"), agent.as_str()));
        let default = ("[default]".to_owned(), "");
        for (place, agent) in std::iter::once(default).chain(of_agents) {
            let Ok(AgentBinding { backend, policy }) = self.agent(agent) else { continue };
            let asks = policy.drift.is_some_and(|policy| policy != DriftPolicy::Off);
            let has_fallback =
                self.file().backends.get(&backend).is_some_and(|section| section.fallback.is_some());
            let has_entries = |name| registry.serves(self.backend_url(name).ok()?.scheme()).map(|it| it.kv);
            if asks && has_fallback && has_entries(backend.as_str()) != Some(false) {
                return Err(Error::invalid(format!(
                    "{place} is to be guarded by `drift`, and its backend `{backend}` has a fallback: two stores serve no \
                     drift checks together; leave out `drift`, also under [limits], or `fallback`"
                )));
            }
        }
        Ok(())
    }

    /// Refuses a journal that holds writes for other stores, or that the backend no longer uses.
    #[cfg(feature = "sqlite")]
    fn check_journal(&self, name: &str, section: &BackendSection) -> Result<()> {
        let file = self.journal_file(name, section);
        match &section.fallback {
            Some(_) if section.journals() && file.is_dir() => Err(Error::invalid(format!(
                "{}, the journal of `{name}`, is a folder; name a file in `fallback_journal`",
                file.display()
            ))),
            Some(_) if section.journals() && is_in_no_folder(&file) => Err(Error::not_found(format!(
                "the folder of {}, the journal of `{name}`, does not exist; make it, or set `fallback_journal`",
                file.display()
            ))),
            Some(fallback) if section.journals() => {
                crate::fallback::belongs(&file, &self.fingerprint(name, fallback)?)
            }
            _ => crate::fallback::nothing_waits(&file),
        }
    }

    #[cfg(feature = "sqlite")]
    fn fingerprint(&self, name: &str, fallback: &str) -> Result<String> {
        Ok(crate::fallback::fingerprint(self.backend_url(name)?, self.backend_url(fallback)?))
    }

    /// Opens a backend, with its fallback if it has one.
    #[cfg(feature = "sqlite")]
    pub(super) async fn open_paired(&self, registry: &Registry, name: &str) -> Result<Memory> {
        use crate::factory::Access;
        use crate::fallback::{DEFAULT_REST_MILLIS, FallbackOptions, paired};

        let url = self.backend_url(name)?;
        self.check_backend(registry, name)?;
        let Some(section) = self.file().backends.get(name) else {
            return self.open_alone(registry, name).await;
        };
        let Some(fallback) = &section.fallback else { return self.open_alone(registry, name).await };
        let mut options = FallbackOptions::new(fallback.as_str());
        options.journal = self.fallback_journal(name)?;
        options.rest_millis = section.fallback_rest_ms.unwrap_or(DEFAULT_REST_MILLIS);
        options.clock = std::sync::Arc::clone(&registry.context().clock);
        options.fingerprint = self.fingerprint(name, fallback)?;
        let spare = match self.open_alone(registry, fallback).await {
            // A file that was never written cannot answer anything.
            Err(error)
                if error.kind() == ErrorKind::NotFound && registry.context().access != Access::Create =>
            {
                return self.open_alone(registry, name).await;
            }
            spare => spare?,
        };
        let opener = Reopen {
            registry: self.registry_for(registry, name)?,
            url: url.clone(),
            base_dir: self.base_dir(),
        };
        let primary = crate::fallback::Opens::open(&opener).await;
        paired(primary, Some(Box::new(opener)), spare, options)
    }

    /// Opens a backend.
    #[cfg(not(feature = "sqlite"))]
    pub(super) async fn open_paired(&self, registry: &Registry, name: &str) -> Result<Memory> {
        self.open_alone(registry, name).await
    }
}

/// Opens a backend later.
#[cfg(feature = "sqlite")]
#[derive(Debug)]
struct Reopen {
    registry: Registry,
    url: crate::url::BackendUrl,
    base_dir: Option<PathBuf>,
}

#[cfg(feature = "sqlite")]
#[async_trait::async_trait]
impl crate::fallback::Opens for Reopen {
    async fn open(&self) -> Result<Memory> {
        self.registry.open_from(&self.url, self.base_dir.clone()).await
    }
}

#[cfg(feature = "sqlite")]
fn is_in_no_folder(file: &Path) -> bool {
    file.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
}
