//! Every entry as of one moment: a read transaction on a connection of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_core::{
    Error, ErrorKind, RecordStream, Result, Scope, ScopePage, ScopesQuery, TenantId, Timestamp,
};
use rusqlite::Connection;

use crate::batch::Target;
use crate::error::engine;
use crate::portable;
use crate::read;
use crate::store::Store;

/// Runs what waits on a thread of its own.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (reply, answer) = tokio::sync::oneshot::channel();
    let run = move || {
        let done = work();
        let _ = reply.send(done);
    };
    std::thread::Builder::new().name("memory-sqlite-aside".to_owned()).spawn(run).map_err(|error| {
        Error::new(ErrorKind::Unavailable, "no thread can be started; try again").with_source(error)
    })?;
    answer.await.unwrap_or_else(|_| Err(crate::error::lost()))
}

/// The open transaction; it ends with the value.
#[derive(Debug)]
pub(crate) struct Frozen {
    connection: Mutex<Connection>,
    /// What has expired by then is not there.
    pub(crate) now: Timestamp,
}

impl Frozen {
    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Moment {
    store: Arc<Store>,
    frozen: Arc<Frozen>,
}

impl Moment {
    pub(crate) async fn begin(store: &Arc<Store>) -> Result<Self> {
        let store = Arc::clone(store);
        aside(move || {
            let Some(connection) = store.connect()? else {
                return Err(Error::unsupported("moment", "sqlite"));
            };
            // A transaction sees what was committed when it first reads.
            connection.execute_batch("BEGIN").map_err(engine)?;
            let now = store.clock.now();
            connection
                .query_row("SELECT count(*) FROM sequence", [], |row| row.get::<_, i64>(0))
                .map_err(engine)?;
            let frozen = Arc::new(Frozen { connection: Mutex::new(connection), now });
            Ok(Self { store, frozen })
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, Timestamp) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let frozen = Arc::clone(&self.frozen);
        aside(move || read(&frozen.connection(), frozen.now)).await
    }
}

#[async_trait]
impl memory_core::Moment for Moment {
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        let after = after.cloned();
        self.read(move |connection, _| read::tenants(connection, after.as_ref(), limit).map_err(Error::from))
            .await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let tenant = tenant.clone();
        self.read(move |connection, now| read::scopes(connection, &tenant, &query, now).map_err(Error::from))
            .await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        portable::export(&self.store, Target::of(scope), Some(Arc::clone(&self.frozen)))
    }
}
