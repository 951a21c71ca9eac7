//! A snapshot of every entry.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Error, RecordStream, Result, Scope, ScopePage, ScopesQuery, TenantId, Timestamp};
use rusqlite::Connection;

use super::export;
use super::read_transaction::ReadTransaction;
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::commit::threads::on_own_thread;
use crate::kv::scopes;

#[derive(Debug)]
pub(crate) struct Snapshot {
    store: Arc<Store>,
    transaction: Arc<ReadTransaction>,
}

impl Snapshot {
    pub(crate) async fn begin(store: &Arc<Store>) -> Result<Self> {
        let store = Arc::clone(store);
        on_own_thread(move || {
            let Some(connection) = store.connect()? else {
                return Err(Error::unsupported("moment", "sqlite"));
            };
            let transaction = Arc::new(ReadTransaction::begin(connection, &*store.clock)?);
            Ok(Self { store, transaction })
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, Timestamp) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let transaction = Arc::clone(&self.transaction);
        on_own_thread(move || read(&transaction.connection(), transaction.now)).await
    }
}

#[async_trait]
impl memory_core::ReadSnapshot for Snapshot {
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let after = after.cloned();
        self.read(move |connection, _| {
            scopes::tenants(connection, after.as_ref(), limit).map_err(Error::from)
        })
        .await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let tenant = tenant.clone();
        self.read(move |connection, now| {
            scopes::scopes(connection, &tenant, &query, now).map_err(Error::from)
        })
        .await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        export::export(&self.store, Target::of(scope), Some(Arc::clone(&self.transaction)))
    }
}
