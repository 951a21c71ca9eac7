//! The table. Each module holds the cases of one area and says nothing of any backend.

use crate::case::Case;

mod capabilities;
mod kv;
mod versions;

/// Every case, in the order of the table.
#[must_use]
pub fn all() -> Vec<Case> {
    [capabilities::cases(), kv::cases(), versions::cases()].concat()
}
