//! Every entry as of one moment: a transaction that nothing else is done in, whose snapshot others take over.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Error, ErrorKind, RecordStream, Result, Scope, ScopePage, ScopesQuery, TenantId};
use tokio::sync::oneshot;
use tokio_postgres::{IsolationLevel, Row};

use crate::connect::Transaction;
use crate::error::Effect;
use crate::kv::row::column;
use crate::kv::target::{Target, Value};
use crate::kv::{portable, read};
use crate::store::Store;

/// Between two signs of life: the server ends transactions that lie idle.
const PULSE: Duration = Duration::from_secs(5);

/// The name of a snapshot, for as long as the transaction that it is of is open.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot(Arc<Held>);

#[derive(Debug)]
struct Held {
    name: String,
    /// The transaction ends when this is dropped.
    _held: oneshot::Sender<()>,
}

impl Snapshot {
    /// Takes it over, as the first that a transaction does.
    ///
    /// # Errors
    /// `unavailable` where the transaction that it is of has ended.
    pub(crate) async fn enter(&self, transaction: &Transaction<'_>) -> Result<()> {
        let taken = transaction.batch(&format!("SET TRANSACTION SNAPSHOT '{}'", self.0.name)).await;
        taken.map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the moment has ended with its connection; begin another")
                .with_source(error)
        })
    }
}

/// The rows of one statement, as they are now or were at a moment.
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

#[derive(Debug)]
pub(crate) struct Moment {
    store: Arc<Store>,
    snapshot: Snapshot,
}

impl Moment {
    pub(crate) async fn begin(store: &Arc<Store>) -> Result<Self> {
        let (tell, told) = oneshot::channel();
        let (held, mut end) = oneshot::channel();
        let of_task = Arc::clone(store);
        tokio::spawn(async move { hold(&of_task, tell, &mut end).await });
        let lost = |_| Err(Error::new(ErrorKind::Unavailable, "the moment was lost; begin it again"));
        let name = told.await.unwrap_or_else(lost)?;
        Ok(Self { store: Arc::clone(store), snapshot: Snapshot(Arc::new(Held { name, _held: held })) })
    }
}

/// Keeps the transaction open until nobody wants it any more.
async fn hold(store: &Store, tell: oneshot::Sender<Result<String>>, end: &mut oneshot::Receiver<()>) {
    let mut connection = match store.connections.take().await {
        Ok(connection) => connection,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let begun = async {
        let transaction = connection.transaction(IsolationLevel::RepeatableRead, true).await?;
        let rows = transaction.query("SELECT pg_export_snapshot()", &[]).await?;
        let row = rows.first().ok_or_else(|| Error::internal("PostgreSQL exports no snapshot"))?;
        let name: String = column(row, 0, "snapshot")?;
        if name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-') {
            return Err(Error::internal("PostgreSQL names a snapshot as it never did"));
        }
        Ok((transaction, name))
    };
    let transaction = match begun.await {
        Ok((transaction, name)) => {
            if tell.send(Ok(name)).is_err() {
                return;
            }
            transaction
        }
        Err(error) => return drop(tell.send(Err(error))),
    };
    while tokio::time::timeout(PULSE, &mut *end).await.is_err() {
        if let Err(error) = transaction.query("SELECT 1", &[]).await {
            tracing::warn!(%error, "a moment has ended before its time");
            return;
        }
    }
    transaction.rollback().await;
}

#[async_trait]
impl memory_core::Moment for Moment {
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        read::tenants(&self.store, Some(&self.snapshot), after, limit).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        read::scopes(&self.store, Some(&self.snapshot), tenant, &query).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        Ok(portable::export(&self.store, Target::of(scope), Some(self.snapshot.clone())))
    }
}
