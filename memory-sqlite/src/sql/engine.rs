//! What the SQL facet of one provider consists of: connections, threads, open transactions, and who looks after them.

use std::fmt;
use std::future::Future;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memory_core::{Clock as _, Error, ErrorKind, Result};
use memory_validator::Stages;

use super::alarms::Alarms;
use super::config::SqlConfig;
use super::descriptors;
use super::files::Files;
use super::pool::{Conn, Opener, Pool};
use super::running::Running;
use super::transactions::{Ended, Guard, Held, Transactions};
use super::verdicts::Verdicts;
use super::workers::Workers;
use crate::config::Durability;
use crate::error::closed;
use crate::sandbox::{EntryPool, Layers, SandboxConfig, SharedFile, heap};
use crate::store::Store;

/// Longest deadline that a call may ask for.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Descriptors of one connection: the file, its log, the log's index.
const DESCRIPTORS: usize = 3;

/// The SQL facet's own state.
pub(crate) struct Engine {
    pub(crate) config: SqlConfig,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: Pool,
    pub(crate) workers: Arc<Workers>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) verdicts: Verdicts,
    pub(crate) transactions: Transactions,
    pub(crate) running: Arc<Running>,
    pub(crate) dumps: AtomicUsize,
    layers: OnceLock<Layers>,
    stages: OnceLock<Stages>,
    closed: AtomicBool,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Engine {
    /// Nothing is made on the disk, and no thread is started, before the first statement.
    pub(crate) fn new(store: &Arc<Store>, database: Option<&Path>) -> Result<Arc<Self>> {
        static PROVIDERS: AtomicU64 = AtomicU64::new(0);
        let config = store.config.sql.clone();
        config.check()?;
        if let Some(bytes) = config.process_heap_bytes
            && !heap::install()
        {
            heap::limit_process(bytes);
        }
        // No two providers share it: of one process by the count, of two at a time by the process's number, of two at
        // different times by the clock.
        let count = PROVIDERS.fetch_add(1, Ordering::Relaxed);
        let nonce = format!("{:x}-{:x}-{count:x}", store.clock.now().as_millis(), std::process::id());
        let durable = store.config.durability == Durability::Full;
        let files = match (&config.root, database) {
            (Some(root), _) => Files::kept(root, durable)?,
            (None, Some(database)) => Files::kept(&beside(database), durable)?,
            (None, None) => Files::temporary(&nonce)?,
        };
        let descriptors = config.max_descriptors.unwrap_or_else(descriptors::budget);
        let sandbox = SandboxConfig {
            cache_kib: config.cache_kib,
            value_bytes: config.value_bytes,
            heap_bytes: config.heap_bytes,
            wal_bytes: config.wal_bytes,
            durability: store.config.durability,
            // Who waits for another process waits on no thread.
            busy_timeout: Duration::ZERO,
        };
        let shared: Vec<SharedFile> = config
            .shared
            .iter()
            .map(|shared| SharedFile { name: shared.name.clone(), path: shared.path.clone() })
            .collect();
        let names = config.shared.iter().map(|shared| shared.name.as_str());
        let verdicts = Verdicts::new(config.verdict_bytes, names);
        let alarms = Arc::new(Alarms::default());
        let idle = Duration::from_millis(config.tx_idle_ms);
        Ok(Arc::new(Self {
            pool: Pool::new(
                files,
                Opener {
                    sandbox,
                    shared,
                    entries: EntryPool::new(Arc::clone(store)),
                    store: Arc::clone(store),
                },
                config.handles.min(descriptors / DESCRIPTORS),
                config.readers_per_scope,
                u64::from(config.checkpoint_pages) * 4_120,
            ),
            workers: Arc::new(Workers::new(config.workers, Arc::clone(&alarms))),
            alarms,
            verdicts,
            transactions: Transactions::new(config.max_transactions, idle, nonce),
            running: Arc::default(),
            dumps: AtomicUsize::new(0),
            layers: OnceLock::new(),
            stages: OnceLock::new(),
            closed: AtomicBool::new(false),
            keeper: Mutex::default(),
            store: Arc::clone(store),
            config,
        }))
    }

    pub(crate) fn layers(&self) -> Layers {
        *self.layers.get_or_init(|| Layers::ALL)
    }

    pub(crate) fn stages(&self) -> Stages {
        *self.stages.get_or_init(|| Stages::ALL)
    }

    #[cfg(feature = "lab")]
    pub(crate) fn set_layers(&self, layers: Layers) {
        let _ = self.layers.set(layers);
    }

    #[cfg(feature = "lab")]
    pub(crate) fn set_stages(&self, stages: Stages) {
        let _ = self.stages.set(stages);
    }

    /// When a call that begins now must have ended.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Instant {
        let default = Duration::from_millis(self.config.statement_timeout_ms);
        Instant::now() + timeout.unwrap_or(default).min(LONGEST)
    }

    /// Starts the thread that rings alarms and ends idle transactions, where it does not run yet.
    ///
    /// # Errors
    /// `unavailable` once closed.
    pub(crate) fn wake(self: &Arc<Self>) -> Result<()> {
        if self.is_closed() {
            return Err(closed());
        }
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if keeper.is_none() {
            let engine = Arc::clone(self);
            let thread = std::thread::Builder::new()
                .name("memory-sqlite-sql-keeper".to_owned())
                .spawn(move || engine.keep())
                .map_err(|error| {
                    Error::new(ErrorKind::Unavailable, "no thread can be started for SQL; try again")
                        .with_source(error)
                })?;
            *keeper = Some(thread);
        }
        Ok(())
    }

    fn keep(&self) {
        loop {
            let now = Instant::now();
            for (transaction, turn) in self.transactions.idle(now) {
                if let Some(held) = self.transactions.end(&transaction, Ended::Idle) {
                    self.roll_back(held);
                }
                drop(turn);
            }
            if !self.alarms.wait(self.transactions.look_again(Instant::now())) {
                return;
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Rolls back what a transaction held, and lets the next writer go on.
    pub(crate) fn roll_back(&self, held: Held) {
        let Held { mut conn, guard } = held;
        match conn.sandbox.rollback() {
            Ok(()) => self.pool.rest(conn),
            Err(error) => {
                tracing::warn!(%error, "a transaction could not be rolled back; its connection is closed instead");
                drop(conn);
            }
        }
        drop(guard);
    }

    /// Lays a connection to rest whose write is done; first moves its log into the file where that has grown long.
    pub(crate) fn wrote(self: &Arc<Self>, conn: Conn, guard: Guard) {
        let state = Arc::clone(&conn.state);
        let tolerated = state.log_tolerated.load(Ordering::Relaxed);
        if state.place.log_bytes() <= tolerated {
            self.pool.rest(conn);
            drop(guard);
            return;
        }
        let engine = Arc::clone(self);
        // Where it cannot be done now it is done after the next write.
        let _ = self.workers.detach(move || {
            let mut conn = conn;
            match conn.sandbox.checkpoint() {
                Ok(true) => state.log_tolerated.store(engine.pool.log_bytes(), Ordering::Relaxed),
                // A reader is in the way: not after every write.
                Ok(false) => {
                    let more = state.place.log_bytes().saturating_add(engine.pool.log_bytes());
                    state.log_tolerated.store(more, Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(%error, "a log could not be moved into its file; it is tried again");
                }
            }
            engine.pool.rest(conn);
            drop(guard);
        });
    }

    /// Ends everything: what runs is told to end, what is open is rolled back, logs are moved into their files.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.running.close();
        self.end_all();
        self.alarms.close();
        self.workers.close();
        // What began while the threads ended.
        self.end_all();
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper
            && keeper.thread().id() != std::thread::current().id()
            && keeper.join().is_err()
        {
            tracing::error!("the thread that looks after SQL panicked");
        }
        for mut conn in self.pool.drain() {
            if conn.is_writer()
                && conn.state.place.log_bytes() > 0
                && let Err(error) = conn.sandbox.checkpoint()
            {
                tracing::warn!(%error, "a log could not be moved into its file; the next to open it does");
            }
        }
    }

    fn end_all(&self) {
        for transaction in self.transactions.matching(|_| true) {
            if let Some(held) = self.transactions.end(&transaction, Ended::RunOver) {
                self.roll_back(held);
            }
        }
    }

    /// Waits for a future until a moment; `None`: that came first.
    pub(crate) async fn until<T>(&self, deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        let mut alarm = pin!(None);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            if alarm.is_none() {
                alarm.set(Some(self.alarms.at(deadline)));
            }
            match alarm.as_mut().as_pin_mut() {
                Some(ringing) => ringing.poll(context).map(|()| None),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Waits a little for another process, longer each time.
    ///
    /// # Errors
    /// `timeout`.
    pub(crate) async fn pause(&self, times: &mut u32, deadline: Instant) -> Result<()> {
        let now = Instant::now();
        if self.is_closed() {
            return Err(closed());
        }
        if now >= deadline {
            return Err(held_elsewhere());
        }
        let pause = Duration::from_millis(1 << (*times).min(5));
        *times += 1;
        self.alarms.at((now + pause).min(deadline)).await;
        Ok(())
    }
}

/// The scope's lock was not to be had in time.
pub(crate) fn held_here() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "another transaction writes to this scope for longer than the deadline; nothing was done, try again when it has ended",
    )
}

fn held_elsewhere() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "another process writes to this scope for longer than the deadline; nothing was done, try again when it has ended",
    )
}

fn beside(database: &Path) -> PathBuf {
    let mut root = database.as_os_str().to_owned();
    root.push(".sql");
    root.into()
}
