//! One connection: statements with a deadline, transactions, and the error when no answer comes.

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

/// How long a cancelled statement may take to end, and how long the cancel request may take.
const GRACE: Duration = Duration::from_secs(2);

/// Parameters with their types, so that the server need not infer them.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// Settings shared by all connections of a provider.
#[derive(Debug)]
pub(crate) struct SessionSettings {
    pub(crate) tls: Tls,
    pub(crate) prepared: Prepared,
    pub(crate) deadline: Duration,
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Connection {
    client: ClientWrapper,
    settings: Arc<SessionSettings>,
    /// Many tasks use it at once. The running statement may be another task's, so nothing is cancelled.
    shared: bool,
    /// Statements in progress.
    in_flight: AtomicUsize,
    /// A statement was abandoned: nobody knows what the server does with it, or which locks it holds.
    abandoned: AtomicBool,
}

/// Counts a statement while it runs. If dropped before it finishes, the statement was abandoned.
struct InFlight<'a> {
    connection: &'a Connection,
    finished: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.connection.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.finished && !self.connection.shared {
            self.connection.abandoned.store(true, Ordering::Relaxed);
        }
    }
}

impl Connection {
    pub(crate) fn new(client: ClientWrapper, settings: Arc<SessionSettings>, shared: bool) -> Self {
        Self { client, settings, shared, in_flight: AtomicUsize::new(0), abandoned: AtomicBool::new(false) }
    }

    /// Statements in progress.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether the connection can be used again.
    pub(crate) fn is_sound(&self) -> bool {
        !self.client.is_closed()
            && !self.abandoned.load(Ordering::Relaxed)
            && (self.shared || self.in_flight.load(Ordering::Relaxed) == 0)
    }

    /// The rows of one statement. Fails with the server's error; `timeout` if it was cancelled at the deadline;
    /// `outcome_unknown` if the statement commits and the answer was lost.
    pub(crate) async fn query(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        effect: Effect,
    ) -> Result<Vec<Row>> {
        if self.settings.prepared == Prepared::Off {
            return self.run(effect, self.client.query_typed(sql, parameters)).await;
        }
        let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
        // A separate step: if the connection is lost here, nothing was done yet.
        let prepared = self.run(Effect::None, self.client.prepare_typed_cached(sql, &types)).await;
        let answered = match prepared {
            Ok(statement) => {
                let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
                self.run(effect, self.client.query(&statement, &values)).await
            }
            Err(error) => Err(error),
        };
        match answered {
            // Another replica changed the tables, or a pooler switched servers: nothing ran yet.
            Err(error) if is_stale(&error) => {
                self.client.statement_cache.clear();
                self.run(effect, self.client.query_typed(sql, parameters)).await
            }
            answered => answered,
        }
    }

    /// The rows of a statement built for this call: it is planned for these values and not cached.
    pub(crate) async fn query_once(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.run(Effect::None, self.client.query_typed(sql, parameters)).await
    }

    /// One row; `internal` if there is none.
    pub(crate) async fn query_one(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
        effect: Effect,
    ) -> Result<Row> {
        let rows = self.query(sql, parameters, effect).await?;
        rows.into_iter().next().ok_or_else(|| Error::internal("PostgreSQL did not return the expected row"))
    }

    /// Statements without parameters, separated by semicolons, in one round trip.
    pub(crate) async fn batch(&self, sql: &str, effect: Effect) -> Result<()> {
        self.run(effect, self.client.batch_execute(sql)).await
    }

    /// Runs work of this connection's client until the deadline. On an exclusive connection the statement is then
    /// cancelled, and the server's reply to that is the result.
    pub(crate) async fn run<T>(
        &self,
        effect: Effect,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        if self.client.is_closed() {
            return Err(gone());
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut in_flight = InFlight { connection: self, finished: false };
        let mut work = pin!(work);
        if let Ok(done) = timeout(self.settings.deadline, work.as_mut()).await {
            in_flight.finished = true;
            return done.map_err(|error| self.translated(&error, effect));
        }
        if self.shared {
            // No other task should wait for a silent connection.
            self.abandoned.store(true, Ordering::Relaxed);
            return Err(late());
        }
        // Even if the cancel request fails, the server may still answer. The request may also come late and would hit
        // another statement: the connection is not used again.
        let _ = timeout(GRACE, self.client.cancel_token().cancel_query(self.settings.tls.clone())).await;
        match timeout(GRACE, work).await {
            Ok(Err(error)) => Err(self.translated(&error, effect)),
            Ok(Ok(value)) => match effect {
                Effect::None => Ok(value),
                // It is stored, but a cancelled wait for a standby looks like success.
                Effect::Commits => Err(outcome_unknown()),
            },
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
            timeout(self.settings.deadline, begin).await
        };
        match begun {
            Ok(Ok(inner)) => Ok(Transaction {
                inner,
                deadline: self.settings.deadline,
                settings: Arc::clone(&self.settings),
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

/// A statement of a transaction. If dropped before it finishes, the server may still run it, before the rollback.
struct Running<'a> {
    abandoned: &'a AtomicBool,
    finished: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.abandoned.store(true, Ordering::Relaxed);
        }
    }
}

/// A transaction; dropping it rolls back.
pub(crate) struct Transaction<'c> {
    inner: deadpool_postgres::Transaction<'c>,
    settings: Arc<SessionSettings>,
    deadline: Duration,
    abandoned: &'c AtomicBool,
    /// A statement failed: COMMIT would roll back and report success.
    failed: AtomicBool,
}

impl Transaction<'_> {
    /// Sets another deadline for its statements; the server's own timeout must fit.
    pub(crate) fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// The rows of one statement. Fails with the server's error; the transaction can then no longer commit.
    pub(crate) async fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.run(rows_in(&self.inner, self.settings.prepared, sql, parameters)).await
    }

    /// The rows of a statement built for this call: it is planned for these values and not cached.
    pub(crate) async fn query_once(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        self.run(self.inner.query_typed(sql, parameters)).await
    }

    /// Statements without parameters, separated by semicolons, in one round trip.
    pub(crate) async fn batch(&self, sql: &str) -> Result<()> {
        self.run(self.inner.batch_execute(sql)).await
    }

    /// Runs work of the driver's transaction until the deadline.
    pub(crate) async fn run<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let mut running = Running { abandoned: self.abandoned, finished: false };
        let mut work = pin!(work);
        let done = match timeout(self.deadline, work.as_mut()).await {
            Ok(done) => {
                running.finished = true;
                done.map_err(|error| engine(&error, Effect::None))
            }
            Err(_) => {
                let _ =
                    timeout(GRACE, self.inner.cancel_token().cancel_query(self.settings.tls.clone())).await;
                match timeout(GRACE, work).await {
                    Ok(done) => done.map_err(|error| engine(&error, Effect::None)),
                    Err(_) => Err(late()),
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

    /// Commits.
    /// Fails with `outcome_unknown` if the server's answer was lost; `internal` after a failed statement.
    pub(crate) async fn commit(self) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::internal("commit was called after a statement of the transaction had failed"));
        }
        let mut running = Running { abandoned: self.abandoned, finished: false };
        let done = timeout(self.deadline, self.inner.commit()).await;
        running.finished = done.is_ok();
        match done {
            Ok(done) => done.map_err(|error| engine(&error, Effect::Commits)),
            Err(_) => Err(outcome_unknown()),
        }
    }

    /// Rolls back.
    /// Never fails: a transaction that cannot be rolled back ends with its connection.
    pub(crate) async fn rollback(self) {
        let mut running = Running { abandoned: self.abandoned, finished: false };
        let done = timeout(self.deadline, self.inner.rollback()).await;
        running.finished = matches!(done, Ok(Ok(())));
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

/// Whether the error is `cached plan must not change result type`, or an unknown prepared statement.
fn is_stale(error: &Error) -> bool {
    matches!(crate::error::state_of(error), Some("0A000" | "26000"))
}

/// Whether the same transaction may be tried again from its start.
pub(crate) fn is_transient(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && matches!(crate::error::state_of(error), Some("40001" | "40P01"))
}
