//! The cases about single SQL statements: effects, arguments and results.

mod arguments;
mod embeddings;
mod entries;
mod execution;
mod functions;
mod refusals;
mod results;
mod shared_data;
mod tables;
mod values;

use crate::case::Case;

/// Every case about single statements.
pub(super) fn cases() -> Vec<Case> {
    [
        execution::CASES,
        functions::CASES,
        arguments::CASES,
        values::CASES,
        results::CASES,
        refusals::CASES,
        tables::CASES,
        entries::CASES,
        embeddings::CASES,
        shared_data::CASES,
    ]
    .concat()
}
