//! The memory of one agent, on any store of graphs.

mod answers;
mod history;
mod memory;
mod walk;

pub use answers::{HistoryEntry, Neighbour, Neighbours, Stats};
pub use memory::AgentMemory;
pub use walk::MAX_STEPS;
