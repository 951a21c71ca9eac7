//! thin
use super::engine::Engine;
use memory_core::sql::{DumpStream, RestoreOutcome};
use memory_core::{Error, Result, Scope};
use std::sync::Arc;
impl Engine {
    pub(crate) async fn dump(self: &Arc<Self>, _scope: &Scope) -> Result<DumpStream> {
        Err(Error::unsupported("dump", "sqlite"))
    }
    pub(crate) async fn restore(
        self: &Arc<Self>,
        _scope: &Scope,
        _dump: DumpStream,
    ) -> Result<RestoreOutcome> {
        Err(Error::unsupported("restore", "sqlite"))
    }
}
