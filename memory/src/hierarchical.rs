//! Sessions and a graph of knowledge per agent (feature `hierarchical`): `docs/hierarchical.md`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::{Result, TenantId};

pub use memory_hierarchical::*;

use crate::memory::Memory;
use crate::system::{RandomIds, SystemClock};

/// Most tenants whose graphs stay open.
const MAX_TENANTS: usize = 16;
/// Limit of the indexes of recall of a tenant beyond that of the graph in use.
const RECALL_BYTES: usize = DEFAULT_MEMORY_BYTES / 4;

/// Opens a tenant's graphs; creates their tables if they are missing.
///
/// # Errors
/// As [`SqlGraphs::open`].
pub async fn open(memory: &Memory, tenant: &TenantId) -> Result<Arc<SqlGraphs>> {
    Ok(Arc::new(SqlGraphs::open(Arc::new(memory.clone()), tenant).await?))
}

/// The memory of an agent in these graphs, with the real clock and ids.
#[must_use]
pub fn memory_of(graphs: Arc<dyn GraphStore>, agent: Agent) -> AgentMemory {
    AgentMemory::new(graphs, agent, Arc::new(SystemClock), Arc::new(RandomIds))
}

/// Opens a tenant's sessions, with the real clock and ids; creates their tables if they are missing.
///
/// # Errors
/// As [`Sessions::open`].
pub async fn sessions(memory: &Memory, tenant: &TenantId) -> Result<Sessions> {
    Sessions::open(Arc::new(memory.clone()), tenant, Arc::new(SystemClock), Arc::new(RandomIds)).await
}

/// The graphs of a tenant, and recall over them.
#[derive(Debug)]
pub(crate) struct TenantGraphs {
    graphs: Arc<SqlGraphs>,
    pub(crate) recall: GraphRecall,
}

impl TenantGraphs {
    /// The memory of an agent.
    pub(crate) fn memory_of(&self, agent: Agent) -> AgentMemory {
        memory_of(Arc::clone(&self.graphs) as _, agent)
    }
}

/// The tenants whose graphs are open.
#[derive(Debug, Default)]
pub(crate) struct Opened(Mutex<BTreeMap<TenantId, Arc<TenantGraphs>>>);

impl Opened {
    pub(crate) async fn of(&self, memory: &Memory, tenant: &TenantId) -> Result<Arc<TenantGraphs>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let graphs = open(memory, tenant).await?;
        let recall = GraphRecall::new(Arc::clone(&graphs) as _, RECALL_BYTES);
        let mut tenants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tenants.len() >= MAX_TENANTS {
            tenants.clear();
        }
        Ok(Arc::clone(tenants.entry(tenant.clone()).or_insert(Arc::new(TenantGraphs { graphs, recall }))))
    }
}
