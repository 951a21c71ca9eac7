//! What the stages are made of.

use std::fmt;
use std::sync::Arc;

use memory_core::TenantId;
use memory_governed::{Calibrated, Interpreter, Options, Resolver};

use super::stages::Stages;
use super::state::SharedState;

/// What the stages of a shared space are made of. A mutant changes it.
#[non_exhaustive]
pub struct Setup {
    /// Whose space it is.
    pub tenant: TenantId,
    /// Says what a note asks for.
    pub interpreter: Arc<dyn Interpreter>,
    /// Says which row it means.
    pub resolver: Arc<dyn Resolver>,
    /// How patient it is.
    pub options: Options,
    /// What cases talk to.
    pub wrap: fn(Stages) -> Box<dyn SharedState>,
}

impl Setup {
    /// The stages as they are, with this interpreter.
    #[must_use]
    pub fn new(tenant: TenantId, interpreter: Arc<dyn Interpreter>) -> Self {
        Self {
            tenant,
            interpreter,
            resolver: Arc::new(Calibrated::new()),
            options: Options::default(),
            wrap: |stages| Box::new(stages),
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("tenant", &self.tenant)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
