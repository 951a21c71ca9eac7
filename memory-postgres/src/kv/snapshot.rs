//! The snapshot of an open transaction, which other transactions read from too.

use std::sync::Arc;

use memory_core::{Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio_postgres::{IsolationLevel, Row};

use crate::connect::Transaction;
use crate::error::Effect;
use crate::store::Store;
use crate::store::parameters::Value;

/// The snapshot of an open transaction. The transaction ends when the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot(Arc<Held>);

#[derive(Debug)]
struct Held {
    name: String,
    /// The transaction ends when this is dropped.
    _held: oneshot::Sender<()>,
}

impl Snapshot {
    /// The snapshot of that name. Dropping the sender ends the transaction behind it.
    pub(crate) fn new(name: String, held: oneshot::Sender<()>) -> Self {
        Self(Arc::new(Held { name, _held: held }))
    }

    /// Makes a transaction read from it. Must be the first thing that the transaction does.
    ///
    /// # Errors
    /// `unavailable` where the transaction behind it has ended.
    pub(crate) async fn enter(&self, transaction: &Transaction<'_>) -> Result<()> {
        let taken = transaction.batch(&format!("SET TRANSACTION SNAPSHOT '{}'", self.0.name)).await;
        taken.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the moment has ended with its connection; begin another")
                .with_source(error)
        })
    }
}

/// The rows of one statement, as of now or of a snapshot.
pub(crate) async fn rows(
    store: &Store,
    at: Option<&Snapshot>,
    sql: &str,
    values: &[Value<'_>],
) -> Result<Vec<Row>> {
    let mut connection = store.connections.take().await?;
    let Some(snapshot) = at else { return connection.query(sql, values, Effect::None).await };
    let transaction = connection.transaction(IsolationLevel::RepeatableRead, true).await?;
    snapshot.enter(&transaction).await?;
    transaction.query(sql, values).await
}
