//! Shared state of several agents (feature `governed`): `docs/governed.md`. A note becomes state that others read only
//! when its meaning is certain.

use std::sync::Arc;

use memory_core::{ChatModel, Result, TenantId};

pub use memory_governed::*;

use crate::memory::Memory;
use crate::system::{RandomIds, SystemClock};

pub use crate::policy::DEFAULT_SPACE;

/// Opens a tenant's shared space, with the real clock and ids; creates its tables if they are missing.
///
/// # Errors
/// As [`Space::open`].
pub async fn open(memory: &Memory, tenant: &TenantId, space: &str) -> Result<Space> {
    let provider = Arc::new(memory.clone());
    Space::open(provider, tenant, space, Arc::new(SystemClock), Arc::new(RandomIds), Options::default()).await
}

/// A pipeline for this space with the deciders of this build.
#[must_use]
pub fn pipeline(space: &Space) -> PromotionPipeline {
    PromotionPipeline::new(space, Arc::new(Rules), Arc::new(Calibrated::new()))
}

/// A pipeline for this space whose notes are read by this language model, or by rules if there is none.
#[must_use]
pub fn pipeline_with(space: &Space, model: Option<Arc<dyn ChatModel>>) -> PromotionPipeline {
    match model {
        None => pipeline(space),
        Some(model) => {
            PromotionPipeline::new(space, Arc::new(ModelInterpreter::new(model)), Arc::new(Calibrated::new()))
        }
    }
}

/// The deferred writes of this space, with the resolver of this build.
#[must_use]
pub fn queue(space: &Space) -> PendingMemoryQueue {
    PendingMemoryQueue::new(space, Arc::new(Calibrated::new()))
}
