//! Flat memories in sessions that several agents may share.

mod entry;
mod expiry;
mod keeping;
mod schema;
mod store;

pub use entry::{Entry, EntryQuery, NewEntry, SessionSummary};
pub use expiry::parse_expiry;
#[cfg(feature = "sqlite")]
pub(crate) use keeping::{EXPIRED, LEARNING, content_hash};
pub use store::Sessions;
