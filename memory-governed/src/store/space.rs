//! A shared space: whose tables these are, and what its stages have in common.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use memory_core::host::{HostTables, Session};
use memory_core::{Clock, IdGen, Provider, Result, Scope, TenantId, Timestamp};

use super::schema;

/// How patient a space is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How long a pipeline may take for one note before another takes over. Default: a minute.
    pub lease: Duration,
    /// The first pause before trying again; each one is twice as long as the one before. Default: a second.
    pub backoff: Duration,
    /// The longest pause. Default: an hour.
    pub max_backoff: Duration,
    /// How often a projection or a deferred write is tried. Default 8.
    pub max_attempts: u32,
    /// How long a deferred write waits before a person must look. Default: 14 days.
    pub pending_ttl: Duration,
    /// Most deferred writes tried after one commit. Default 16.
    pub replay_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(3_600),
            max_attempts: 8,
            pending_ttl: Duration::from_secs(14 * 24 * 3_600),
            replay_limit: 16,
        }
    }
}

struct Inner {
    tables: HostTables,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
    options: Options,
    /// Until when the interpreter wants to be left alone.
    rests_until: AtomicI64,
}

/// A shared space of a tenant: its tables, which only the stages of this crate reach. Cheap to clone.
#[derive(Clone)]
pub struct Space(Arc<Inner>);

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("scope", self.0.tables.scope()).finish_non_exhaustive()
    }
}

impl Space {
    /// Opens a space, and creates its tables if they are missing.
    ///
    /// # Errors
    /// `capability_unsupported` for a provider without [`host_tables`](memory_core::Capabilities::host_tables);
    /// `invalid_argument` for a malformed name; the store's errors.
    pub async fn open(
        provider: Arc<dyn Provider>,
        tenant: &TenantId,
        name: &str,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
        options: Options,
    ) -> Result<Self> {
        let tables = HostTables::new(provider, tenant, name)?;
        schema::create(&tables).await?;
        Ok(Self(Arc::new(Inner { tables, clock, ids, options, rests_until: AtomicI64::new(0) })))
    }

    /// Whether a space exists; does not create it.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn is_made(provider: Arc<dyn Provider>, tenant: &TenantId, name: &str) -> Result<bool> {
        HostTables::new(provider, tenant, name)?.has("events_memory").await
    }

    /// The scope whose database holds the tables.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        self.0.tables.scope()
    }

    /// Stops reading notes for this long.
    pub(crate) fn rest(&self, asked: Duration) {
        self.0.rests_until.store(self.after(asked).as_millis(), Ordering::Relaxed);
    }

    /// How much longer notes must not be read, if at all.
    pub(crate) fn rests(&self) -> Option<Duration> {
        let until = Timestamp::from_millis_clamped(self.0.rests_until.load(Ordering::Relaxed));
        Some(until.saturating_since(self.now())).filter(|left| !left.is_zero())
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// A fresh id: 32 hexadecimal digits.
    pub(crate) fn fresh(&self) -> String {
        format!("{:032x}", self.0.ids.fresh())
    }

    /// When to retry after this many attempts: twice as long each time, with jitter.
    pub(crate) fn next_attempt(&self, attempts: u32) -> Timestamp {
        let options = self.options();
        let pause = options.backoff.saturating_mul(1 << attempts.min(20)).min(options.max_backoff);
        let millis = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let jitter = u64::try_from(self.0.ids.fresh() % u128::from(millis / 4 + 1)).unwrap_or_default();
        self.after(Duration::from_millis(millis.saturating_add(jitter)))
    }

    /// The time after this duration.
    pub(crate) fn after(&self, duration: Duration) -> Timestamp {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis_clamped(self.now().as_millis().saturating_add(millis))
    }

    pub(crate) fn plain(&self) -> Session<'_> {
        self.0.tables.plain()
    }

    pub(crate) async fn begin(&self) -> Result<Session<'_>> {
        self.0.tables.begin().await
    }
}
