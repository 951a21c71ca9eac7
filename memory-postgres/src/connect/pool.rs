//! The pool of exclusive connections, and connections shared by short reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult};
use memory_core::{Error, Result};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::config::{PostgresConfig, Prepared};
use crate::connect::address::Address;
use crate::connect::hosts::Hosts;
use crate::connect::session::{Connection, SessionSettings};
use crate::error::{closed, no_connection, only_one_left};

/// An exclusive connection; it returns to the pool when dropped.
pub(crate) type Owned = Object<Manager>;

/// A connection shared with others, for single short read-only statements.
pub(crate) type Shared = Arc<Connection>;

/// All connections of a provider.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) hosts: Arc<Hosts>,
    pool: Pool<Manager>,
    /// One permit less than the pool has connections.
    long: Semaphore,
    readers: Vec<Reader>,
    settings: Arc<SessionSettings>,
    wait: Duration,
    closed: AtomicBool,
}

/// A slot for a shared connection. Its lock is held while connecting, so that only one task connects.
#[derive(Debug, Default)]
struct Reader {
    current: std::sync::RwLock<Option<Shared>>,
    making: Mutex<()>,
}

impl Reader {
    fn sound(&self) -> Option<Shared> {
        let current = self.current.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        current.as_ref().filter(|connection| connection.is_sound()).cloned()
    }

    fn put(&self, connection: Option<Shared>) {
        *self.current.write().unwrap_or_else(std::sync::PoisonError::into_inner) = connection;
    }
}

impl Connections {
    /// Opens no connection yet. The configuration must have been checked.
    /// Fails with `invalid_argument` for a URL that cannot be parsed, or a TLS file that cannot be used.
    pub(crate) fn new(config: &PostgresConfig) -> Result<Self> {
        let mut address = config.address()?;
        apply_defaults(&mut address, config);
        let hosts = Hosts::new(address, Duration::from_millis(config.connect_timeout_ms))?;
        let settings = Arc::new(SessionSettings {
            tls: hosts.tls.clone(),
            prepared: config.prepared,
            deadline: config.statement_timeout() + Duration::from_millis(500),
        });
        let wait = config.wait_timeout();
        let manager = Manager { hosts: Arc::clone(&hosts), settings: Arc::clone(&settings), wait };
        let pool = Pool::builder(manager)
            .max_size(config.pool_size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(wait))
            .build()
            .map_err(|error| Error::internal("the pool of connections cannot be built").with_source(error))?;
        let long = Semaphore::new(config.pool_size.saturating_sub(1));
        let readers = (0..config.readers).map(|_| Reader::default()).collect();
        Ok(Self { hosts, pool, long, readers, settings, wait, closed: AtomicBool::new(false) })
    }

    /// A connection shared with others, for single short read-only statements. Many tasks use it at once.
    /// Fails with `unavailable`, `unauthenticated`, `not_found` if no connection can be opened.
    pub(crate) async fn read(&self) -> Result<Shared> {
        self.check_open()?;
        let (busy, reader) = self.least_busy();
        let Some(reader) = reader else { return busy.ok_or_else(closed) };
        let making = timeout(self.wait + Duration::from_secs(1), async {
            let _one = reader.making.lock().await;
            if let Some(connection) = reader.sound() {
                return Ok(connection);
            }
            let client = self.hosts.connect_within(self.wait).await?;
            let connection = Arc::new(Connection::new(client, Arc::clone(&self.settings), true));
            reader.put(Some(Arc::clone(&connection)));
            // Closed in the meantime; nothing else would end it.
            if self.closed.load(Ordering::SeqCst) {
                reader.put(None);
            }
            Ok(connection)
        });
        // Another connection would have been better, but the busy ones work too.
        making.await.unwrap_or_else(|_| Err(no_connection())).or_else(|error| busy.ok_or(error))
    }

    /// The first idle shared connection, so that consecutive tasks use the same one; otherwise the least busy one, and
    /// the first slot without a connection.
    fn least_busy(&self) -> (Option<Shared>, Option<&Reader>) {
        let (mut least, mut empty) = (None::<(usize, Shared)>, None);
        for reader in &self.readers {
            let Some(connection) = reader.sound() else {
                empty = empty.or(Some(reader));
                continue;
            };
            let in_flight = connection.in_flight();
            if in_flight == 0 {
                return (Some(connection), None);
            }
            if least.as_ref().is_none_or(|(fewest, _)| in_flight < *fewest) {
                least = Some((in_flight, connection));
            }
        }
        (least.map(|(_, connection)| connection), empty)
    }

    /// An exclusive connection: for writes, transactions, and long reads.
    /// Fails as [`read`](Self::read); `unavailable` if all are in use for the whole wait.
    pub(crate) async fn take(&self) -> Result<Owned> {
        self.check_open()?;
        match self.pool.get().await {
            Ok(connection) => Ok(connection),
            Err(PoolError::Backend(error)) => Err(error),
            Err(PoolError::Closed) => Err(closed()),
            Err(_) => Err(no_connection()),
        }
    }

    /// An exclusive connection for as long as the caller likes, and a permit to keep with it. The pool's last one is
    /// left to other calls, including those that the caller makes meanwhile. Fails as [`take`](Self::take) does;
    /// `unavailable` if no other one would be left.
    pub(crate) async fn take_for_long(&self) -> Result<(Owned, SemaphorePermit<'_>)> {
        let permit = self.long.try_acquire().map_err(|_| only_one_left())?;
        Ok((self.take().await?, permit))
    }

    /// How many are open, idle, and waited for.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let status = self.pool.status();
        (status.size, status.available, status.waiting)
    }

    /// Ends idle connections; those in use end when they are returned.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.pool.close();
        for reader in &self.readers {
            reader.put(None);
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) { Err(closed()) } else { Ok(()) }
    }
}

/// What this process is called among the server's sessions.
fn own_name() -> String {
    let id = std::process::id();
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").unwrap_or_default();
    format!("memory {id} on {host}")
}

/// Sets server and network parameters that every session needs, unless the URL sets them.
fn apply_defaults(address: &mut Address, config: &PostgresConfig) {
    let keepalive = Duration::from_millis(config.keepalive_ms);
    let base = address.base_mut();
    if base.get_application_name().is_none() {
        base.application_name(own_name());
    }
    if base.get_connect_timeout().is_none() {
        base.connect_timeout(Duration::from_millis(config.connect_timeout_ms));
    }
    if base.get_keepalives_interval().is_none() {
        base.keepalives_idle(keepalive);
        base.keepalives_interval(keepalive / 3);
        base.keepalives_retries(3);
    }
    if base.get_tcp_user_timeout().is_none() {
        // The peer's kernel must acknowledge data within this time, or the peer is gone.
        base.tcp_user_timeout(keepalive * 2);
    }
    // A pooler in transaction mode passes sessions around and refuses options.
    if config.prepared == Prepared::On {
        let mut options = base.get_options().unwrap_or_default().to_owned();
        let idle = config.statement_timeout_ms.saturating_mul(2).max(60_000);
        for (name, value) in [
            ("statement_timeout", config.statement_timeout_ms.to_string()),
            ("idle_in_transaction_session_timeout", idle.to_string()),
            // Every statement has an index. A plan made while a table was small would otherwise scan it when it has grown, until
            // the server has analysed the table.
            ("enable_seqscan", "off".to_owned()),
            ("standard_conforming_strings", "on".to_owned()),
            // A forbidden plan without an alternative counts as expensive, and would be compiled.
            ("jit", "off".to_owned()),
        ] {
            if !options.contains(name) {
                options.push_str(&format!(" -c {name}={value}"));
            }
        }
        base.options(options.trim_start());
    }
}

/// Opens the pool's connections.
#[derive(Debug)]
pub(crate) struct Manager {
    hosts: Arc<Hosts>,
    settings: Arc<SessionSettings>,
    wait: Duration,
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection> {
        let client = self.hosts.connect_within(self.wait).await?;
        Ok(Connection::new(client, Arc::clone(&self.settings), false))
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        if connection.is_sound() { Ok(()) } else { Err(RecycleError::message("the connection ended")) }
    }
}
