//! Saves scopes before a write is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::{Backend, DriftToken, Error, Result, Scope, ScopeDigest, Timestamp};

use super::super::blocking::run_blocking;
use super::catalog::{self, BackupInfo, BackupLimits};
#[cfg(feature = "sqlite")]
use super::database;
use super::file::Folder;
use super::format::{self, Occasion};
use super::write;

/// The folder of backups.
#[derive(Debug)]
pub struct Backups {
    root: PathBuf,
    limits: BackupLimits,
}

/// A scope that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// The file.
    pub path: PathBuf,
    /// False if the same drift was saved before.
    pub fresh: bool,
}

impl Backups {
    /// Keeps backups in this folder, which is created if missing.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), limits: BackupLimits::default() }
    }

    /// Sets how much is kept.
    #[must_use]
    pub fn with_limits(mut self, limits: BackupLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Saves a scope, unless the same drift was saved before; then removes backups over the limits.
    ///
    /// # Errors
    /// `unavailable`, `forbidden` or `invalid_argument`, depending on the file system; errors of reading the scope.
    pub async fn save(
        self: Arc<Self>,
        backend: &dyn Backend,
        scope: &Scope,
        observed: Option<DriftToken>,
        actual: Option<DriftToken>,
        now: Timestamp,
    ) -> Result<Saved> {
        let digest = scope.digest();
        let (folder, before) = {
            let backups = Arc::clone(&self);
            run_blocking(move || {
                let folder = Folder::create(&backups.root, &digest)?;
                let before = match actual {
                    Some(actual) => catalog::of_drift(&folder, actual)?,
                    None => None,
                };
                Ok((folder, before))
            })
            .await?
        };
        if let Some(path) = before {
            return Ok(Saved { path, fresh: false });
        }
        let snapshot = backend.drift_state(scope).await?.token;
        let occasion = Occasion { timestamp: now, observed, actual, snapshot };
        let path = self.write(backend, scope, &folder, &occasion).await?;
        let (limits, saved) = (self.limits, path.clone());
        run_blocking(move || {
            // The backup is kept even if removing old ones fails.
            if let Err(error) = catalog::retain(&folder, &saved, limits, now) {
                tracing::warn!(%error, "old backups of a scope could not be removed");
            }
            Ok(())
        })
        .await?;
        Ok(Saved { path, fresh: true })
    }

    /// Whether a backup still exists.
    pub(in crate::drift) async fn holds(self: Arc<Self>, path: &Path) -> bool {
        let path = path.to_owned();
        run_blocking(move || Ok(format::header(&path).is_ok())).await.unwrap_or(false)
    }

    #[cfg(feature = "sqlite")]
    async fn write(
        &self,
        backend: &dyn Backend,
        scope: &Scope,
        folder: &Folder,
        occasion: &Occasion,
    ) -> Result<PathBuf> {
        let bytes = self.size_of(backend, scope).await?;
        if bytes > self.limits.json_bytes {
            return database::write(backend, scope, folder, occasion).await;
        }
        write::write(backend, scope, folder, occasion).await
    }

    #[cfg(not(feature = "sqlite"))]
    async fn write(
        &self,
        backend: &dyn Backend,
        scope: &Scope,
        folder: &Folder,
        occasion: &Occasion,
    ) -> Result<PathBuf> {
        self.size_of(backend, scope).await?;
        write::write(backend, scope, folder, occasion).await
    }

    /// The bytes of a scope's entries; 0 if the backend does not count them.
    async fn size_of(&self, backend: &dyn Backend, scope: &Scope) -> Result<u64> {
        let bytes = backend.stats(scope).await.map_or(0, |stats| stats.bytes);
        if bytes > self.limits.bytes {
            let whole = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
            return Err(Error::too_large(
                "scope to be saved",
                whole(bytes),
                whole(self.limits.bytes),
                "bytes",
            ));
        }
        Ok(bytes)
    }

    /// The backups of a scope, the newest first.
    ///
    /// # Errors
    /// Errors of reading the folder; a missing one counts as empty.
    pub fn list(&self, scope: &Scope) -> Result<Vec<BackupInfo>> {
        match Folder::find(&self.root, &scope.digest())? {
            Some(folder) => catalog::list(&folder),
            None => Ok(Vec::new()),
        }
    }

    /// Marks the drift of a backup as resolved, so that the backup may be removed when it is old.
    pub fn resolve(&self, path: &Path) {
        if path.starts_with(&self.root)
            && let Err(error) = catalog::resolve(path)
        {
            tracing::warn!(%error, "a backup could not be marked as resolved; it is kept");
        }
    }

    /// The state of a scope last acknowledged by any process.
    #[must_use]
    pub fn acknowledged(&self, digest: &ScopeDigest) -> Option<DriftToken> {
        let folder = Folder::find(&self.root, digest).ok()??;
        folder.read_small("acknowledged").ok()?.trim().parse().ok()
    }

    /// Acknowledges a state of a scope for the sessions of every process: a refused write succeeds when retried, as
    /// long as the scope stays in that state.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn acknowledge(&self, scope: &Scope, token: DriftToken) -> Result<()> {
        let folder = Folder::create(&self.root, &scope.digest())?;
        let unwritten = "the acknowledgement cannot be written";
        folder.replace("acknowledged", token.to_string().as_bytes(), unwritten)?;
        for backup in catalog::list(&folder)? {
            if !backup.resolved {
                self.resolve(&backup.path);
            }
        }
        Ok(())
    }
}
