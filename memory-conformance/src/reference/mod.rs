//! The reference provider: in memory, and obviously right rather than fast.

mod backend;
mod erase;
mod eviction;
#[cfg_attr(not(feature = "mutants"), allow(dead_code, reason = "mutants alone break the oracle"))]
pub(crate) mod fault;
mod faulty_hybrid;
mod harness;
mod layer;
mod provider;
mod search;
mod snapshot;
mod state;
mod store;
mod transfer;

pub use harness::ReferenceHarness;
pub use layer::LayerKind;
pub use store::Reference;
