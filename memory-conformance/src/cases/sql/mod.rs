//! The cases about the SQL facet, by the sections of its page.

mod databases;
mod deadlines;
mod dumps;
mod isolation;
mod quotas;
mod statement;
mod transaction_lifetime;
mod transactions;

use crate::case::Case;

/// Every case about SQL.
pub(super) fn cases() -> Vec<Case> {
    [
        statement::cases(),
        isolation::cases(),
        transactions::cases(),
        transaction_lifetime::cases(),
        quotas::cases(),
        deadlines::cases(),
        databases::cases(),
        dumps::cases(),
    ]
    .concat()
}
