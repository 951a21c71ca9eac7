//! The cases about the SQL facet, by the sections of its page.

mod databases;
mod deadlines;
mod dumps;
mod host_tables;
mod isolation;
mod quotas;
mod statement;
mod transaction_lifetime;
mod transactions;

use crate::case::Case;

/// Every case about SQL.
pub(super) fn cases() -> Vec<Case> {
    [
        &*statement::cases(),
        isolation::CASES,
        transactions::CASES,
        transaction_lifetime::CASES,
        quotas::CASES,
        deadlines::CASES,
        databases::CASES,
        dumps::CASES,
        host_tables::CASES,
    ]
    .concat()
}
