//! Finds a host that serves, and another one when it no longer does.
//!
//! The driver also tries several hosts, but always starting with the first, with one password for all of them and no
//! limit for a host that accepts a connection and then says nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::config::Host;

use crate::connect::address::Address;
use crate::connect::password::Login;
use crate::connect::tls::Tls;
use crate::error::{Effect, engine};

/// The pause after the first round; it doubles with each, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The hosts of an address.
#[derive(Debug)]
pub(crate) struct Hosts {
    address: Address,
    pub(crate) tls: Tls,
    attempt: Duration,
    /// The host that served last is tried first.
    last: AtomicUsize,
}

impl Hosts {
    /// Fails with `invalid_argument` if a TLS file cannot be used.
    pub(crate) fn new(address: Address, attempt: Duration) -> Result<Arc<Self>> {
        let tls = Tls::new(&address.tls)?;
        Ok(Arc::new(Self { address, tls, attempt, last: AtomicUsize::new(0) }))
    }

    /// Tries each host once, starting with the one that served last. If all fail, returns the most informative error:
    /// anything but `unavailable` comes first.
    pub(crate) async fn connect(&self) -> Result<ClientWrapper> {
        let count = self.address.hosts.len();
        let first = if self.address.spread {
            // A different host for each connection.
            self.last.fetch_add(1, Ordering::Relaxed)
        } else {
            self.last.load(Ordering::Relaxed)
        };
        let mut refusal: Option<Error> = None;
        for step in 0..count {
            let host = first.wrapping_add(step) % count.max(1);
            match timeout(self.attempt, self.connect_to(host)).await {
                Ok(Ok(client)) => {
                    if !self.address.spread {
                        self.last.store(host, Ordering::Relaxed);
                    }
                    return Ok(client);
                }
                Ok(Err(error)) => {
                    if refusal.as_ref().is_none_or(|kept| kept.kind() == ErrorKind::Unavailable) {
                        refusal = Some(error);
                    }
                }
                Err(_) => {
                    refusal.get_or_insert_with(|| {
                        Error::unavailable(
                            "the PostgreSQL server did not answer in time while connecting; try again",
                        )
                    });
                }
            }
        }
        let refusal = refusal.unwrap_or_else(|| Error::internal("an address without hosts"));
        Err(if count > 1 && refusal.kind() == ErrorKind::Unavailable {
            Error::unavailable(
                format!(
                    "none of the {count} PostgreSQL hosts takes writes; try again once there is a primary (one of them: {})",
                    refusal.message()
                ),
            )
            .with_retry(refusal.retry())
            .with_source(refusal)
        } else {
            refusal
        })
    }

    /// Tries the hosts repeatedly, with growing pauses, for up to `patience`.
    /// Fails as [`connect`](Self::connect); an error that is not retryable is returned immediately.
    pub(crate) async fn connect_within(&self, patience: Duration) -> Result<ClientWrapper> {
        let deadline = Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.connect().await {
                Ok(client) => return Ok(client),
                Err(error) => error,
            };
            if !error.retry().is_retryable() || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tracing::debug!(%error, "no connection to PostgreSQL yet");
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    async fn connect_to(&self, host: usize) -> Result<ClientWrapper> {
        let mut config = self.address.driver(host);
        if let Some(password) = self.address.password.resolve(&self.login(host))? {
            config.password(password);
        }
        let (client, connection) =
            config.connect(self.tls.clone()).await.map_err(|error| engine(&error, Effect::None))?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                let error = engine(&error, Effect::None);
                tracing::debug!(?error, "a connection to PostgreSQL ended");
            }
        });
        Ok(ClientWrapper::new(client, task))
    }

    fn login(&self, host: usize) -> Login<'_> {
        let base = self.address.base();
        let user = base.get_user().unwrap_or_default();
        let (host, port) = match self.address.hosts.get(host) {
            Some((Some(Host::Tcp(name)), _, port)) => (name.as_str(), *port),
            // Like libpq: a socket counts as `localhost`.
            Some((_, _, port)) => ("localhost", *port),
            None => ("localhost", 5432),
        };
        Login { host, port, database: base.get_dbname().unwrap_or(user), user }
    }
}
