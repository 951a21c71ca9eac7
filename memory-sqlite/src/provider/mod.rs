//! The provider: every facet over one open database.

mod backend;
mod closing;
#[cfg(test)]
mod drift_tests;
mod facets;
#[cfg(test)]
mod health_tests;
mod open;

pub use closing::wait_until_closed;
pub use open::SqliteProvider;
