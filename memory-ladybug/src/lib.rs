//! Graphs of hierarchical memory on the graph engine LadybugDB, the successor of Kuzu: `LadybugGraphs` is a
//! `GraphStore` of `memory-hierarchical`. `docs/hierarchical.md` says how the engine is linked.
//!
//! Everything is behind the feature `engine`.
#![cfg(feature = "engine")]

mod cypher;
mod engine;
mod error;
mod files;
mod graphs;
mod lock;
mod log;
mod migrate;
mod rows;
mod write;

pub use files::is_engine_file;
pub use graphs::LadybugGraphs;
pub use migrate::read_source;
