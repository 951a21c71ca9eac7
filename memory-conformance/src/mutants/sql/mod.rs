//! Mutants of the SQL facet. Each wraps the provider under test, behind or in front of `Checked`.

mod arguments;
mod databases;
mod deadlines;
mod dumps;
mod entries;
mod host_tables;
mod isolation;
mod refusals;
mod requests;
mod results;
mod statements;
mod transactions;

use super::mutant::Mutant;

/// Every mutant about SQL.
pub(super) fn mutants() -> Vec<Mutant> {
    [
        statements::MUTANTS,
        arguments::MUTANTS,
        results::MUTANTS,
        refusals::MUTANTS,
        isolation::MUTANTS,
        transactions::MUTANTS,
        deadlines::MUTANTS,
        databases::MUTANTS,
        dumps::MUTANTS,
        entries::MUTANTS,
        host_tables::MUTANTS,
    ]
    .concat()
}
