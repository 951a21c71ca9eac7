//! Sessions: one budget for all scopes, with idle ones in order of use. A session in use belongs to its user and is
//! never closed.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use memory_core::{Error, Result, Scope};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::error::closed;
use crate::sql::protocol::Session;
use crate::store::hex::Hex;

/// What this process knows about a scope.
#[derive(Debug)]
pub(crate) struct ScopeState {
    pub(crate) scope: Scope,
    pub(crate) hex: Hex,
    /// The generation of its database, if known.
    generation: Mutex<Option<i64>>,
    /// The generation of the database in which something is known to be committed.
    written: AtomicI64,
    /// The generation of the database that is known to have been created before its run ended.
    admitted: AtomicI64,
    /// Its last counted size.
    counted: Mutex<Option<Counted>>,
    /// Held while its schema and role are created.
    pub(crate) making: tokio::sync::Mutex<()>,
    /// Writers of this process wait here; those of other processes wait on the server.
    pub(crate) writer: Arc<tokio::sync::Mutex<()>>,
    /// Limits concurrent statements.
    running: Arc<Semaphore>,
}

/// Bytes of a scope's database, as counted by a statement.
#[derive(Clone, Copy, Debug)]
struct Counted {
    generation: i64,
    bytes: u64,
    at: Instant,
    /// Statements since then that did not count.
    since: u32,
}

/// How far below its quota a database must be for a statement to skip counting: twice the possible excess over a quota.
const FAR: u64 = 128 << 20;
/// For how long counting may be skipped, and for how many statements of this process.
const COUNTED_FOR: Duration = Duration::from_secs(1);
const COUNTED_TIMES: u32 = 16;

impl ScopeState {
    /// Whether the next writing statement may skip counting, because that was done just now and the quota is far.
    /// Statements that write much are still watched.
    pub(crate) fn is_far_from(&self, quota: u64) -> bool {
        let generation = self.generation();
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        match counted.as_mut() {
            Some(one)
                if Some(one.generation) == generation
                    && one.bytes.saturating_add(FAR) <= quota
                    && one.since < COUNTED_TIMES
                    && one.at.elapsed() < COUNTED_FOR =>
            {
                one.since += 1;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn note_bytes(&self, generation: i64, bytes: u64) {
        let counted = Counted { generation, bytes, at: Instant::now(), since: 0 };
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
    }

    pub(crate) fn generation(&self) -> Option<i64> {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_generation(&self, generation: Option<i64>) {
        *self.generation.lock().unwrap_or_else(PoisonError::into_inner) = generation;
    }

    /// Whether something is known to be committed in the current database.
    pub(crate) fn is_written(&self) -> bool {
        self.generation().is_some_and(|generation| generation == self.written.load(Ordering::Acquire))
    }

    pub(crate) fn note_written(&self, generation: i64) {
        self.written.store(generation, Ordering::Release);
    }

    pub(crate) fn is_admitted(&self, generation: i64) -> bool {
        generation == self.admitted.load(Ordering::Acquire)
    }

    pub(crate) fn note_admitted(&self, generation: i64) {
        self.admitted.store(generation, Ordering::Release);
    }

    /// Forgets the generation if it is still this one.
    pub(crate) fn forget(&self, generation: i64) {
        let mut known = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == Some(generation) {
            *known = None;
        }
    }
}

/// A session in use, with its permits.
#[derive(Debug)]
pub(crate) struct Leased {
    pub(crate) state: Arc<ScopeState>,
    pub(crate) session: Session,
    /// It was opened for this use.
    pub(crate) is_fresh: bool,
    budget: OwnedSemaphorePermit,
    _turn: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Resting {
    state: Arc<ScopeState>,
    session: Session,
    budget: OwnedSemaphorePermit,
}

/// A permit to open a session, or an idle session.
pub(crate) enum Place {
    Resting(Box<Leased>),
    Empty { budget: OwnedSemaphorePermit, turn: OwnedSemaphorePermit },
}

/// Every session of a provider.
#[derive(Debug)]
pub(crate) struct Pool {
    scopes: Mutex<HashMap<Hex, Weak<ScopeState>>>,
    /// Least recently used first. Also keeps the states of recently used scopes.
    resting: Mutex<VecDeque<Resting>>,
    recent: Mutex<VecDeque<Arc<ScopeState>>>,
    budget: Arc<Semaphore>,
    freed: Notify,
    reused: AtomicU64,
    opened: AtomicU64,
    per_scope: usize,
    closed: AtomicBool,
}

/// States of scopes cached without a session.
const CACHED_STATES: usize = 4_096;

impl Pool {
    pub(crate) fn new(budget: usize, per_scope: usize) -> Self {
        Self {
            scopes: Mutex::default(),
            resting: Mutex::default(),
            recent: Mutex::default(),
            budget: Arc::new(Semaphore::new(budget)),
            freed: Notify::new(),
            reused: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            per_scope,
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn scope(&self, scope: &Scope) -> Arc<ScopeState> {
        let hex = Hex::of(scope);
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = scopes.get(&hex).and_then(Weak::upgrade) {
            return state;
        }
        if scopes.len() > 4 * CACHED_STATES {
            scopes.retain(|_, state| state.strong_count() > 0);
        }
        let state = Arc::new(ScopeState {
            scope: scope.clone(),
            hex: hex.clone(),
            generation: Mutex::default(),
            written: AtomicI64::new(0),
            admitted: AtomicI64::new(0),
            counted: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            writer: Arc::default(),
            running: Arc::new(Semaphore::new(self.per_scope)),
        });
        scopes.insert(hex, Arc::downgrade(&state));
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= CACHED_STATES {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(&state));
        state
    }

    /// How many sessions are unused.
    pub(crate) fn idle(&self) -> usize {
        self.resting().len()
    }

    /// How often an idle session was taken, and how often there was none.
    pub(crate) fn uses(&self) -> (u64, u64) {
        (self.reused.load(Ordering::Relaxed), self.opened.load(Ordering::Relaxed))
    }

    fn resting(&self) -> MutexGuard<'_, VecDeque<Resting>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle session of the scope, or a permit for a new one, for which the least recently used of another scope may
    /// be closed.
    /// Fails with `timeout`; `unavailable` once closed.
    pub(crate) async fn place(&self, state: &Arc<ScopeState>, deadline: Instant) -> Result<Place> {
        let turn = timeout_at(deadline, Arc::clone(&state.running).acquire_owned())
            .await
            .map_err(|_| {
                Error::timeout(
                    "too many statements of this scope ran until the deadline; try again when some have ended",
                )
            })?
            .map_err(|_| closed())?;
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(closed());
            }
            let freed = self.freed.notified();
            {
                let mut resting = self.resting();
                while let Some(at) = resting.iter().rposition(|one| Arc::ptr_eq(&one.state, state)) {
                    let Some(one) = resting.remove(at) else { break };
                    // It belongs to a database dropped since.
                    if Some(one.session.generation) == state.generation() {
                        let Resting { state, session, budget } = one;
                        self.reused.fetch_add(1, Ordering::Relaxed);
                        return Ok(Place::Resting(Box::new(Leased {
                            state,
                            session,
                            is_fresh: false,
                            budget,
                            _turn: turn,
                        })));
                    }
                }
                if let Ok(budget) = Arc::clone(&self.budget).try_acquire_owned() {
                    self.opened.fetch_add(1, Ordering::Relaxed);
                    return Ok(Place::Empty { budget, turn });
                }
                if let Some(oldest) = resting.pop_front() {
                    let Resting { session, budget, .. } = oldest;
                    terminate(session);
                    self.opened.fetch_add(1, Ordering::Relaxed);
                    return Ok(Place::Empty { budget, turn });
                }
            }
            if timeout_at(deadline, freed).await.is_err() {
                return Err(Error::timeout(
                    "every connection for SQL was in use until the deadline; try again, or raise `connections`",
                ));
            }
        }
    }

    /// A session that was opened with a permit.
    pub(crate) fn lease(
        state: &Arc<ScopeState>,
        session: Session,
        budget: OwnedSemaphorePermit,
        turn: OwnedSemaphorePermit,
    ) -> Leased {
        Leased { state: Arc::clone(state), session, is_fresh: true, budget, _turn: turn }
    }

    /// Returns a session to the pool.
    pub(crate) fn rest(&self, leased: Leased) {
        let Leased { state, session, budget, .. } = leased;
        if self.closed.load(Ordering::Acquire) || state.generation() != Some(session.generation) {
            terminate(session);
            drop(budget);
        } else {
            self.resting().push_back(Resting { state, session, budget });
        }
        self.freed.notify_waiters();
    }

    /// Releases the permits of a session that is no longer usable.
    pub(crate) fn retire(&self, leased: Leased) {
        drop(leased);
        self.freed.notify_waiters();
    }

    /// Releases permits for which no session could be opened.
    pub(crate) fn give_up(&self, budget: OwnedSemaphorePermit, turn: OwnedSemaphorePermit) {
        drop((budget, turn));
        self.freed.notify_waiters();
    }

    /// Closes the scope's idle sessions.
    pub(crate) fn clear(&self, state: &Arc<ScopeState>) {
        let gone: VecDeque<Resting> = {
            let mut resting = self.resting();
            let (gone, kept) = resting.drain(..).partition(|one| Arc::ptr_eq(&one.state, state));
            *resting = kept;
            gone
        };
        gone.into_iter().for_each(|one| terminate(one.session));
        self.freed.notify_waiters();
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.resting().clear();
        self.freed.notify_waiters();
    }

    /// Number of idle sessions.
    #[cfg(feature = "lab")]
    pub(crate) fn count_resting(&self) -> usize {
        self.resting().len()
    }
}

/// Makes the server end a session without a log message; nobody waits for it.
fn terminate(mut session: Session) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move {
            session.terminate();
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), session.flush()).await;
        });
    }
}
