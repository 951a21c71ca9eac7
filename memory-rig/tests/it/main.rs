//! The adapter with rig's own agents, clients and types, on SQLite.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may fail so"
)]

mod agent;
mod history;
mod index;
mod insert;
#[path = "../../examples/agent/openai.rs"]
mod openai;
mod support;
