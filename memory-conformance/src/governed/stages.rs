//! The stages of `memory-governed` over one provider.

use std::fmt;
use std::sync::Arc;

use memory_core::host::HostTables;
#[cfg(feature = "mutants")]
use memory_core::host::Session;
use memory_core::{Clock, IdGen, Provider, Result};
use memory_governed::{
    Ledger, PendingMemoryQueue, PromotionPipeline, Review, SharedMemory, Space, WorkingMemory,
};

use super::setup::Setup;
use super::state::SharedState;

/// The name of the space that cases use.
const SPACE: &str = "shared";

/// The stages of one space.
pub struct Stages {
    pub(crate) notes: WorkingMemory,
    pub(crate) pipeline: PromotionPipeline,
    pub(crate) queue: PendingMemoryQueue,
    pub(crate) review: Review,
    pub(crate) shared: SharedMemory,
    pub(crate) ledger: Ledger,
    pub(crate) space: Space,
    tables: HostTables,
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("space", &self.space).finish_non_exhaustive()
    }
}

impl Stages {
    /// Opens the space and its stages, with the time and ids of the provider.
    ///
    /// # Errors
    /// As [`Space::open`].
    pub(crate) async fn open(
        provider: Arc<dyn Provider>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
        setup: Setup,
    ) -> Result<Box<dyn SharedState>> {
        let Setup { tenant, interpreter, resolver, options, wrap } = setup;
        let tables = HostTables::new(Arc::clone(&provider), &tenant, SPACE)?;
        let space = Space::open(provider, &tenant, SPACE, clock, ids, options).await?;
        let queue = PendingMemoryQueue::new(&space, Arc::clone(&resolver));
        Ok(wrap(Self {
            notes: WorkingMemory::new(&space),
            pipeline: PromotionPipeline::new(&space, interpreter, resolver),
            review: Review::new(queue.clone()),
            queue,
            shared: SharedMemory::new(&space),
            ledger: Ledger::new(&space),
            space,
            tables,
        }))
    }

    /// Statements on the tables behind the stages: what a defect leaves there.
    #[cfg(feature = "mutants")]
    pub(crate) fn behind(&self) -> Session<'_> {
        self.tables.plain()
    }

    /// The scope of the tables.
    #[must_use]
    pub fn scope(&self) -> &memory_core::Scope {
        self.tables.scope()
    }
}
