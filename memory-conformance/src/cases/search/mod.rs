//! The cases about searches, by words, by vectors and by both, and about embedding.

mod dedup;
mod embedding;
mod hybrid;
mod lexical;
mod many_vectors;
mod models;
mod query_options;
mod ranking;
mod reembed;
mod slow_embedder;
mod small_caches;
mod vector_transfer;
mod vectors;
mod write_histories;

use crate::case::Case;

/// Every case about searches and embedding.
pub(super) fn cases() -> Vec<Case> {
    [
        lexical::CASES,
        query_options::CASES,
        vectors::CASES,
        hybrid::CASES,
        write_histories::CASES,
        ranking::CASES,
        dedup::CASES,
        embedding::CASES,
        slow_embedder::CASES,
        vector_transfer::CASES,
        reembed::CASES,
        models::CASES,
        small_caches::CASES,
        many_vectors::CASES,
    ]
    .concat()
}
