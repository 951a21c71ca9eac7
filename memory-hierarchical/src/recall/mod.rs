//! Recall: words find memories, and a walk along edges finds what belongs to them.

mod cache;
mod index;
mod options;
mod ranker;
mod walk;

pub use options::{GraphHit, RecallOptions, Recalled, Step};
pub use ranker::{DEFAULT_MEMORY_BYTES, GraphRecall};
