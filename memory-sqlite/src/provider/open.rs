//! Opening and closing.

use std::path::Path;
use std::sync::Arc;

use memory_core::{Clock, Embedder, Error, ErrorKind, Result};
use rusqlite::ErrorCode;

use super::closing::Closing;
use crate::commit::store::Store;
use crate::commit::threads::{on_own_thread, wait_for};
use crate::config::SqliteConfig;
use crate::file::location;
use crate::lifecycle::eviction;
use crate::lifecycle::upkeep::Upkeep;
#[cfg(not(feature = "sql"))]
use crate::no_sql::Engine;
use crate::search::Caches;
#[cfg(feature = "sql")]
use crate::sql::Engine;
use crate::vector::embed::Timed;

/// Memory in one SQLite file, which several processes may share, or only in memory.
///
/// Every acknowledged write is stored, whatever happens next. Access counts are buffered and written on closing:
/// [`close`](memory_core::Provider::close) waits for that; dropping leaves it to a separate thread, for which the end
/// of a program can wait with [`wait_until_closed`](crate::wait_until_closed).
#[derive(Debug)]
pub struct SqliteProvider {
    pub(crate) store: Arc<Store>,
    pub(crate) caches: Caches,
    pub(crate) upkeep: Arc<Upkeep>,
    pub(crate) embedder: Option<Arc<dyn Embedder>>,
    pub(crate) sql: Arc<Engine>,
    pub(super) closing: Arc<Closing>,
}

impl SqliteProvider {
    /// Opens the database at this path, or creates it: the file with mode 0600, missing folders with 0700.
    ///
    /// Blocks for a few milliseconds; if another process holds the file, for up to the busy timeout.
    ///
    /// # Errors
    /// `corrupt` for a file that is not a SQLite database, belongs to another program or a newer version, or is
    /// damaged; it is not touched. `invalid_argument` for a symbolic link, a folder, or a configuration out of range.
    /// `read_only` or `unavailable`, depending on the file system.
    pub fn open(path: impl AsRef<Path>, config: SqliteConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::start(Some(path.as_ref()), false, config, clock)
    }

    /// Opens the database at this path for reading. Like [`open`](Self::open), except that a missing file is not
    /// created. If this process may not write the file or its folder, it is read as it is: every write is `read_only`,
    /// accesses are not counted, and nothing is created next to the file. If it has no log, it is read without locks:
    /// writes by others are not seen, and a read is `unavailable` if the file changes meanwhile. A log is read if its
    /// index exists, that is, while a program that may write has the file open.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); `not_found` for a missing file; `read_only` for a file in an older format, or
    /// with a log that cannot be read.
    pub fn open_to_read(path: impl AsRef<Path>, config: SqliteConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        let path = path.as_ref();
        if location::judge(path)?.is_some() {
            match Self::start(Some(path), false, config.clone(), Arc::clone(&clock)) {
                Err(error) if is_unwritable(&error) => {}
                opened => return opened,
            }
        }
        Self::start(Some(path), true, config, clock)
    }

    /// Opens an empty database in memory that ends with the provider.
    ///
    /// # Errors
    /// `invalid_argument` for a configuration out of range.
    pub fn open_in_memory(config: SqliteConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        Self::start(None, false, config, clock)
    }

    fn start(path: Option<&Path>, reads: bool, config: SqliteConfig, clock: Arc<dyn Clock>) -> Result<Self> {
        config.check()?;
        crate::prepare_process();
        let caches = Caches::new(&config);
        let (texts, vectors) = (Arc::clone(&caches.indexes), Arc::clone(&caches.matrices));
        let (store, mut checkpointer) = Store::open(path, reads, config, clock, texts, vectors)?;
        let upkeep = Arc::new(Upkeep::new(Arc::clone(&store), Arc::clone(&caches.indexes)));
        let background = Arc::clone(&upkeep);
        let sql = store
            .spawn("background", move |_| background.run(checkpointer.as_mut()))
            .and_then(|()| Engine::new(&store, store.database()));
        match sql {
            Ok(sql) => {
                let closing = Closing::new(&sql, &upkeep);
                let provider = Self { store, caches, upkeep, embedder: None, sql, closing };
                provider.finish_what_was_left();
                Ok(provider)
            }
            Err(error) => {
                upkeep.close();
                Err(error)
            }
        }
    }

    /// Completes an eviction or end of a run during which a process died. In no case is half of it visible.
    fn finish_what_was_left(&self) {
        if self.store.is_read_only() {
            return;
        }
        let found = self.store.readers.inline(eviction::intents);
        if matches!(found, Some(Ok(scopes)) if !scopes.is_empty())
            && let Err(error) = wait_for(self.sql.complete_all())
        {
            tracing::warn!(%error, "what an eviction or the end of a run left is finished later");
        }
    }

    /// Embeds what is written from now on, and enables vector search. Call it right after opening.
    ///
    /// Without an embedder, the provider advertises no vectors; those in the file stay with their entries, are removed
    /// with them, and are exported and imported.
    #[must_use]
    pub fn with_embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(Arc::new(Timed::new(embedder, &self.store)));
        self
    }

    /// Reclaims the space of expired entries and dropped scopes. Nothing readable changes. Returns how many expired
    /// entries there were.
    ///
    /// # Errors
    /// `unavailable`; what was reclaimed before stays reclaimed.
    pub async fn sweep(&self) -> Result<u64> {
        self.blocking(Upkeep::sweep).await
    }

    /// Writes the access counts held in memory.
    ///
    /// # Errors
    /// `unavailable`; the counts stay in memory.
    pub async fn flush(&self) -> Result<()> {
        self.blocking(Upkeep::flush).await
    }

    /// Runs blocking work on a separate thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Upkeep) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let upkeep = Arc::clone(&self.upkeep);
        on_own_thread(move || {
            let done = work(&upkeep);
            // The caller may drop the provider once it has its answer; then the files must close.
            drop(upkeep);
            done
        })
        .await
    }
}

/// Whether opening failed because the file or its folder may not be written.
fn is_unwritable(error: &Error) -> bool {
    let code = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<rusqlite::Error>())
        .and_then(rusqlite::Error::sqlite_error_code);
    error.kind() == ErrorKind::ReadOnly
        || matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly))
}

impl Drop for SqliteProvider {
    fn drop(&mut self) {
        self.closing.hand_over();
    }
}
