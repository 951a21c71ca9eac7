//! Flat memories in sessions that several agents may share.

mod entry;
mod expiry;
mod keeping;
mod schema;
mod store;

pub use entry::{Entry, EntryQuery, NewEntry, SessionSummary};
pub use expiry::parse_expiry;
pub use store::Sessions;
