//! The SQL facet of one provider: its connections, threads and open transactions, and the keeper thread.

use std::fmt;
use std::future::Future;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use memory_core::{Clock as _, Error, ErrorKind, Figure, Result, Scope, ScopeKind};
use memory_sql::{Ended, Engine as _, Interrupt, WriteLock};
use memory_validator::{Mode, Stages, StatementKind};

use super::connections::{Conn, Opener, Pool, descriptors};
use super::files::Files;
use super::threads::in_flight::InFlight;
use super::threads::timers::Timers;
use super::threads::workers::Workers;
use super::verdicts::{Judged, Verdicts};
use crate::commit::store::Store;
use crate::config::{Durability, SqlConfig};
use crate::error::closed;
use crate::sandbox::{Cancel, EntryPool, Layers, Sandbox, SandboxConfig, SharedFile, heap};

/// Longest deadline of a call.
const LONGEST: Duration = Duration::from_secs(3_600);
/// Descriptors of one connection: the file, its log, the log's index.
const DESCRIPTORS: usize = 3;
/// Connections that one thread closes alone, and threads that help it with more.
const CLOSED_ALONE: usize = 16;
const CLOSERS: usize = 7;

/// The state of the SQL facet.
pub(crate) struct Engine {
    pub(crate) config: SqlConfig,
    /// Whether agents' statements run: the memory that they take is bounded.
    pub(crate) is_served: bool,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: Pool,
    pub(crate) workers: Arc<Workers>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) verdicts: Verdicts,
    pub(crate) transactions: Transactions,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) dumps: AtomicUsize,
    layers: OnceLock<Layers>,
    stages: OnceLock<Stages>,
    closed: AtomicBool,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// What an open transaction keeps between two calls.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) conn: Conn,
    pub(crate) guard: WriteLock,
}

pub(crate) type Transaction = memory_sql::Transaction<Held, Cancel>;
type Transactions = memory_sql::Transactions<Held, Cancel>;

impl Interrupt for Cancel {
    fn interrupt(&self) {
        self.cancel();
    }
}

impl memory_sql::Engine for Engine {
    type Held = Held;
    type Interrupt = Cancel;

    fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    fn roll_back(this: &Arc<Self>, held: Held) {
        this.undo(held);
    }

    async fn until<F>(&self, deadline: Instant, future: F) -> Option<F::Output>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let mut future = pin!(future);
        let mut timer = pin!(None);
        poll_fn(|context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            if timer.is_none() {
                timer.set(Some(self.timers.at(deadline)));
            }
            match timer.as_mut().as_pin_mut() {
                Some(ringing) => ringing.poll(context).map(|()| None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates nothing on disk and starts no thread before the first statement.
    pub(crate) fn new(store: &Arc<Store>, database: Option<&Path>) -> Result<Arc<Self>> {
        static PROVIDERS: AtomicU64 = AtomicU64::new(0);
        let config = store.config.sql.clone();
        config.check()?;
        let is_served = match config.process_heap_bytes {
            _ if heap::install() => true,
            Some(bytes) => {
                heap::limit_process(bytes);
                true
            }
            None => false,
        };
        // Unique: the count distinguishes providers of one process, the process id concurrent processes, and the clock
        // successive ones.
        let count = PROVIDERS.fetch_add(1, Ordering::Relaxed);
        let nonce = format!("{:x}-{:x}-{count:x}", store.clock.now().as_millis(), std::process::id());
        let durable = store.config.durability == Durability::Full;
        let files = match (&config.root, database) {
            (Some(root), _) => Files::kept(root, durable)?,
            (None, Some(database)) => Files::kept(&SqlConfig::folder_beside(database), durable)?,
            (None, None) => Files::temporary(&nonce)?,
        };
        if !is_served {
            tracing::warn!("no SQL for agents: {}", heap::TOO_LATE);
            // A snapshot, for one, would silently leave them out.
            if !files.tenants()?.is_empty() {
                let message = format!("this store holds SQL databases of agents, but {}", heap::TOO_LATE);
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        }
        let descriptors = config.max_descriptors.unwrap_or_else(descriptors::budget);
        let sandbox = SandboxConfig {
            cache_kib: config.cache_kib,
            value_bytes: config.value_bytes,
            heap_bytes: config.heap_bytes,
            wal_bytes: config.wal_bytes,
            durability: store.config.durability,
            // A statement waiting for another process must not block a thread.
            busy_timeout: Duration::ZERO,
        };
        let shared: Vec<SharedFile> = config
            .shared
            .iter()
            .map(|shared| SharedFile { name: shared.name.clone(), path: shared.path.clone() })
            .collect();
        let names = config.shared.iter().map(|shared| shared.name.as_str());
        let verdicts = Verdicts::new(config.verdict_bytes, names);
        let timers = Arc::new(Timers::default());
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
            workers: Arc::new(Workers::new(config.workers, Arc::clone(&timers))),
            timers,
            verdicts,
            transactions: Transactions::new(config.max_transactions, idle, nonce),
            in_flight: Arc::default(),
            dumps: AtomicUsize::new(0),
            layers: OnceLock::new(),
            stages: OnceLock::new(),
            closed: AtomicBool::new(false),
            keeper: Mutex::default(),
            store: Arc::clone(store),
            is_served,
            config,
        }))
    }

    /// The layers between a scope's statements and its database.
    pub(crate) fn layers(&self, scope: &Scope) -> Layers {
        let layers = *self.layers.get_or_init(|| Layers::ALL);
        if scope.kind == ScopeKind::Host { Layers { authorizer: false, ..layers } } else { layers }
    }

    pub(crate) fn stages(&self) -> Stages {
        *self.stages.get_or_init(|| Stages::ALL)
    }

    /// Checks a statement of this scope; one of the host's own is not checked.
    /// Fails as [`Verdicts::judge`].
    pub(crate) fn verdict(&self, scope: &Scope, sql: &str, mode: Mode) -> Result<Judged> {
        match scope.kind {
            ScopeKind::Host => Ok(Judged { kind: StatementKind::of_own(sql) }),
            _ => self.verdicts.judge(sql, mode, self.stages()),
        }
    }

    /// As [`Engine::verdict`], on the connection that runs it: see [`Verdicts::judge_on`].
    pub(crate) fn verdict_on(
        &self,
        scope: &Scope,
        sandbox: &Sandbox,
        sql: &str,
        mode: Mode,
    ) -> Result<Judged> {
        match scope.kind {
            ScopeKind::Host => self.verdict(scope, sql, mode),
            _ => self.verdicts.judge_on(sandbox, sql, mode, self.stages()),
        }
    }

    pub(crate) fn figures(&self) -> [Figure; 7] {
        let ((reused, opened), (hits, misses)) = (self.pool.uses(), self.verdicts.uses());
        [
            Figure::gauge(
                "sqlite_sql_waiting",
                "SQL statements that wait for a thread.",
                self.workers.waiting(),
            ),
            Figure::gauge(
                "sqlite_sql_connections_idle",
                "Idle connections to scopes' databases.",
                self.pool.resting(),
            ),
            Figure::counter(
                "sqlite_sql_connection_hits_total",
                "Uses of a scope's database by an idle connection.",
                reused,
            ),
            Figure::counter(
                "sqlite_sql_connection_misses_total",
                "Connections opened to scopes' databases.",
                opened,
            ),
            Figure::gauge("sqlite_sql_transactions", "Open SQL transactions.", self.transactions.open()),
            Figure::counter("sqlite_sql_verdict_hits_total", "SQL texts whose verdict was known.", hits),
            Figure::counter(
                "sqlite_sql_verdict_misses_total",
                "SQL texts whose verdict was not known.",
                misses,
            ),
        ]
    }

    #[cfg(feature = "lab")]
    pub(crate) fn set_layers(&self, layers: Layers) {
        let _ = self.layers.set(layers);
    }

    #[cfg(feature = "lab")]
    pub(crate) fn set_stages(&self, stages: Stages) {
        let _ = self.stages.set(stages);
    }

    /// The deadline of a call that starts now.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Instant {
        let default = Duration::from_millis(self.config.statement_timeout_ms);
        Instant::now() + timeout.unwrap_or(default).min(LONGEST)
    }

    /// Starts the keeper thread, which fires timers and ends idle transactions, unless it is running.
    /// Fails with `unavailable` once closed.
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
                    Error::unavailable("no thread can be started for SQL; try again").with_source(error)
                })?;
            *keeper = Some(thread);
        }
        Ok(())
    }

    fn keep(self: &Arc<Self>) {
        loop {
            self.end_idle();
            let interval = self.transactions.idle_check_interval();
            let next_check = (!self.transactions.is_empty()).then(|| Instant::now() + interval);
            if !self.timers.wait(next_check) {
                return;
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Rolls back a transaction and releases the scope's write lock.
    pub(crate) fn undo(&self, held: Held) {
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

    /// Returns a connection to the pool after a write. If its write-ahead log has grown long, it is checkpointed first.
    pub(crate) fn wrote(self: &Arc<Self>, conn: Conn, guard: WriteLock) {
        let state = Arc::clone(&conn.state);
        let tolerated = state.log_tolerated.load(Ordering::Relaxed);
        if state.place.log_bytes() <= tolerated {
            self.pool.rest(conn);
            drop(guard);
            return;
        }
        let engine = Arc::clone(self);
        // If this fails, the next write tries again.
        let _ = self.workers.detach(move || {
            let mut conn = conn;
            match conn.sandbox.checkpoint() {
                Ok(true) => state.log_tolerated.store(engine.pool.log_bytes(), Ordering::Relaxed),
                // A reader blocks the checkpoint, or the disk is full. Do not try again after every write.
                done => {
                    let more = state.place.log_bytes().saturating_add(engine.pool.log_bytes());
                    state.log_tolerated.store(more, Ordering::Relaxed);
                    if let Err(error) = done {
                        tracing::warn!(%error, "a checkpoint failed and will be tried again");
                    }
                }
            }
            engine.pool.rest(conn);
            drop(guard);
        });
    }

    /// Removes databases that are not to outlive the provider, as far as no statement is in the way.
    pub(crate) fn discard_temporary(&self) {
        let _ = self.pool.files.discard_temporary();
    }

    /// Cancels statements, rolls back open transactions, and checkpoints the logs.
    pub(crate) fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.in_flight.close();
        self.end_all();
        self.timers.close();
        self.workers.close();
        // Transactions that began while the threads were ending.
        self.end_all();
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(keeper) = keeper
            && keeper.thread().id() != std::thread::current().id()
            && keeper.join().is_err()
        {
            tracing::error!("the SQL keeper thread panicked");
        }
        self.close_connections();
    }

    /// Checkpoints and closes the idle connections. Each checkpoint waits for the disk, so several threads share them.
    fn close_connections(&self) {
        let left = Mutex::new(self.pool.drain());
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let close = || {
            while let Some(mut conn) = next() {
                if conn.is_writer()
                    && conn.state.place.log_bytes() > 0
                    && let Err(error) = conn.sandbox.checkpoint()
                {
                    tracing::warn!(%error, "a checkpoint failed; opening the database again will do it");
                }
            }
        };
        let helpers = left.lock().unwrap_or_else(PoisonError::into_inner).len() / CLOSED_ALONE;
        std::thread::scope(|threads| {
            for _ in 0..helpers.min(CLOSERS) {
                let helper = std::thread::Builder::new().name("memory-sqlite-sql-close".to_owned());
                // Without it, this thread closes more.
                let _ = helper.spawn_scoped(threads, close);
            }
            close();
        });
    }

    fn end_all(&self) {
        for transaction in self.transactions.matching(|_| true) {
            if let Some(held) = self.transactions.end(&transaction, Ended::RunOver) {
                self.undo(held);
            }
        }
    }

    /// Backs off while another process holds the lock; each pause is longer than the last.
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
        self.timers.at((now + pause).min(deadline)).await;
        Ok(())
    }
}

fn held_elsewhere() -> Error {
    Error::timeout(
        "another process held this scope's write lock until the deadline; nothing was done, try again later",
    )
}
