//! A snapshot of every scope: a transaction stays open, and reads import its snapshot.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::{Error, RecordStream, Result, Scope, ScopePage, ScopesQuery, TenantId};
use tokio::sync::oneshot;
use tokio_postgres::IsolationLevel;

use crate::kv::read;
use crate::kv::snapshot::Snapshot;
use crate::lifecycle::export;
use crate::store::Store;
use crate::store::columns::column;
use crate::store::scope_ref::ScopeRef;

/// The interval of queries that keep the transaction alive: the server ends idle ones.
const PULSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct SharedSnapshot {
    store: Arc<Store>,
    snapshot: Snapshot,
}

impl SharedSnapshot {
    pub(crate) async fn begin(store: &Arc<Store>) -> Result<Self> {
        let (tell, told) = oneshot::channel();
        let (held, mut end) = oneshot::channel();
        let of_task = Arc::clone(store);
        tokio::spawn(async move { hold(&of_task, tell, &mut end).await });
        let lost = |_| Err(Error::unavailable("the snapshot was lost; take it again"));
        let name = told.await.unwrap_or_else(lost)?;
        Ok(Self { store: Arc::clone(store), snapshot: Snapshot::new(name, held) })
    }
}

/// Keeps the transaction open until the snapshot is dropped.
async fn hold(store: &Store, tell: oneshot::Sender<Result<String>>, end: &mut oneshot::Receiver<()>) {
    let (mut connection, _permit) = match store.connections.take_for_long().await {
        Ok(taken) => taken,
        Err(error) => return drop(tell.send(Err(error))),
    };
    let begun = async {
        let transaction = connection.transaction(IsolationLevel::RepeatableRead, true).await?;
        let rows = transaction.query("SELECT pg_export_snapshot()", &[]).await?;
        let row = rows.first().ok_or_else(|| Error::internal("PostgreSQL did not export a snapshot"))?;
        let name: String = column(row, 0, "snapshot")?;
        if name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-') {
            return Err(Error::internal("PostgreSQL returned an unexpected name for a snapshot"));
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
            tracing::warn!(%error, "a snapshot ended early");
            return;
        }
    }
    transaction.rollback().await;
}

#[async_trait]
impl memory_core::ReadSnapshot for SharedSnapshot {
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        read::tenants(&self.store, Some(&self.snapshot), after, limit).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        read::scopes(&self.store, Some(&self.snapshot), tenant, &query).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        Ok(export::export(&self.store, ScopeRef::of(scope), Some(self.snapshot.clone())))
    }
}
