//! The graphs of tenants, opened once for all runs that share a backend, with the indexes for recall.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::{Provider, Result, TenantId};
use memory_hierarchical::{Agent, AgentMemory, DEFAULT_MEMORY_BYTES, GraphRecall, SqlGraphs};

use crate::system::{RandomIds, SystemClock};

/// Most tenants whose graphs stay open.
const MAX_TENANTS: usize = 16;
/// Memory limit of a tenant's recall indexes, beyond that of the graph in use.
const RECALL_BYTES: usize = DEFAULT_MEMORY_BYTES / 4;

/// The graphs of a tenant, and recall across them.
#[derive(Debug)]
pub(crate) struct TenantGraphs {
    graphs: Arc<SqlGraphs>,
    pub(crate) recall: GraphRecall,
}

impl TenantGraphs {
    /// The memory of an agent.
    pub(crate) fn memory_of(&self, agent: Agent) -> AgentMemory {
        AgentMemory::new(Arc::clone(&self.graphs) as _, agent, Arc::new(SystemClock), Arc::new(RandomIds))
    }
}

/// The tenants whose graphs are open.
#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<BTreeMap<TenantId, Arc<TenantGraphs>>>);

impl Opened {
    pub(crate) async fn of(
        &self,
        provider: Arc<dyn Provider>,
        tenant: &TenantId,
    ) -> Result<Arc<TenantGraphs>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let graphs = Arc::new(SqlGraphs::open(provider, tenant, Arc::new(RandomIds)).await?);
        let recall = GraphRecall::new(Arc::clone(&graphs) as _, RECALL_BYTES);
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MAX_TENANTS {
            tenants.clear();
        }
        Ok(Arc::clone(tenants.entry(tenant.clone()).or_insert(Arc::new(TenantGraphs { graphs, recall }))))
    }
}
