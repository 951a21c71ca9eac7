//! Snapshot files: writing them, and the ledger that lists them.

mod ledger;
mod new_file;
pub(super) mod place;
mod shared;
mod under_way;

pub use ledger::{Ledger, LedgerEntry};
pub use new_file::{FileOptions, NewFile, to_file};
pub(crate) use shared::locked;
pub(crate) use under_way::{clean_last, is_under_way, last_name};
