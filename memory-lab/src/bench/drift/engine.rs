//! What a row of `bench drift` is measured on.

use std::time::Duration;

use memory_core::Result;

use crate::bench::machine::Machine;

/// What is measured on: stores of the product, the same work by hand, and another program.
pub(super) trait Engine {
    /// Of what the figures are.
    fn machine(&self) -> Machine;

    /// Where its files are, for the head of the report.
    fn place(&self) -> String;

    /// The URL of a store of this name, which is empty when it is first asked for.
    fn store(&mut self, name: &'static str) -> Result<String>;

    /// Overwrites one entry after another by hand until the slice ends; how many.
    fn overwrite(&mut self, seed: u64, slice: Duration) -> Result<u64>;

    /// Has another program commit to a store, and change nothing that the sessions of this benchmark have seen.
    fn others_commit(&mut self, name: &'static str) -> Result<()>;
}
