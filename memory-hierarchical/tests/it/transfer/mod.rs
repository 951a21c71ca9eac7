//! Graphs as files.

mod files;
mod import;
mod json;
mod raw_db;
mod stores;
mod verdicts;

pub(crate) use files::{graph_of, multiset, shared};
