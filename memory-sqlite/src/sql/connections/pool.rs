//! Opening, keeping and removing connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use memory_core::{Result, Scope, ScopeDigest};
use tokio::sync::Semaphore;

use super::connection::{Conn, DROPPED, ScopeState, is_out_of_room};
use super::resting::Resting;
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::commit::writer::Cost;
use crate::error::read_only;
use crate::file::location::Still;
use crate::file::open::unread_log;
use crate::lifecycle::eviction;
use crate::sandbox::{EntryPool, EntrySource, Layers, Place as At, Role, Sandbox, SandboxConfig, SharedFile};
use crate::sql::files::{Files, discard};

/// Idle connections that keep all of their caches.
const WARM: usize = 64;
/// Most connections waiting to be closed.
const EVICTED: usize = 4;
/// Bytes of cache that every other idle connection keeps.
const COLD_BYTES: usize = 40 << 10;

/// How connections are opened.
#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) sandbox: SandboxConfig,
    pub(crate) shared: Vec<SharedFile>,
    pub(crate) entries: Arc<EntryPool>,
    /// The key/value store of the same scopes, which records databases to remove.
    pub(crate) store: Arc<Store>,
}

/// Idle connections, and the scopes in use.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) files: Files,
    opener: Opener,
    capacity: usize,
    readers: usize,
    log_bytes: u64,
    resting: Mutex<Resting>,
    reused: AtomicU64,
    opened: AtomicU64,
    /// Connections beyond the capacity, until somebody closes them.
    evicted: Mutex<Vec<Conn>>,
    scopes: Mutex<(HashMap<ScopeDigest, Weak<ScopeState>>, usize)>,
}

impl Pool {
    pub(crate) fn new(files: Files, opener: Opener, capacity: usize, readers: usize, log_bytes: u64) -> Self {
        Self {
            files,
            opener,
            capacity,
            readers,
            log_bytes,
            resting: Mutex::default(),
            reused: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            evicted: Mutex::default(),
            scopes: Mutex::new((HashMap::new(), 256)),
        }
    }

    /// The state shared by all current users of the scope.
    pub(crate) fn scope(&self, scope: &Scope) -> Arc<ScopeState> {
        let digest = scope.digest();
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, limit) = &mut *scopes;
        if let Some(state) = known.get(&digest).and_then(Weak::upgrade) {
            return state;
        }
        if known.len() >= *limit {
            known.retain(|_, state| state.strong_count() > 0);
            *limit = (2 * known.len()).max(256);
        }
        let state = Arc::new(ScopeState {
            scope: scope.clone(),
            digest,
            place: self.files.place(scope, &digest),
            writing: Arc::default(),
            reading: Arc::new(Semaphore::new(self.readers)),
            epoch: AtomicU64::new(0),
            log_tolerated: AtomicU64::new(self.log_bytes),
        });
        known.insert(digest, Arc::downgrade(&state));
        state
    }

    /// How often a connection was taken that was idle, and how often one was opened.
    pub(crate) fn uses(&self) -> (u64, u64) {
        (self.reused.load(Ordering::Relaxed), self.opened.load(Ordering::Relaxed))
    }

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// A connection that may write. Creates the database if there is none.
    pub(crate) fn writer(&self, state: &Arc<ScopeState>, layers: Layers, deadline: Instant) -> Result<Conn> {
        if let Some(conn) = self.rested(state, Role::Writer) {
            return Ok(conn);
        }
        self.check_writable()?;
        self.files.make_root()?;
        loop {
            if !state.place.is_made()? {
                let changing = self.files.changing(deadline)?;
                // Ending a run and finishing an eviction look for files under the same lock.
                if !state.place.is_made()? {
                    let target = Target::of(&state.scope);
                    let writer = &self.opener.store.writer;
                    writer.submit_blocking(Cost::entry(0), move |batch| {
                        eviction::before_database(batch, &target)
                    })?;
                }
                changing.make(&state.scope, &state.place)?;
                // SQLite must initialise the file before anything else opens it.
                let conn = self.open(state, Role::Writer, layers)?;
                drop(changing);
                return Ok(conn);
            }
            let opening = self.files.opening(deadline)?;
            if !state.place.is_made()? {
                continue;
            }
            let conn = self.open(state, Role::Writer, layers)?;
            drop(opening);
            if conn.version == DROPPED {
                // It was dropped, but its files were not removed.
                self.remove(conn, deadline)?;
                continue;
            }
            return Ok(conn);
        }
    }

    /// Like [`Pool::writer`], but creates no database; `None` if there is none.
    pub(crate) fn existing(
        &self,
        state: &Arc<ScopeState>,
        layers: Layers,
        deadline: Instant,
    ) -> Result<Option<Conn>> {
        if let Some(conn) = self.rested(state, Role::Writer) {
            return Ok(Some(conn));
        }
        self.check_writable()?;
        let opening = self.files.opening(deadline)?;
        if !state.place.is_made()? {
            return Ok(None);
        }
        let conn = self.open(state, Role::Writer, layers)?;
        drop(opening);
        if conn.version == DROPPED {
            self.remove(conn, deadline)?;
            return Ok(None);
        }
        Ok(Some(conn))
    }

    /// Removes a folder that holds no database.
    pub(crate) fn remove_unmade(&self, state: &ScopeState, deadline: Instant) -> Result<()> {
        let changing = self.files.changing(deadline)?;
        if state.place.is_made()? {
            return Ok(());
        }
        let trash = changing.take(&state.place, state.place.file())?;
        drop(changing);
        if let Some(trash) = trash {
            discard(&trash);
        }
        Ok(())
    }

    /// A connection for reading; `None` if there is no database.
    pub(crate) fn reader(
        &self,
        state: &Arc<ScopeState>,
        layers: Layers,
        deadline: Instant,
    ) -> Result<Option<Conn>> {
        if let Some(conn) = self.rested(state, Role::Reader) {
            return Ok(Some(conn));
        }
        let opening = self.files.opening(deadline)?;
        if !state.place.is_made()? {
            return Ok(None);
        }
        let conn = self.open(state, Role::Reader, layers)?;
        drop(opening);
        Ok((conn.version != DROPPED).then_some(conn))
    }

    /// A connection to a database without tables.
    pub(crate) fn empty(&self, state: &Arc<ScopeState>, layers: Layers) -> Result<Sandbox> {
        let opener = &self.opener;
        Sandbox::open(At::Empty, Role::Reader, &opener.sandbox, &opener.shared, self.entries(state), layers)
    }

    /// An idle connection that reads.
    pub(crate) fn rested_reader(&self, state: &Arc<ScopeState>) -> Option<Conn> {
        self.rested(state, Role::Reader)
    }

    fn rested(&self, state: &Arc<ScopeState>, role: Role) -> Option<Conn> {
        loop {
            let slot = (state.digest, role);
            let mut resting = self.lock();
            let conn = resting.warm.take(slot).or_else(|| resting.cold.take(slot))?;
            drop(resting);
            if conn.is_current() {
                self.reused.fetch_add(1, Ordering::Relaxed);
                return Some(Conn { rested: true, ..conn });
            }
        }
    }

    fn open(&self, state: &Arc<ScopeState>, role: Role, layers: Layers) -> Result<Conn> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let epoch = state.epoch.load(Ordering::SeqCst);
        let file = state.place.file();
        let (opener, entries) = (&self.opener, self.entries(state));
        let path = state.place.database();
        let still = if self.opener.store.is_read_only() { Some(Still::of(path)?) } else { None };
        let at = still.map_or(At::File(path), |still| At::ReadOnly(path, still));
        let opened =
            Sandbox::open(at, role, &opener.sandbox, &opener.shared, entries, layers).and_then(|sandbox| {
                // This opens the log, which must still belong to this file.
                let version = sandbox.user_version()?;
                Ok((sandbox, version))
            });
        let (sandbox, version) = match still {
            Some(still) => opened.map_err(|error| unread_log(still, error))?,
            None => opened?,
        };
        Ok(Conn {
            sandbox,
            state: Arc::clone(state),
            role,
            epoch,
            file,
            still,
            version,
            rested: false,
            // A connection that takes no locks sees no later changes.
            passes: still.is_some(),
        })
    }

    fn check_writable(&self) -> Result<()> {
        if self.opener.store.is_read_only() { Err(read_only()) } else { Ok(()) }
    }

    fn entries(&self, state: &ScopeState) -> Option<Arc<dyn EntrySource>> {
        Some(self.opener.entries.scope(state.digest))
    }

    /// Returns a connection to the pool. No transaction may be open on it.
    pub(crate) fn rest(&self, mut conn: Conn) {
        if conn.sandbox.in_transaction() {
            // It would keep the lock; closing it rolls back.
            tracing::error!(
                "a connection with an open transaction was returned to the pool; this is a bug, please report it"
            );
            return;
        }
        // Whether it still refers to the scope's file is checked on its next use.
        if !conn.is_of_this_epoch() || self.capacity == 0 || conn.passes {
            return;
        }
        conn.sandbox.set_quota(None);
        let mut resting = self.lock();
        resting.warm.put(conn);
        let cooled = if resting.warm.count > WARM.min(self.capacity) { resting.warm.oldest() } else { None };
        drop(resting);
        let Some(mut cooled) = cooled else { return };
        if self.capacity <= WARM {
            return;
        }
        if !cooled.sandbox.trim_caches(COLD_BYTES) {
            // Rereading such a large schema is cheaper than keeping it.
            return;
        }
        let mut resting = self.lock();
        resting.cold.put(cooled);
        let closed = if resting.warm.count + resting.cold.count > self.capacity {
            resting.cold.oldest()
        } else {
            None
        };
        drop(resting);
        let Some(closed) = closed else { return };
        let mut evicted = self.evicted.lock().unwrap_or_else(PoisonError::into_inner);
        evicted.push(closed);
        let many = evicted.len() >= EVICTED;
        drop(evicted);
        if many {
            self.close_evicted();
        }
    }

    /// Closes the connections beyond the capacity. Called after the statement's caller has its answer.
    pub(crate) fn close_evicted(&self) {
        let evicted = std::mem::take(&mut *self.evicted.lock().unwrap_or_else(PoisonError::into_inner));
        drop(evicted);
    }

    /// Closes the idle connections to a scope.
    pub(crate) fn close_scope(&self, digest: ScopeDigest) {
        self.close_evicted();
        let mut closed = Vec::new();
        let mut resting = self.lock();
        for role in [Role::Writer, Role::Reader] {
            let slot = (digest, role);
            while let Some(conn) = resting.warm.take(slot).or_else(|| resting.cold.take(slot)) {
                closed.push(conn);
            }
        }
        drop(resting);
        drop(closed);
    }

    /// Takes every idle connection.
    pub(crate) fn drain(&self) -> Vec<Conn> {
        self.close_evicted();
        let mut resting = self.lock();
        std::iter::from_fn(|| resting.cold.oldest().or_else(|| resting.warm.oldest())).collect()
    }

    /// Number of idle connections.
    pub(crate) fn resting(&self) -> usize {
        let resting = self.lock();
        resting.warm.count + resting.cold.count
    }

    /// Removes the files of a database that is marked as dropped.
    pub(crate) fn remove(&self, conn: Conn, deadline: Instant) -> Result<()> {
        let (state, file) = (Arc::clone(&conn.state), conn.file());
        drop(conn);
        state.forget_connections();
        self.close_scope(state.digest);
        let trash = self.files.changing(deadline)?.take(&state.place, file)?;
        if let Some(trash) = trash {
            discard(&trash);
        }
        Ok(())
    }

    /// Like [`Pool::remove`], for a database that cannot be marked because the disk is full. The connection holds the
    /// write lock; the next writer sees that the file has lost its name.
    pub(crate) fn remove_unmarked(&self, conn: Conn, deadline: Instant) -> Result<()> {
        let state = Arc::clone(&conn.state);
        state.forget_connections();
        self.close_scope(state.digest);
        let trash = self.files.changing(deadline)?.take(&state.place, conn.file())?;
        drop(conn);
        if let Some(trash) = trash {
            discard(&trash);
        }
        Ok(())
    }

    /// As [`Pool::remove`], for a database that cannot be opened because the disk is too full for the index of its log.
    /// If it can be opened by now, returns the connection instead.
    pub(crate) fn remove_unopened(
        &self,
        state: &Arc<ScopeState>,
        layers: Layers,
        deadline: Instant,
    ) -> Result<Option<Conn>> {
        let changing = self.files.changing(deadline)?;
        match self.open(state, Role::Writer, layers) {
            Err(error) if is_out_of_room(&error) => {}
            opened => return opened.map(Some),
        }
        state.forget_connections();
        self.close_scope(state.digest);
        let trash = changing.take(&state.place, state.place.file())?;
        drop(changing);
        if let Some(trash) = trash {
            discard(&trash);
        }
        Ok(None)
    }

    /// As [`Pool::remove`], for a file that cannot be opened as a database.
    pub(crate) fn remove_damaged(&self, state: &ScopeState, deadline: Instant) -> Result<()> {
        state.forget_connections();
        self.close_scope(state.digest);
        let trash = self.files.changing(deadline)?.take(&state.place, state.place.file())?;
        if let Some(trash) = trash {
            discard(&trash);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Resting> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
