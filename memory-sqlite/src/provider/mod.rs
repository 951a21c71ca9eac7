//! The provider: every facet over one open database.

mod backend;
#[cfg(test)]
mod drift_tests;
mod facets;
mod open;

pub use open::SqliteProvider;
