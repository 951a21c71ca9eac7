//! What a vendor writes, and what the suite brings: time, ids, an embedder, and a place where futures run.

pub mod embedder;
pub mod executor;
pub mod fixture;
mod open;

pub use open::{Harness, SHARED_DATA, SqlSetup};
