//! The scope as it was when a write was refused, in a file: `memory.bak.SECONDS.json`.
//!
//! The files of a scope lie in a folder of its own, named by the scope's digest, which nobody else may read. A file
//! beside a backup, with `.resolved` after its name, says that the drift it is about was cleared.

#[cfg(feature = "sqlite")]
mod database;
mod erase;
mod file;
mod kept;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::{Backend, DriftToken, Error, Result, Scope, ScopeDigest, Timestamp};
use serde::Serialize;

pub use read::{Backup, Difference, Restored};

use super::aside::aside;
use file::Folder;

/// What `format` of a backup says.
const FORMAT: &str = "memory-drift-backup-1";

/// How much is kept, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupLimits {
    /// Bytes of a scope's entries above which it is saved as a database. Default 16 MiB.
    pub json_bytes: u64,
    /// Most backups of a scope. Default 20.
    pub count: usize,
    /// Most bytes of a scope's backups; one that holds more is not saved. Default 1 GiB.
    pub bytes: u64,
    /// Oldest backup, in seconds. Default 30 days.
    pub age_seconds: u64,
}

impl Default for BackupLimits {
    fn default() -> Self {
        Self { json_bytes: 16 << 20, count: 20, bytes: 1 << 30, age_seconds: 30 * 86_400 }
    }
}

/// Where scopes are saved.
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
    /// False where the same drift was saved before.
    pub fresh: bool,
}

/// A backup in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BackupInfo {
    /// The file.
    pub path: PathBuf,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The token that the session had seen.
    pub generation_observed: Option<DriftToken>,
    /// The token that the refused write found.
    pub generation_actual: Option<DriftToken>,
    /// Its bytes, those of a database beside it included.
    pub bytes: u64,
    /// Whether the drift was cleared.
    pub resolved: bool,
}

/// When and why a scope is saved.
#[derive(Clone, Copy, Debug)]
struct Occasion {
    timestamp: Timestamp,
    observed: Option<DriftToken>,
    actual: Option<DriftToken>,
    snapshot: DriftToken,
}

impl Backups {
    /// Below this folder, which is made where it is missing.
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

    /// Saves a scope, unless the same drift was saved before; then removes what is over the limits.
    ///
    /// # Errors
    /// `unavailable`, `forbidden`, `invalid_argument` as the file system has it; as reading the scope fails.
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
            aside(move || {
                let folder = Folder::create(&backups.root, &digest)?;
                let before = match actual {
                    Some(actual) => kept::of_drift(&folder, actual)?,
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
        aside(move || {
            // The backup stands, whatever becomes of the old ones.
            if let Err(error) = kept::retain(&folder, &saved, limits, now) {
                tracing::warn!(%error, "old backups of a scope could not be removed");
            }
            Ok(())
        })
        .await?;
        Ok(Saved { path, fresh: true })
    }

    /// Whether a backup is still there.
    pub(super) async fn holds(self: Arc<Self>, path: &Path) -> bool {
        let path = path.to_owned();
        aside(move || Ok(kept::header(&path).is_ok())).await.unwrap_or(false)
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

    /// The bytes of a scope's entries; 0 where the backend does not count them.
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
    /// As reading the folder fails; one that is not there has none.
    pub fn list(&self, scope: &Scope) -> Result<Vec<BackupInfo>> {
        match Folder::find(&self.root, &scope.digest())? {
            Some(folder) => kept::list(&folder),
            None => Ok(Vec::new()),
        }
    }

    /// Notes that the drift of a backup was cleared, so that it may be removed when it is old.
    pub fn resolve(&self, path: &Path) {
        if path.starts_with(&self.root)
            && let Err(error) = kept::resolve(path)
        {
            tracing::warn!(%error, "it could not be noted that a drift was cleared; its backup is kept");
        }
    }

    /// What was last acknowledged of a scope, by any process.
    #[must_use]
    pub fn acknowledged(&self, digest: &ScopeDigest) -> Option<DriftToken> {
        let folder = Folder::find(&self.root, digest).ok()??;
        folder.read_small("acknowledged").ok()?.trim().parse().ok()
    }

    /// Acknowledges a state of a scope to the sessions of every process: a write that is sent again after it was
    /// refused passes, as long as the scope is in that state.
    ///
    /// # Errors
    /// As writing the file fails.
    pub fn acknowledge(&self, scope: &Scope, token: DriftToken) -> Result<()> {
        let folder = Folder::create(&self.root, &scope.digest())?;
        let unwritten = "the acknowledgement cannot be written";
        folder.replace("acknowledged", token.to_string().as_bytes(), unwritten)?;
        for backup in kept::list(&folder)? {
            if !backup.resolved {
                self.resolve(&backup.path);
            }
        }
        Ok(())
    }
}

/// An error of the file system.
fn broken(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => memory_core::ErrorKind::Forbidden,
            std::io::ErrorKind::ReadOnlyFilesystem => memory_core::ErrorKind::ReadOnly,
            std::io::ErrorKind::NotFound => memory_core::ErrorKind::NotFound,
            _ => memory_core::ErrorKind::Unavailable,
        };
        Error::new(kind, format!("{what}: {error}; check the folder of backups and its permissions"))
            .with_retry(memory_core::Retry::Never)
            .with_source(error)
    }
}
