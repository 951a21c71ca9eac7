//! The table of cases. Each module covers one area and is independent of any backend.

mod contract;
#[cfg(feature = "governed")]
mod governed;
#[cfg(feature = "hierarchical")]
mod graph;
mod kv;
mod layer;
mod lifecycle;
mod search;
mod sql;

use crate::case::Case;

/// Every case, in the order of the table.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        contract::cases(),
        kv::cases(),
        search::cases(),
        lifecycle::cases(),
        sql::cases(),
        layer::cases(),
        #[cfg(feature = "governed")]
        governed::cases(),
        #[cfg(feature = "hierarchical")]
        graph::cases(),
    ]
    .concat()
}
