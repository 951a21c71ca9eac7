//! A large scope as a database of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::{Backend as _, Error, ErrorKind, Result, Scope};
use memory_sqlite::{SqliteConfig, SqliteProvider};

use super::super::aside::aside;
use super::file::Folder;
use super::{Occasion, write as text};
use crate::system::SystemClock;

/// Removes a database that was not finished.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a database and what SQLite may have left beside it.
pub(super) fn remove(path: &Path) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        drop(std::fs::remove_file(name));
    }
}

/// Copies a scope into a store that holds nothing else.
pub(super) async fn write(
    backend: &dyn memory_core::Backend,
    scope: &Scope,
    folder: &Folder,
    occasion: &Occasion,
) -> Result<PathBuf> {
    let path = folder.temporary();
    let unfinished = Unfinished(path.clone());
    let provider = open(&path)?;
    let records = backend.export_scope(scope).await?;
    let imported = provider.import_scope(scope, records, Default::default()).await?;
    provider.close().await?;
    drop(provider);
    let (folder, scope, occasion) = (folder.clone(), scope.clone(), *occasion);
    aside(move || {
        let _unfinished = unfinished;
        settle(&path)?;
        text::publish_database(&scope, &folder, &occasion, &path, imported.created)
    })
    .await
}

/// Opens a store that nobody else knows.
pub(super) fn open(path: &Path) -> Result<SqliteProvider> {
    let mut config = SqliteConfig::default();
    (config.readers, config.workers) = (1, 1);
    config.sweep_interval_ms = 0;
    SqliteProvider::open(path, config, Arc::new(SystemClock))
}

/// Puts the whole of it into the one file.
fn settle(path: &Path) -> Result<()> {
    let settled = rusqlite::Connection::open(path).and_then(|connection| {
        connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))
    });
    match settled {
        Ok(mode) if mode.eq_ignore_ascii_case("delete") => Ok(()),
        Ok(_) => {
            Err(Error::new(ErrorKind::Unavailable, "the log of a backup could not be put into its file"))
        }
        Err(error) => {
            Err(Error::new(ErrorKind::Unavailable, "a backup could not be finished").with_source(error))
        }
    }
}
