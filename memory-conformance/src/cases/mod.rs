//! The table. Each module holds the cases of one area and says nothing of any backend.

use crate::case::Case;

mod bulk;
mod capabilities;
mod dedup;
mod delete;
mod filters;
mod given;
mod increment;
mod isolation;
mod keys;
mod kv;
mod lexical;
mod lifetime;
mod list;
mod ranking;
mod search;
mod update;
mod values;
mod versions;

/// Every case, in the order of the table.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        capabilities::cases(),
        isolation::cases(),
        keys::cases(),
        values::cases(),
        kv::cases(),
        lifetime::cases(),
        versions::cases(),
        delete::cases(),
        list::cases(),
        filters::cases(),
        increment::cases(),
        update::cases(),
        bulk::cases(),
        lexical::cases(),
        search::cases(),
        ranking::cases(),
        dedup::cases(),
    ]
    .concat()
}
