//! The provider: every facet over one open database.

mod backend;
mod closing;
#[cfg(test)]
mod drift_tests;
mod facets;
mod open;
#[cfg(test)]
mod segments_tests;
#[cfg(test)]
mod waiting_tests;

pub use closing::wait_until_closed;
pub use open::SqliteProvider;
