//! GRA: sessions and a graph of knowledge per agent, over the provider's tables of the host or another store of graphs.

mod agents;
mod memories;
mod recall;
mod sessions;
mod transfer;

use crate::case::Case;

/// Every case about graphs.
pub(super) fn cases() -> Vec<Case> {
    [memories::CASES, agents::CASES, recall::CASES, transfer::CASES, sessions::CASES].concat()
}
