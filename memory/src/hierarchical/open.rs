//! Opens graphs and sessions with the real clock and ids.

use std::sync::Arc;

use memory_core::{Result, TenantId};

use memory_hierarchical::{Agent, AgentMemory, GraphStore, Sessions, SqlGraphs};

use crate::memory::Memory;
use crate::system::{RandomIds, SystemClock};

/// Opens a tenant's graphs; creates their tables if they are missing.
///
/// # Errors
/// As [`SqlGraphs::open`].
pub async fn open(memory: &Memory, tenant: &TenantId) -> Result<Arc<SqlGraphs>> {
    Ok(Arc::new(SqlGraphs::open(Arc::new(memory.clone()), tenant, Arc::new(RandomIds)).await?))
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
