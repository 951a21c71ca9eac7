//! Connections to scopes' databases: those in use belong to who uses them, those at rest lie here, the oldest of which
//! are closed where they become too many. Nothing in use is ever closed.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use memory_core::{ErrorKind, Result, Scope, ScopeDigest};
use tokio::sync::Semaphore;

use super::files::{Files, Place, discard};
use crate::batch::Target;
use crate::file::FileId;
use crate::leave;
use crate::sandbox::{EntryPool, EntrySource, Layers, Place as At, Role, Sandbox, SandboxConfig, SharedFile};
use crate::store::Store;
use crate::writer::Cost;

/// Marks the database of a dropped scope: whoever has it open still must let go of it.
pub(crate) const DROPPED: i32 = -1_145_198_416;
/// Marks a database that holds what was committed.
pub(crate) const WRITTEN: i32 = 1;

/// Connections at rest that keep all of their caches.
const WARM: usize = 64;
/// Connections that wait to be closed, at most.
const EVICTED: usize = 4;
/// Bytes of caches that each of the others keeps.
const COLD_BYTES: usize = 40 << 10;

/// What this provider knows of a scope while anybody uses its database.
#[derive(Debug)]
pub(crate) struct ScopeState {
    pub(crate) scope: Scope,
    pub(crate) digest: ScopeDigest,
    pub(crate) place: Place,
    /// Whoever writes holds it, first come first served.
    pub(crate) writing: Arc<tokio::sync::Mutex<()>>,
    /// Whoever reads holds one of it.
    pub(crate) reading: Arc<Semaphore>,
    /// Connections of an earlier one are not to be used again.
    epoch: AtomicU64,
    /// Bytes of log from which it is moved; more where that was in vain.
    pub(crate) log_tolerated: AtomicU64,
}

impl ScopeState {
    /// From now on no connection at rest is used again.
    pub(crate) fn forget_connections(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }
}

/// One connection to a scope's database.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) sandbox: Sandbox,
    pub(crate) state: Arc<ScopeState>,
    role: Role,
    epoch: u64,
    file: Option<FileId>,
    /// The database's mark as it was opened.
    mark: i32,
    /// Whether it has lain at rest.
    rested: bool,
    /// Whether it is closed after use, and not laid to rest.
    passes: bool,
}

impl Conn {
    pub(crate) fn is_writer(&self) -> bool {
        self.role == Role::Writer
    }

    pub(crate) fn file(&self) -> Option<FileId> {
        self.file
    }

    /// It is for somebody who goes through many scopes: they are not worth the places of those that agents use, unless
    /// this one was.
    pub(crate) fn pass(&mut self) {
        self.passes = !self.rested;
    }

    /// Whether no connection of this process has been told to let go of the file.
    fn is_of_this_epoch(&self) -> bool {
        self.epoch == self.state.epoch.load(Ordering::SeqCst)
    }

    /// Whether it leads to what now has the scope's name.
    pub(crate) fn is_current(&self) -> bool {
        if !self.is_of_this_epoch() {
            return false;
        }
        let now = self.state.place.file();
        self.file == now && (now.is_some() || cfg!(not(unix)))
    }
}

type Slot = (ScopeDigest, Role);

/// Connections that rest, in the order in which they came.
#[derive(Debug, Default)]
struct Shelf {
    connections: HashMap<Slot, Vec<(u64, Conn)>>,
    /// Some of these are gone already.
    order: VecDeque<(u64, Slot)>,
    count: usize,
    next: u64,
}

impl Shelf {
    fn take(&mut self, slot: Slot) -> Option<Conn> {
        let of_slot = self.connections.get_mut(&slot)?;
        let (_, conn) = of_slot.pop()?;
        if of_slot.is_empty() {
            self.connections.remove(&slot);
        }
        self.count -= 1;
        Some(conn)
    }

    fn put(&mut self, conn: Conn) {
        let slot = (conn.state.digest, conn.role);
        self.next += 1;
        self.connections.entry(slot).or_default().push((self.next, conn));
        self.order.push_back((self.next, slot));
        self.count += 1;
        // What is gone is left in the order for a while; this keeps it short at a constant price for each.
        if self.order.len() > 2 * self.count + 64 {
            let connections = &self.connections;
            self.order.retain(|(number, slot)| {
                connections.get(slot).is_some_and(|found| found.iter().any(|(at, _)| at == number))
            });
        }
    }

    fn oldest(&mut self) -> Option<Conn> {
        while let Some((number, slot)) = self.order.pop_front() {
            let Some(of_slot) = self.connections.get_mut(&slot) else { continue };
            let Some(at) = of_slot.iter().position(|(found, _)| *found == number) else { continue };
            let (_, conn) = of_slot.remove(at);
            if of_slot.is_empty() {
                self.connections.remove(&slot);
            }
            self.count -= 1;
            return Some(conn);
        }
        None
    }
}

/// The last ones used keep what makes them fast; the others as much of it as is little.
#[derive(Debug, Default)]
struct Resting {
    warm: Shelf,
    cold: Shelf,
}

/// How connections are opened.
#[derive(Debug)]
pub(crate) struct Opener {
    pub(crate) sandbox: SandboxConfig,
    pub(crate) shared: Vec<SharedFile>,
    pub(crate) entries: Arc<EntryPool>,
    /// Whose entries are the other facet: it notes which databases there are.
    pub(crate) store: Arc<Store>,
}

/// The connections at rest, and the scopes in use.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) files: Files,
    opener: Opener,
    capacity: usize,
    readers: usize,
    log_bytes: u64,
    resting: Mutex<Resting>,
    /// Those that became too many, until somebody has the time to close them.
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
            evicted: Mutex::default(),
            scopes: Mutex::new((HashMap::new(), 256)),
        }
    }

    /// What all who use the scope at this time share.
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

    pub(crate) fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// A connection that may write; the database is made where there is none.
    pub(crate) fn writer(&self, state: &Arc<ScopeState>, layers: Layers, deadline: Instant) -> Result<Conn> {
        if let Some(conn) = self.rested(state, Role::Writer) {
            return Ok(conn);
        }
        self.files.make_root()?;
        loop {
            if !state.place.is_made()? {
                let changing = self.files.changing(deadline)?;
                // Whoever ends the run or finishes an eviction looks for files under the same lock.
                if !state.place.is_made()? {
                    let target = Target::of(&state.scope);
                    let writer = &self.opener.store.writer;
                    writer.submit_blocking(Cost::entry(0), move |batch| {
                        leave::found_database(batch, &target)
                    })?;
                }
                changing.make(&state.scope, &state.place)?;
                // SQLite makes the database of it before anybody else may open it.
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
            if conn.mark == DROPPED {
                // Whoever dropped it did not come to remove it.
                self.remove(conn, deadline)?;
                continue;
            }
            return Ok(conn);
        }
    }

    /// As [`Pool::writer`], where there is a database; none is made.
    pub(crate) fn existing(
        &self,
        state: &Arc<ScopeState>,
        layers: Layers,
        deadline: Instant,
    ) -> Result<Option<Conn>> {
        if let Some(conn) = self.rested(state, Role::Writer) {
            return Ok(Some(conn));
        }
        let opening = self.files.opening(deadline)?;
        if !state.place.is_made()? {
            return Ok(None);
        }
        let conn = self.open(state, Role::Writer, layers)?;
        drop(opening);
        if conn.mark == DROPPED {
            self.remove(conn, deadline)?;
            return Ok(None);
        }
        Ok(Some(conn))
    }

    /// Takes away a folder in which no database was made.
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

    /// A connection that reads; `None` where there is no database.
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
        Ok((conn.mark != DROPPED).then_some(conn))
    }

    /// A connection to a database without tables.
    pub(crate) fn empty(&self, state: &Arc<ScopeState>, layers: Layers) -> Result<Sandbox> {
        let opener = &self.opener;
        Sandbox::open(At::Empty, Role::Reader, &opener.sandbox, &opener.shared, self.entries(state), layers)
    }

    /// A connection that reads and rests.
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
                return Some(Conn { rested: true, ..conn });
            }
        }
    }

    fn open(&self, state: &Arc<ScopeState>, role: Role, layers: Layers) -> Result<Conn> {
        let epoch = state.epoch.load(Ordering::SeqCst);
        let file = state.place.file();
        let (opener, entries) = (&self.opener, self.entries(state));
        let at = At::File(state.place.database());
        let sandbox = Sandbox::open(at, role, &opener.sandbox, &opener.shared, entries, layers)?;
        // Opens the log, whose name must still be this file's.
        let mark = sandbox.mark()?;
        Ok(Conn { sandbox, state: Arc::clone(state), role, epoch, file, mark, rested: false, passes: false })
    }

    fn entries(&self, state: &ScopeState) -> Option<Arc<dyn EntrySource>> {
        Some(self.opener.entries.scope(state.digest))
    }

    /// Lays a connection to rest. Nothing may be open on it.
    pub(crate) fn rest(&self, mut conn: Conn) {
        if conn.sandbox.in_transaction() {
            // It would keep the lock; closing it rolls back.
            tracing::error!(
                "a connection was laid to rest in a transaction, which is a bug; please report it"
            );
            return;
        }
        // Whether it still leads to the scope's file is asked when it is used again.
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
        if !cooled.sandbox.relax(COLD_BYTES) {
            // A schema as large as that is better read again.
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

    /// Closes what became too much; whoever laid a connection to rest calls it when its caller has its answer.
    pub(crate) fn close_evicted(&self) {
        let evicted = std::mem::take(&mut *self.evicted.lock().unwrap_or_else(PoisonError::into_inner));
        drop(evicted);
    }

    /// Closes the connections to a scope that rest.
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

    /// Every connection that rests.
    pub(crate) fn drain(&self) -> Vec<Conn> {
        self.close_evicted();
        let mut resting = self.lock();
        std::iter::from_fn(|| resting.cold.oldest().or_else(|| resting.warm.oldest())).collect()
    }

    /// How many rest.
    #[cfg(feature = "lab")]
    pub(crate) fn resting(&self) -> usize {
        let resting = self.lock();
        resting.warm.count + resting.cold.count
    }

    /// Takes away the files of a database that is marked as dropped.
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

    /// As [`Pool::remove`], for a database that cannot be marked since the disk is full. The connection holds the lock for
    /// writing; whoever gets it next sees that the file has lost its name.
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

    /// As [`Pool::remove`], for a database that cannot be opened since the disk is too full for the index of its log.
    /// While nobody has it open nobody can open it; where it can be opened by now, the connection is handed out.
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

/// Whether an error says that another process is in the way at this moment.
pub(crate) fn is_busy(error: &memory_core::Error) -> bool {
    error.kind() == ErrorKind::Unavailable
        && std::error::Error::source(error)
            .and_then(|source| source.downcast_ref::<rusqlite::Error>())
            .is_some_and(crate::error::is_busy)
}

/// Whether an error says that the disk takes nothing more.
pub(crate) fn is_out_of_room(error: &memory_core::Error) -> bool {
    use rusqlite::ErrorCode::{DiskFull, SystemIoFailure};
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<rusqlite::Error>())
        .and_then(crate::error::code)
        .is_some_and(|code| matches!(code, DiskFull | SystemIoFailure))
}
