//! The cases about the SQL facet, by the sections of its page.

use crate::case::Case;

mod arguments;
mod company;
mod databases;
mod dumps;
mod embeddings;
mod entries;
mod own;
mod refused;
mod results;
mod room;
mod shared;
mod statements;
mod tables;
mod time;
mod transactions;
mod values;

/// Every case about SQL.
pub(super) fn cases() -> Vec<Case> {
    [
        statements::cases(),
        arguments::cases(),
        values::cases(),
        results::cases(),
        refused::cases(),
        own::cases(),
        transactions::cases(),
        company::cases(),
        room::cases(),
        time::cases(),
        tables::cases(),
        databases::cases(),
        dumps::cases(),
        entries::cases(),
        embeddings::cases(),
        shared::cases(),
    ]
    .concat()
}
