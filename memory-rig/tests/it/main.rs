//! The adapter with rig's own agents, clients and types, on SQLite.

mod agent;
mod history;
mod index;
mod insert;
#[path = "../../examples/agent/openai.rs"]
mod openai;
mod support;
