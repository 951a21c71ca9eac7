//! Watches how much running statements write, and ends those that exceed their quota.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::sql::admin::administrator::Admin;
use crate::sql::protocol::exchange::{Cancel, Why};

/// How often to check.
const PERIOD: Duration = Duration::from_millis(20);
/// How far a statement may exceed the quota, or the initial size, before it is ended, in bytes. What it writes until
/// then comes on top.
const TOLERANCE: u64 = 16 << 20;

#[derive(Debug)]
struct Watched {
    /// The server's process, once known.
    pid: Arc<AtomicI32>,
    quota: u64,
    begun: Instant,
    /// The size when first checked.
    first: Option<u64>,
    cancel: Arc<Cancel>,
}

/// Running statements with a quota.
#[derive(Debug)]
pub(crate) struct Watch {
    admin: Arc<Admin>,
    watched: Mutex<HashMap<u64, Watched>>,
    count: AtomicU64,
    begun: tokio::sync::Notify,
    looks: AtomicBool,
}

/// Stops watching a statement when dropped.
pub(crate) struct Watching {
    watch: Arc<Watch>,
    number: u64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watch.lock().remove(&self.number);
    }
}

impl Watch {
    pub(crate) fn new(admin: Arc<Admin>) -> Arc<Self> {
        Arc::new(Self {
            admin,
            watched: Mutex::default(),
            count: AtomicU64::new(0),
            begun: tokio::sync::Notify::new(),
            looks: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches what a server process writes, until the returned guard is dropped.
    pub(crate) fn over(self: &Arc<Self>, pid: &Arc<AtomicI32>, quota: u64, cancel: &Arc<Cancel>) -> Watching {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let watched = Watched {
            pid: Arc::clone(pid),
            quota,
            begun: Instant::now(),
            first: None,
            cancel: Arc::clone(cancel),
        };
        self.lock().insert(number, watched);
        if !self.looks.swap(true, Ordering::AcqRel) {
            tokio::spawn(look(Arc::downgrade(self)));
        }
        self.begun.notify_one();
        Watching { watch: Arc::clone(self), number }
    }

    /// Checks once.
    async fn round(&self) {
        // A statement that ends within a period cannot write much.
        let lasts = |one: &&Watched| one.begun.elapsed() >= PERIOD;
        let processes: Vec<i32> = self
            .lock()
            .values()
            .filter(lasts)
            .map(|one| one.pid.load(Ordering::Acquire))
            .filter(|pid| *pid > 0)
            .collect();
        if processes.is_empty() {
            return;
        }
        let grown = self
            .admin
            .look("SELECT process, bytes FROM mem_sql.growth($1)", &[(&processes, Type::INT4_ARRAY)])
            .await;
        let grown = match grown {
            Ok(grown) => grown,
            Err(error) => {
                tracing::debug!(%error, "the sizes of scopes could not be checked");
                return;
            }
        };
        let mut watched = self.lock();
        for row in grown {
            let (pid, bytes): (i32, i64) = (row.get(0), row.get(1));
            let bytes = u64::try_from(bytes).unwrap_or_default();
            for one in watched.values_mut().filter(|one| one.pid.load(Ordering::Acquire) == pid) {
                let first = *one.first.get_or_insert(bytes);
                if bytes > one.quota.max(first).saturating_add(TOLERANCE) {
                    one.cancel.call(Why::QuotaExceeded);
                }
            }
        }
    }
}

async fn look(watch: std::sync::Weak<Watch>) {
    loop {
        {
            let Some(watch) = watch.upgrade() else { return };
            // Most statements end before the first check.
            let begun = watch.begun.notified();
            if watch.lock().is_empty() && tokio::time::timeout(Duration::from_secs(1), begun).await.is_err() {
                continue;
            }
        }
        tokio::time::sleep(PERIOD).await;
        let Some(watch) = watch.upgrade() else { return };
        watch.round().await;
    }
}
