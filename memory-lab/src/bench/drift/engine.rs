//! The engine that `bench drift` measures.

use std::time::Duration;

use memory_core::Result;

use crate::bench::machine::Machine;

/// An engine: stores of the product on it, the same work by hand, and another program.
pub(super) trait Engine {
    /// Description of the machine for the report.
    fn machine(&self) -> Machine;

    /// Its folder or server, for the head of the report.
    fn location(&self) -> String;

    /// The URL of a store by this name, which is empty at first.
    fn store(&mut self, name: &'static str) -> Result<String>;

    /// Overwrites one entry after another by hand until the slice ends; returns how many.
    fn overwrite(&mut self, seed: u64, slice: Duration) -> Result<u64>;

    /// Lets another program commit to a store without changing anything that the benchmark's sessions have seen.
    fn others_commit(&mut self, name: &'static str) -> Result<()>;
}
