//! Graphs in SQL tables: the runtime's own tables in a provider's store, the same on SQLite and PostgreSQL.

mod graphs;
mod rows;
mod schema;
mod write;

pub use graphs::SqlGraphs;
