//! A large scope as a separate database.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::{Backend as _, Checked, Error, Provider as _, RecordStream, Result, Scope};
use memory_sqlite::{SqliteConfig, SqliteProvider};

use super::super::blocking::run_blocking;
use super::file::Folder;
use super::format::Occasion;
use super::write as text;
use crate::system::SystemClock;

/// Removes a database that was not finished.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a database and the files SQLite may have left with it.
pub(super) fn remove(path: &Path) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        drop(std::fs::remove_file(name));
    }
}

/// Copies a scope into a new store.
pub(super) async fn write(
    backend: &dyn memory_core::Backend,
    scope: &Scope,
    folder: &Folder,
    occasion: &Occasion,
) -> Result<PathBuf> {
    let path = folder.temporary();
    let unfinished = Unfinished(path.clone());
    let store = Store::open(&path)?;
    let records = backend.export_scope(scope).await?;
    let imported = store.checked.import_scope(scope, records, Default::default()).await?;
    store.close().await?;
    let (folder, scope, occasion) = (folder.clone(), scope.clone(), *occasion);
    run_blocking(move || {
        let _unfinished = unfinished;
        settle(&path)?;
        text::publish_database(&scope, &folder, &occasion, &path, imported.created)
    })
    .await
}

/// A private store, used through [`Checked`] like every other.
pub(super) struct Store {
    provider: Arc<SqliteProvider>,
    checked: Checked<Arc<SqliteProvider>>,
}

impl Store {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut config = SqliteConfig::default();
        (config.readers, config.workers) = (1, 1);
        config.sweep_interval_ms = 0;
        let provider = Arc::new(SqliteProvider::open(path, config, Arc::new(SystemClock))?);
        Ok(Self { checked: Checked::new(Arc::clone(&provider))?, provider })
    }

    pub(super) async fn export(&self, scope: &Scope) -> Result<RecordStream> {
        self.checked.export_scope(scope).await
    }

    pub(super) async fn close(self) -> Result<()> {
        self.provider.close().await
    }
}

/// Checkpoints the log, so that everything is in one file.
fn settle(path: &Path) -> Result<()> {
    let settled = crate::backends::sqlite::connect(path).and_then(|connection| {
        connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))
    });
    match settled {
        Ok(mode) if mode.eq_ignore_ascii_case("delete") => Ok(()),
        Ok(_) => Err(Error::unavailable("the log of a backup could not be put into its file")),
        Err(error) => Err(Error::unavailable("a backup could not be finished").with_source(error)),
    }
}
