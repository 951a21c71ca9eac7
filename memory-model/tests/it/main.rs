//! The tests of `memory-model`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod embedder;
mod table;
