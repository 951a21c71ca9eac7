//! Imports databases of the original program: its flat layouts and its graph of an agent. The section "Transfer" of
//! `docs/hierarchical.md` lists them.
//!
//! The source is only read. Every row is accounted for: stored, skipped because it already exists, or refused for a
//! reason. So running it again continues where it was interrupted.

mod flat;
mod layout;
mod report;
mod source;
mod storing;
mod times;

pub use layout::Layout;
#[doc(hidden)]
pub use layout::{ENTRY_COLUMNS, SESSION_COLUMNS};
pub use report::{Migrated, TableReport};
pub use source::Source;
