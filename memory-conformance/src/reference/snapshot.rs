//! A read snapshot: a copy of everything.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_core::{
    Backend as _, Clock, Provider as _, ReadSnapshot, RecordStream, Result, Scope, ScopePage, ScopesQuery,
    TenantId, Timestamp,
};

use super::fault::Fault;
use super::store::Reference;

#[derive(Debug)]
struct Copied(Reference);

#[derive(Debug)]
struct Stopped(Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }
}

impl Reference {
    pub(super) fn copied(&self) -> Arc<dyn ReadSnapshot> {
        let mut copy = self.clone();
        if !self.faults.has(Fault::MomentMoves) {
            copy.scopes = Arc::new(Mutex::new(self.lock().clone()));
            copy.clock = Arc::new(Stopped(self.clock.now()));
        }
        Arc::new(Copied(copy))
    }
}

#[async_trait]
impl ReadSnapshot for Copied {
    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        self.0.tenants(after, limit).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        self.0.scopes(tenant, query).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        self.0.export_scope(scope).await
    }
}
