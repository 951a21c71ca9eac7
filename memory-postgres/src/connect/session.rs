//! One connection: statements with a deadline, transactions, and what is told when an answer stays away.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{IsolationLevel, Row};

use crate::config::Prepared;
use crate::connect::tls::Tls;
use crate::error::{Effect, engine, gone, late, outcome_unknown};

/// How long a cancelled statement may take to say so, and how long asking for it may take.
const GRACE: Duration = Duration::from_secs(2);

/// Values with their types: what is sent does not depend on what the server would guess.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// What all connections of a provider have in common.
#[derive(Debug)]
pub(crate) struct Manners {
    pub(crate) tls: Tls,
    pub(crate) prepared: Prepared,
    pub(crate) deadline: Duration,
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Connection {
    client: ClientWrapper,
    manners: Arc<Manners>,
    /// Many tasks use it at once: what runs right now may be another's, so nothing is cancelled.
    shared: bool,
    /// Statements under way.
    flights: AtomicUsize,
    /// A statement was given up: what the server does with it is not known, nor what it holds.
    abandoned: AtomicBool,
}

/// Counts a statement while it is under way; dropped before it landed, it was given up.
struct Flight<'a> {
    connection: &'a Connection,
    landed: bool,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.connection.flights.fetch_sub(1, Ordering::Relaxed);
        if !self.landed && !self.connection.shared {
            self.connection.abandoned.store(true, Ordering::Relaxed);
        }
    }
}

impl Connection {
    pub(crate) fn new(client: ClientWrapper, manners: Arc<Manners>, shared: bool) -> Self {
        Self { client, manners, shared, flights: AtomicUsize::new(0), abandoned: AtomicBool::new(false) }
    }

    /// Statements under way.
    pub(crate) fn flights(&self) -> usize {
        self.flights.load(Ordering::Relaxed)
    }

    /// Whether it can be used again by someone else.
    pub(crate) fn is_sound(&self) -> bool {
        !self.client.is_closed()
            && !self.abandoned.load(Ordering::Relaxed)
            && (self.shared || self.flights.load(Ordering::Relaxed) == 0)
    }

    /// The driver's own client, for what this type does not do.
    #[allow(dead_code, reason = "of the facets")]
    pub(crate) fn client(&self) -> &ClientWrapper {
        &self.client
    }

    /// The rows of one statement.
    ///
    /// # Errors
    /// As the server answers; `timeout` where it was cancelled at the deadline; `outcome_unknown` where the statement
    /// commits and the answer was lost.
    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        effect: Effect,
    ) -> Result<Vec<Row>> {
        if self.manners.prepared == Prepared::Off {
            return self.run(effect, self.client.query_typed(sql, parameters)).await;
        }
        let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
        // By itself: where the connection is lost here, nothing was done yet.
        let prepared = self.run(Effect::None, self.client.prepare_typed_cached(sql, &types)).await;
        let answered = match prepared {
            Ok(statement) => {
                let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
                self.run(effect, self.client.query(&statement, &values)).await
            }
            Err(error) => Err(error),
        };
        match answered {
            // Another replica changed the tables, or a pooler has another server behind it: nothing ran yet.
            Err(error) if is_stale(&error) => {
                self.client.statement_cache.clear();
                self.run(effect, self.client.query_typed(sql, parameters)).await
            }
            answered => answered,
        }
    }

    /// The rows of a statement whose text is put together for this call: it is planned for these very values, and not
    /// kept.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub(crate) async fn query_once(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.run(Effect::None, self.client.query_typed(sql, parameters)).await
    }

    /// One row; `internal` where the statement gives none.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    #[allow(dead_code, reason = "of the facets")]
    pub(crate) async fn query_one(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        effect: Effect,
    ) -> Result<Row> {
        let rows = self.query(sql, parameters, effect).await?;
        rows.into_iter()
            .next()
            .ok_or_else(|| Error::internal("PostgreSQL answered without the row that was asked for"))
    }

    /// Statements of ours without parameters, separated by semicolons, in one round trip.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub(crate) async fn batch(&self, sql: &str, effect: Effect) -> Result<()> {
        self.run(effect, self.client.batch_execute(sql)).await
    }

    /// Runs what this connection's client does, up to the deadline. On a connection of one's own the statement is then
    /// cancelled, and what the server says to that is the answer.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub(crate) async fn run<T>(
        &self,
        effect: Effect,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        if self.client.is_closed() {
            return Err(gone());
        }
        self.flights.fetch_add(1, Ordering::Relaxed);
        let mut flight = Flight { connection: self, landed: false };
        let mut work = pin!(work);
        if let Ok(done) = timeout(self.manners.deadline, work.as_mut()).await {
            flight.landed = true;
            return done.map_err(|error| self.translated(&error, effect));
        }
        if self.shared {
            // Another task's next wait should not be for a connection that is silent.
            self.abandoned.store(true, Ordering::Relaxed);
            return Err(late());
        }
        // Where asking fails, the server may still answer.
        let _ = timeout(GRACE, self.client.cancel_token().cancel_query(self.manners.tls.clone())).await;
        match timeout(GRACE, work).await {
            Ok(Err(error)) => {
                flight.landed = true;
                Err(self.translated(&error, effect))
            }
            Ok(Ok(value)) => {
                flight.landed = true;
                match effect {
                    Effect::None => Ok(value),
                    // It is stored, but a cancelled wait for a standby reads as success.
                    Effect::Commits => Err(outcome_unknown()),
                }
            }
            Err(_) => Err(match effect {
                Effect::None => late(),
                Effect::Commits => outcome_unknown(),
            }),
        }
    }

    fn translated(&self, error: &tokio_postgres::Error, effect: Effect) -> Error {
        let error = engine(error, effect);
        // A primary that became a standby keeps its connections.
        if crate::error::state_of(&error) == Some("25006") {
            self.abandoned.store(true, Ordering::Relaxed);
        }
        error
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub(crate) async fn transaction(
        &mut self,
        isolation: IsolationLevel,
        read_only: bool,
    ) -> Result<Transaction<'_>> {
        if self.client.is_closed() {
            return Err(gone());
        }
        let begun = {
            let begin =
                self.client.build_transaction().isolation_level(isolation).read_only(read_only).start();
            timeout(self.manners.deadline, begin).await
        };
        match begun {
            Ok(Ok(inner)) => Ok(Transaction {
                inner,
                deadline: self.manners.deadline,
                manners: Arc::clone(&self.manners),
                abandoned: &self.abandoned,
                failed: AtomicBool::new(false),
            }),
            Ok(Err(error)) => Err(engine(&error, Effect::None)),
            Err(_) => {
                self.abandoned.store(true, Ordering::Relaxed);
                Err(late())
            }
        }
    }
}

/// A transaction; rolled back unless it commits.
pub(crate) struct Transaction<'c> {
    inner: deadpool_postgres::Transaction<'c>,
    manners: Arc<Manners>,
    deadline: Duration,
    abandoned: &'c AtomicBool,
    /// A statement failed: COMMIT would roll back and call it success.
    failed: AtomicBool,
}

impl Transaction<'_> {
    /// Gives its statements this long instead, where the server does too.
    pub(crate) fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// The rows of one statement.
    ///
    /// # Errors
    /// As the server answers; the transaction then cannot commit.
    pub(crate) async fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.run(rows_in(&self.inner, self.manners.prepared, sql, parameters)).await
    }

    /// The rows of a statement whose text is put together for this call: it is planned for these very values, and not
    /// kept.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub(crate) async fn query_once(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.run(self.inner.query_typed(sql, parameters)).await
    }

    /// Statements of ours without parameters, separated by semicolons.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub(crate) async fn batch(&self, sql: &str) -> Result<()> {
        self.run(self.inner.batch_execute(sql)).await
    }

    /// The driver's own transaction, for what this type does not do.
    #[allow(dead_code, reason = "of the facets")]
    pub(crate) fn inner(&self) -> &deadpool_postgres::Transaction<'_> {
        &self.inner
    }

    /// Runs what the driver's transaction does, up to the deadline.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub(crate) async fn run<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let mut work = pin!(work);
        let done = match timeout(self.deadline, work.as_mut()).await {
            Ok(done) => done.map_err(|error| engine(&error, Effect::None)),
            Err(_) => {
                let _ =
                    timeout(GRACE, self.inner.cancel_token().cancel_query(self.manners.tls.clone())).await;
                match timeout(GRACE, work).await {
                    Ok(done) => done.map_err(|error| engine(&error, Effect::None)),
                    Err(_) => {
                        self.abandoned.store(true, Ordering::Relaxed);
                        Err(late())
                    }
                }
            }
        };
        if let Err(error) = &done {
            self.failed.store(true, Ordering::Relaxed);
            if is_stale(error) {
                self.inner.statement_cache.clear();
            }
        }
        done
    }

    /// Makes it permanent.
    ///
    /// # Errors
    /// `outcome_unknown` where the server's answer was lost; `internal` after a statement that failed.
    pub(crate) async fn commit(self) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::internal(
                "a transaction was to commit after one of its statements had failed",
            ));
        }
        match timeout(self.deadline, self.inner.commit()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(engine(&error, Effect::Commits)),
            Err(_) => {
                self.abandoned.store(true, Ordering::Relaxed);
                Err(outcome_unknown())
            }
        }
    }

    /// Undoes it.
    ///
    /// # Errors
    /// None that matters: what cannot be told to roll back is rolled back as the connection ends.
    pub(crate) async fn rollback(self) {
        match timeout(self.deadline, self.inner.rollback()).await {
            Ok(Ok(())) => {}
            _ => self.abandoned.store(true, Ordering::Relaxed),
        }
    }
}

async fn rows_in(
    transaction: &deadpool_postgres::Transaction<'_>,
    prepared: Prepared,
    sql: &str,
    parameters: Parameters<'_>,
) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
    if prepared == Prepared::Off {
        return transaction.query_typed(sql, parameters).await;
    }
    let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
    let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
    let statement = transaction.prepare_typed_cached(sql, &types).await?;
    transaction.query(&statement, &values).await
}

/// `cached plan must not change result type`, and a prepared statement that the session does not know.
fn is_stale(error: &Error) -> bool {
    matches!(crate::error::state_of(error), Some("0A000" | "26000"))
}

/// Whether the same transaction may be tried again from its start.
pub(crate) fn is_transient(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && matches!(crate::error::state_of(error), Some("40001" | "40P01"))
}
