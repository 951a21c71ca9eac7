//! Which clock decides: the server's, or the caller's.

use std::sync::Arc;

use memory_core::Clock;

/// The clock for every decision.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    /// The server's clock, read in the statement that decides.
    Server,
    /// A clock given by the caller.
    Given(Arc<dyn Clock>),
}

impl Time {
    /// The parameter `$n bigint` of a statement that computes its time as
    /// `coalesce($n, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)`.
    pub(crate) fn parameter(&self) -> Option<i64> {
        match self {
            Self::Server => None,
            Self::Given(clock) => Some(clock.now().as_millis()),
        }
    }
}
