//! The snapshot of an open transaction, shared with other transactions.

use std::sync::Arc;

use memory_core::{Error, Result};
use tokio::sync::oneshot;
use tokio_postgres::{IsolationLevel, Row};

use crate::connect::Transaction;
use crate::error::Effect;
use crate::store::Store;
use crate::store::parameters::Value;

/// An exported snapshot. Its transaction ends when the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot(Arc<Held>);

#[derive(Debug)]
struct Held {
    name: String,
    /// Dropping this ends the transaction.
    _held: oneshot::Sender<()>,
}

impl Snapshot {
    /// The snapshot with this name. Dropping the sender ends its transaction.
    pub(crate) fn new(name: String, held: oneshot::Sender<()>) -> Self {
        Self(Arc::new(Held { name, _held: held }))
    }

    /// Makes a transaction use the snapshot. Must be the first thing that the transaction does.
    /// Fails with `unavailable` if the snapshot's transaction has ended.
    pub(crate) async fn enter(&self, transaction: &Transaction<'_>) -> Result<()> {
        let taken = transaction.batch(&format!("SET TRANSACTION SNAPSHOT '{}'", self.0.name)).await;
        taken.map_err(|error| {
            Error::unavailable("the snapshot has ended with its connection; take another").with_source(error)
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
