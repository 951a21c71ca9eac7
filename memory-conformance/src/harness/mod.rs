//! What a vendor implements, and what the suite provides: a clock, ids, an embedder and an executor.

pub mod embedder;
pub mod executor;
pub mod fixture;
mod open;

pub use open::{Harness, SHARED_DATA, SqlSetup};
