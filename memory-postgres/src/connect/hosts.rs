//! Finding the host that serves, and finding another when it does not any more.

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

/// The first pause between two rounds; each doubles, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The hosts of an address.
#[derive(Debug)]
pub(crate) struct Hosts {
    address: Address,
    pub(crate) tls: Tls,
    attempt: Duration,
    /// The one that served last is asked first.
    last: AtomicUsize,
}

impl Hosts {
    /// # Errors
    /// `invalid_argument` where a file of TLS cannot be used.
    pub(crate) fn new(address: Address, attempt: Duration) -> Result<Arc<Self>> {
        let tls = Tls::new(&address.tls)?;
        Ok(Arc::new(Self { address, tls, attempt, last: AtomicUsize::new(0) }))
    }

    /// The same hosts for another database user.
    #[allow(dead_code, reason = "of the SQL facet")]
    pub(crate) fn for_user(&self, user: &str, password: &[u8]) -> Self {
        Self {
            address: self.address.for_user(user, password),
            tls: self.tls.clone(),
            attempt: self.attempt,
            last: AtomicUsize::new(self.last.load(Ordering::Relaxed)),
        }
    }

    /// Asks each host once, beginning with the one that served last.
    ///
    /// # Errors
    /// The most telling of the hosts' refusals.
    pub(crate) async fn connect(&self) -> Result<ClientWrapper> {
        let count = self.address.hosts.len();
        let first = if self.address.spread {
            // Another host for each connection.
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
                        Error::new(
                            ErrorKind::Unavailable,
                            "the PostgreSQL server did not answer in time while connecting; try again",
                        )
                    });
                }
            }
        }
        let refusal = refusal.unwrap_or_else(|| Error::internal("an address without hosts"));
        Err(if count > 1 && refusal.kind() == ErrorKind::Unavailable {
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "none of the {count} PostgreSQL hosts takes writes: there is no primary now; try again (one of them: {})",
                    refusal.message()
                ),
            )
            .with_retry(refusal.retry())
            .with_source(refusal)
        } else {
            refusal
        })
    }

    /// Asks the hosts again and again, with growing pauses, for as long as `patience` lasts.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); one that no waiting cures is returned at once.
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
            // As libpq: a socket's folder reads as the local host.
            Some((_, _, port)) => ("localhost", *port),
            None => ("localhost", 5432),
        };
        Login { host, port, database: base.get_dbname().unwrap_or(user), user }
    }
}
